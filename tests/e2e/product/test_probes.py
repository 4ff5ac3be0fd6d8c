"""Probes and ports on real nodes: a Service that follows readiness, failures that end an attempt, commands that hang."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from iris_devcluster.images.programs import program
from iris_devcluster.nodes import Cluster
from tests.e2e.product.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("slice_name")]

SERVE = "mkdir -p /www; echo hello > /www/index.html; exec httpd -f -p $IRIS_HOST_IP:$IRIS_PORT_HTTP -h /www"
# The task image's busybox is static, without libc's look-ups: wget dies of them, nslookup and nc do without.
VISIT = """
until ip=$(nslookup web.default.svc.cluster.local | awk '/^Address: /{print $2; exit}'); [ -n "$ip" ]; do sleep 0.5; done
echo at $ip
ask() { printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 $ip 80 | grep hello; }
ask || echo refused
until ask; do sleep 0.2; done
while ask >/dev/null; do sleep 0.2; done
echo lost
"""


def _inside(world: World, name: str, script: str) -> str:
    """Run a script in the container of a running Task, past Iris."""
    task = world.get("task", name)
    assert task is not None
    command = [str(program("ctr")), "-n", "iris", "tasks", "exec", "--exec-id", uuid.uuid4().hex]
    node, sandbox = task["status"]["nodeName"], task["status"]["containerId"]
    done = Cluster.open(world.root).node_exec(node, [*command, sandbox, "sh", "-c", script])
    assert done.returncode == 0, done
    return done.stdout.decode() if isinstance(done.stdout, bytes) else str(done.stdout)


def _condition(world: World, name: str, kind: str, status: str) -> dict[str, Any]:
    """Wait for a condition of a Task."""

    def look() -> dict[str, Any] | None:
        told = (world.get("task", name) or {}).get("status", {}).get("conditions", [])
        return next((one for one in told if one["type"] == kind and one["status"] == status), None)

    return world.until(look, f"condition {kind} of task {name} to be {status}")


def _log(world: World, name: str) -> list[str]:
    try:
        return world.iris("logs", name).splitlines()
    except AssertionError:  # it has none yet
        return []


@pytest.mark.soak  # DNS and kube-proxy take their time
def test_a_service_leads_to_a_task_while_it_is_ready(world: World) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"name": "http", "port": 80}]},
    }
    world.kubectl("apply", "-f", "-", stdin=json.dumps(service))
    probe = {"httpGet": {"port": "http", "path": "/ready"}, "periodSeconds": 1, "failureThreshold": 1}
    world.task("web", SERVE, ports=[{"name": "http"}], serviceName="web", readinessProbe=probe)
    world.wait_phase("web", "Running")
    world.task("visitor", VISIT)
    world.until(lambda: "refused" in _log(world, "visitor"), "the Service to refuse")
    assert any(re.fullmatch(r"at [0-9.]+", line) for line in _log(world, "visitor"))
    not_ready = _condition(world, "web", "Ready", "False")
    assert not_ready["reason"] in ("ReadinessProbePending", "ReadinessProbeFailed")

    _inside(world, "web", "touch /www/ready")
    _condition(world, "web", "Ready", "True")
    world.until(lambda: "hello" in _log(world, "visitor"), "the Service to lead to the Task")
    _inside(world, "web", "rm /www/ready")
    failed = _condition(world, "web", "Ready", "False")
    assert failed["reason"] == "ReadinessProbeFailed"
    assert failed["message"].endswith("/ready 404 Not Found")
    assert world.ended("visitor")["phase"] == "Succeeded"
    assert _log(world, "visitor")[-1] == "lost"
    world.kubectl("delete", "task/web", "task/visitor", "service/web", "--timeout=60s")


def test_a_liveness_failure_is_retried_as_the_users(world: World) -> None:
    probe = {
        "exec": {"command": ["sh", "-c", "[ $IRIS_ATTEMPT -gt 1 ] || { echo gone stale; exit 1; }"]},
        "periodSeconds": 1,
        "failureThreshold": 2,
    }
    script = "[ $IRIS_ATTEMPT -gt 1 ] && exit 0; while :; do sleep 0.1; done"
    world.task("stale", script, livenessProbe=probe, retryPolicy={"user": 1, "backoffSeconds": 0},
               terminationGracePeriodSeconds=1)  # fmt: skip
    status = world.ended("stale")
    assert (status["phase"], status["attempt"], status["retries"]["user"]) == ("Succeeded", 2, 1)
    (first,) = status["attempts"]
    assert (first["reason"], first["cause"]) == ("LivenessProbeFailed", "User")
    assert "liveness failed 2 times in a row" in first["message"]
    assert "exit code 1: gone stale" in first["message"]
    world.kubectl("delete", "task/stale", "--timeout=60s")


def test_a_probe_that_hangs_is_killed_whole_and_started_waits_for_it(world: World) -> None:
    seconds = "98765"
    hang = f"echo >> /tmp/asked; [ -f /tmp/up ] && exit 0; sleep {seconds} & sleep {seconds}"
    probe = {"exec": {"command": ["sh", "-c", hang]}, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1000}
    never = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    world.task("slow", "trap 'exit 0' TERM; while :; do sleep 0.1; done", startupProbe=probe, livenessProbe=never)
    _condition(world, "slow", "Started", "False")
    asked = "cat /tmp/asked 2>/dev/null | wc -l"
    world.until(lambda: int(_inside(world, "slow", asked)) >= 3, "three probes, two of them killed")
    assert _count(f"sleep {seconds}") <= 2  # of the one that is asked now
    _inside(world, "slow", "touch /tmp/up")
    status = world.ended("slow")  # once it has started, its liveness counts
    assert (status["phase"], status["reason"]) == ("Failed", "LivenessProbeFailed")
    assert {one["type"]: one["status"] for one in status["conditions"]}["Started"] == "True"
    world.until(lambda: _count(f"sleep {seconds}") == 0, "the probes' processes to be gone")
    world.kubectl("delete", "task/slow", "--timeout=60s")


def test_two_tasks_want_one_port(world: World) -> None:
    wants: dict[str, Any] = {"ports": [{"name": "http", "containerPort": 18080}], "placement": {"sliceName": "shared"}}
    world.task("first", "trap 'exit 0' TERM; httpd -p $IRIS_PORT_HTTP; while :; do sleep 0.1; done", **wants)
    first = world.wait_phase("first", "Running")
    assert [(one["name"], one["port"]) for one in first["status"]["ports"]] == [("http", 18080)]
    world.task("second", "echo mine", **wants)
    waits = world.wait_phase("second", "Pending")["status"]
    assert waits["reason"] == "PortTaken"
    assert (
        f"port 18080 is taken on the only node that has room: by first on {first['status']['nodeName']}"
        in waits["message"]
    )
    world.kubectl("delete", "task/first", "--timeout=60s")
    assert world.ended("second")["phase"] == "Succeeded"
    world.kubectl("delete", "task/second", "--timeout=60s")


def _count(command: str) -> int:
    """Processes on this machine with that command line, sandboxes' included."""
    wanted, found = command.replace(" ", "\0") + "\0", 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_text(errors="replace") == wanted
        except OSError:  # it has just ended
            continue
    return found
