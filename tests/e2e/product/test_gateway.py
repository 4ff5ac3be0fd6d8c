"""Streams of Tasks through the aggregated API: who may, what a node answers to others, and what a kill costs."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from iris_operator.identity.certificates import Subject, make_request, new_key
from tests.e2e.product.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("slice_name")]

_API = "/apis/stream.iris.dev/v1alpha1"
_RIGHTS = {"vic": "view", "ann": "edit"}


def _ask(world: World, path: str, user: str) -> tuple[int, str]:
    """GET below the API as that user: kubectl's exit code, and all it said."""
    argv = [world.kubectl_path, "get", "--raw", f"{_API}/namespaces/default{path}", "--as", user]
    done = subprocess.run(argv, env=world.env, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def told(world: World) -> str:
    """A Task that has said something, in a namespace with a viewer, an editor, and one who may only half of it."""
    world.kubectl("wait", "--for=condition=Available", f"apiservice/{'.'.join(reversed(_API.split('/')[2:]))}")
    for user, role in _RIGHTS.items():
        world.kubectl("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}")
    half = [{"apiGroups": ["stream.iris.dev"], "resources": ["tasks/exec"], "verbs": ["get"]}]
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "half"}, "rules": half}
    world.kubectl("create", "-f", "-", stdin=json.dumps(body))
    world.kubectl("create", "rolebinding", "hal", "--role=half", "--user=hal")
    world.task("told-all", "echo secret words")
    world.ended("told-all")
    world.until(lambda: _ask(world, "/tasks/told-all/log", "vic")[0] == 0, "the roles to be in force")
    return "told-all"


def test_a_viewer_reads_a_log_and_does_not_act(world: World, told: str) -> None:
    assert _ask(world, f"/tasks/{told}/log", "vic") == (0, "secret words\n")
    code, words = _ask(world, f"/tasks/{told}/exec?command=true", "vic")
    assert code != 0
    assert 'cannot get resource "tasks/exec" in API group "stream.iris.dev"' in words


def test_to_get_an_exec_is_not_to_make_one(world: World, told: str) -> None:
    code, words = _ask(world, f"/tasks/{told}/exec?command=true", "hal")
    assert code != 0
    assert 'User "hal" cannot create resource "tasks/exec"' in words


def test_an_editor_gets_as_far_as_the_node(world: World, told: str) -> None:
    code, words = _ask(world, f"/tasks/{told}/exec?command=true", "ann")
    assert code != 0
    assert "forbidden" not in words


@pytest.mark.parametrize("what", ["log", "stats", "exec"])
def test_who_has_no_rights_learns_nothing(world: World, told: str, what: str) -> None:
    code, words = _ask(world, f"/tasks/{told}/{what}", "eve")
    assert code != 0
    assert "forbidden" in words
    assert "secret" not in words


def test_kubectl_knows_the_api(world: World, told: str) -> None:
    world.kubectl("api-resources")
    found = json.loads(world.kubectl("get", "--raw", _API))
    assert "tasks/log" in [one["name"] for one in found["resources"]]


def test_a_node_gives_no_log_to_who_asks_it_directly(world: World, told: str) -> None:
    pod, task = world.get("pod", "shared-worker-0"), world.get("task", told)
    assert pod is not None
    assert task is not None
    address, path = pod["status"]["hostIP"], f"/v1/tasks/{task['metadata']['uid']}/1/log"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    got = b""
    with socket.create_connection((address, 10002), timeout=10) as raw:
        try:
            with context.wrap_socket(raw) as connection:
                connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                got = connection.recv(65536)
        except (ssl.SSLError, ConnectionError):
            pass
    assert got == b""


def test_nobody_else_gets_a_certificate_of_an_agent(world: World, told: str) -> None:
    name = Subject("iris-gateway", ("iris-gateway",))
    spec = {
        "request": base64.b64encode(make_request(new_key(), name)).decode(),
        "signerName": "iris.dev/agent",
        "usages": ["digital signature", "server auth"],
    }
    metadata = {"name": "stranger", "labels": {"iris-managed": "true"}}
    body = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": metadata}
    world.kubectl("create", "-f", "-", stdin=json.dumps({**body, "spec": spec}))
    world.kubectl("wait", "--for=condition=Denied", "csr/stranger", "--timeout=30s")
    found = world.get("csr", "stranger")
    assert found is not None
    assert "certificate" not in found["status"]
    assert "no ServiceAccount" in found["status"]["conditions"][0]["message"]


def test_a_killed_gateway_and_a_killed_agent_lose_no_line(world: World, told: str) -> None:
    world.task("counts", "i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo line $i; sleep 0.1; done")
    world.wait_phase("counts", "Running")
    iris = Path(sys.executable).with_name("iris")
    with subprocess.Popen(
        [str(iris), "logs", "counts", "-f"], env=world.env, stdout=subprocess.PIPE, text=True
    ) as follow:
        assert follow.stdout is not None
        lines = [follow.stdout.readline() for _ in range(5)]
        (gateway,) = world.names("pod", "-l", "app.kubernetes.io/name=iris-gateway")
        world.kill_in_pod(gateway.removeprefix("pod/"), "gateway")
        lines += [follow.stdout.readline() for _ in range(10)]
        world.kill_in_pod("shared-worker-0", "iris-agent")
        lines += follow.stdout
    assert lines == [f"line {number}\n" for number in range(1, 61)]
