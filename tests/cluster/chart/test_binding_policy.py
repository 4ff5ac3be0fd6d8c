"""The chart's admission policy on a real API server: spec.binding belongs to the operator."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iris_devcluster.coreweave.kube import Connection
from iris_devcluster.coreweave.testing.api_server import api_server
from iris_devcluster.images.programs import program
from tests.unit.chart.rendering import Chart

pytestmark = pytest.mark.cluster

_OPERATOR = "system:serviceaccount:default:iris-operator"
_AGENT = "system:serviceaccount:default:iris-agent"
_BINDING = {
    "sliceName": "one",
    "nodeName": "node",
    "workerPod": "one-worker-0",
    "workerUid": "uid",
    "rank": 0,
    "attempt": 1,
    "boundAt": "2026-01-01T00:00:00Z",
}


class Kubectl:
    """The real kubectl, as any user."""

    def __init__(self, connection: Connection) -> None:
        place = ["--server", connection.server, "--token", connection.token, "--insecure-skip-tls-verify"]
        self._argv = [str(program("kubectl")), *place, "--namespace", "default"]

    def run(self, *arguments: str, user: str = "", body: Any = None) -> subprocess.CompletedProcess[str]:
        argv = [*self._argv, *([f"--as={user}"] if user else []), *arguments]
        text = None if body is None else json.dumps(body)
        return subprocess.run(argv, input=text, capture_output=True, text=True, check=False)

    def bind(self, name: str, binding: dict[str, Any] | None, user: str) -> subprocess.CompletedProcess[str]:
        patch = json.dumps({"spec": {"binding": binding}})
        return self.run("patch", "task", name, "--type=merge", "-p", patch, user=user)


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("chart")
    kinds = ("CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    with api_server(folder) as connection:
        found = Kubectl(connection)
        rendered = Chart(folder).render(namespace="default").objects
        body = {"apiVersion": "v1", "kind": "List", "items": [each for each in rendered if each["kind"] in kinds]}
        done = found.run("apply", "--server-side", "-f", "-", body=body)
        assert done.returncode == 0, done.stderr
        found.run("wait", "--for=condition=Established", "crd/tasks.iris.dev", "--timeout=30s")
        _wait_in_force(found)
        yield found


def _task(name: str, binding: dict[str, Any] | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {"image": "task", "command": ["true"], **({"binding": binding} if binding else {})}
    return {"apiVersion": "iris.dev/v1alpha1", "kind": "Task", "metadata": {"name": name}, "spec": spec}


def _wait_in_force(kubectl: Kubectl) -> None:
    """A policy takes effect within moments of being stored."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if kubectl.run("create", "--dry-run=server", "-f", "-", body=_task("probe", _BINDING), user="ann").returncode:
            return
        time.sleep(0.2)
    pytest.fail("the policy never took effect")


@pytest.fixture
def bound(kubectl: Kubectl, request: pytest.FixtureRequest) -> Iterator[str]:
    """A Task that the operator bound."""
    name = request.node.name.replace("_", "-").split("[")[0].lower()
    assert kubectl.run("create", "-f", "-", body=_task(name), user="ann").returncode == 0
    done = kubectl.bind(name, _BINDING, _OPERATOR)
    assert done.returncode == 0, done.stderr
    yield name
    kubectl.run("delete", "task", name)


def test_a_task_with_a_binding_is_refused_and_told_what_to_do(kubectl: Kubectl) -> None:
    done = kubectl.run("create", "-f", "-", body=_task("made", _BINDING), user="ann")
    assert done.returncode != 0
    assert "spec.binding is written by the Iris operator only: leave it out of a new Task" in done.stderr


@pytest.mark.parametrize("user", ["ann", _AGENT])
def test_others_can_neither_move_nor_unbind_it(kubectl: Kubectl, bound: str, user: str) -> None:
    assert "spec.binding" in kubectl.bind(bound, {**_BINDING, "nodeName": "other"}, user).stderr
    assert "spec.binding" in kubectl.bind(bound, None, user).stderr


@pytest.mark.parametrize("user", ["ann", _AGENT])
def test_others_may_change_the_rest(kubectl: Kubectl, bound: str, user: str) -> None:
    done = kubectl.run("patch", "task", bound, "--type=merge", "-p", '{"metadata":{"finalizers":null}}', user=user)
    assert done.returncode == 0, done.stderr
    assert kubectl.run("delete", "task", bound, user=user).returncode == 0


def test_the_operator_may_tell_it_to_stop(kubectl: Kubectl, bound: str) -> None:
    done = kubectl.bind(bound, {"stopReason": "SliceDeleted"}, _OPERATOR)
    assert done.returncode == 0, done.stderr


def test_the_api_server_finds_no_fault_with_the_expressions(kubectl: Kubectl) -> None:
    done = kubectl.run("get", "validatingadmissionpolicy", "-o", "json")
    (policy,) = json.loads(done.stdout)["items"]
    assert not policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings")


def test_every_object_of_the_chart_is_accepted(kubectl: Kubectl, tmp_path: Path) -> None:
    body = {"apiVersion": "v1", "kind": "List", "items": Chart(tmp_path).render(namespace="default").objects}
    done = kubectl.run("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", body=body)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
