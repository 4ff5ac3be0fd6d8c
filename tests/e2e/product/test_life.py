"""A Task's life around its command: set-up, timeouts, its end, retries, and what it may use."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.product.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("slice_name")]

_SAY_BYE = {"command": ["sh", "-c", "echo bye >/proc/1/fd/1"]}


def sh(script: str, name: str = "") -> dict[str, Any]:
    return {"name": name, "command": ["sh", "-c", script]}


def test_set_up_in_order_then_the_command_as_process_1(world: World) -> None:
    world.kubectl("create", "configmap", "prepare", "--from-literal=script=false | true; echo never")
    script = {"setupScript": {"inline": 'echo "script as $(id -u)" | cat\ntouch /tmp/made\n'}}
    failing = {"setupScript": {"configMapKeyRef": {"name": "prepare", "key": "script"}}}
    world.task("prepared", 'echo "pid $$, $GREETING"; exit 7', containerLifetime=script,
               setup=[sh("ls /tmp/made"), sh('echo "two: $GREETING" >&2')], securityContext={"runAsUser": 1234},
               env=[{"name": "GREETING", "value": "hello"}])  # fmt: skip
    world.task("unprepared", "echo never", setup=[sh("true"), sh("echo no such host; exit 3", "fetch")])
    world.task("unscripted", "echo never", containerLifetime=failing)
    world.apply("Task", "gone", {"image": "iris/task:dev", "command": ["/nonexistent"], "setup": [sh("true")]})

    status = world.ended("prepared")
    assert (status["phase"], status["reason"], status["exitCode"]) == ("Failed", "Error", 7)
    said = world.iris("logs", "prepared").splitlines()
    assert [line for line in said if "two" not in line] == ["script as 1234", "/tmp/made", "pid 1, hello"]
    assert "two: hello" in said  # its other stream, which the shim copies at its own pace
    status = world.ended("unprepared")
    assert (status["phase"], status["reason"], status["exitCode"]) == ("Failed", "SetupFailed", 3)
    assert "set-up command 2 of 2 (fetch) failed: exit code 3; its last line: no such host" in status["message"]
    assert "startTime" not in status
    assert world.iris("logs", "unprepared") == "no such host\n"
    assert world.ended("unscripted")["message"].startswith("the set-up script failed: exit code 1")
    assert world.ended("gone")["reason"] == "CommandNotFound"


def test_slow_set_up_is_told_and_survives_the_agent(world: World) -> None:
    world.task("slow-set-up", "echo done", setup=[sh("while [ ! -e /tmp/go ]; do sleep 0.1; done", "wait")])
    told = world.wait_phase("slow-set-up", "Building")["status"]
    assert (told["reason"], "(wait)" in told["message"]) == ("SettingUp", True)
    world.kill_in_pod("shared-worker-0", "iris-agent")
    world.until(lambda: _touched(world), "the agent to come back", 90)
    assert world.ended("slow-set-up")["phase"] == "Succeeded"
    assert world.iris("logs", "slow-set-up") == "done\n"


def _touched(world: World) -> bool:
    try:
        world.iris("exec", "slow-set-up", "--", "touch", "/tmp/go")
    except AssertionError:  # no agent at this moment
        return False
    return True


def test_timeouts_end_in_their_own_reasons(world: World) -> None:
    world.task("unbuilt", "echo never", setup=[sh("sleep 600")], timeouts={"buildingSeconds": 3})
    # preStop first, then the signal asked for: both seen in the log.
    world.task("endless", "trap 'echo int; exit 0' INT; echo up; while :; do sleep 0.1; done", timeouts={"runningSeconds": 2},
               lifecycle={"preStop": {"exec": _SAY_BYE}, "stopSignal": "SIGINT"})  # fmt: skip
    status = world.ended("unbuilt")
    assert (status["phase"], status["reason"]) == ("Failed", "BuildingTimeout")
    assert "timeouts.buildingSeconds" in status["message"]
    status = world.ended("endless")
    assert (status["phase"], status["reason"]) == ("Failed", "RunningTimeout")
    assert world.iris("logs", "endless") == "up\nbye\nint\n"


def test_a_pre_stop_that_hangs_is_ended_with_the_grace(world: World) -> None:
    world.task("hung", "while :; do sleep 0.1; done", terminationGracePeriodSeconds=2,
               lifecycle={"preStop": {"exec": {"command": ["sleep", "600"]}}})  # fmt: skip
    world.wait_phase("hung", "Running")
    world.kubectl("delete", "task", "hung", "--timeout=20s")
    world.until(lambda: not world.containers(world.node_of("shared")), "its container to go")


def test_a_pre_stop_by_http(world: World) -> None:
    page = "mkdir -p /tmp/www/cgi-bin; cd /tmp/www; printf '#!/bin/sh\\necho; echo bye >/proc/1/fd/1\\n' >cgi-bin/bye"
    serve = f"{page}; chmod +x cgi-bin/bye; exec httpd -f -p $IRIS_PORT_WEB -h /tmp/www"
    world.task("served", serve, ports=[{"name": "web"}], timeouts={"runningSeconds": 3}, terminationGracePeriodSeconds=3,
               lifecycle={"preStop": {"httpGet": {"port": "web", "path": "/cgi-bin/bye"}}})  # fmt: skip
    status = world.ended("served")
    assert status["reason"] == "RunningTimeout"
    assert world.iris("logs", "served") == "bye\n", status["message"]


def test_a_failure_is_tried_again_as_the_policy_says(world: World) -> None:
    again = {"user": 3, "backoffSeconds": 1, "onExitCodes": [{"exitCodes": [9], "action": "Fail"}]}
    world.task("flaky", 'echo "try $IRIS_ATTEMPT"; [ "$IRIS_ATTEMPT" = 3 ] || exit 4', retryPolicy=again)
    world.task("hopeless", 'echo "try $IRIS_ATTEMPT"; exit 9', retryPolicy=again)
    status = world.ended("flaky")
    assert (status["phase"], status["attempt"], status["retries"]["user"]) == ("Succeeded", 3, 2)
    earlier = [(one["attempt"], one["exitCode"], one["cause"]) for one in status["attempts"]]
    assert earlier == [(2, 4, "User"), (1, 4, "User")]
    assert world.iris("logs", "flaky") == "try 3\n"
    status = world.ended("hopeless")
    assert (status["phase"], status["exitCode"], status["attempt"]) == ("Failed", 9, 1)


def test_what_it_may_use_and_be(world: World) -> None:
    script = "id -G; df -k /dev/shm | awk 'END {print $2}'; grep CapEff /proc/self/status; for i in $(seq 60); do sleep 9 & done"
    world.task("bounded", script, resources={"pids": 20, "shmSize": "8Mi"},
               securityContext={"runAsGroup": 5, "supplementalGroups": [7, 8], "capabilities": {"drop": ["ALL"]}})  # fmt: skip
    status = world.ended("bounded")
    said = world.iris("logs", "bounded").splitlines()
    assert [line for line in said if "fork" not in line] == ["5 7 8", "8192", "CapEff:\t0000000000000000"]
    assert status["phase"] == "Failed" and any("can't fork" in line for line in said)
