"""The chart's CRDs, policies and roles on a real API server with RBAC, for all tests of this folder."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from iris_devcluster.coreweave.kube import Connection
from iris_devcluster.coreweave.testing.api_server import api_server
from iris_devcluster.images.programs import program
from tests.cluster.conftest import kubeconfig_of
from tests.programs import run
from tests.unit.chart.rendering import Chart

EDITOR, VIEWER = "ann", "vic"
OPERATOR = "system:serviceaccount:default:iris-operator"
AGENT = "system:serviceaccount:default:iris-agent"

BINDING = {
    "sliceName": "one",
    "nodeName": "node",
    "workerPod": "one-worker-0",
    "workerUid": "uid",
    "rank": 0,
    "attempt": 1,
    "boundAt": "2026-01-01T00:00:00Z",
}

# An APIService without a gateway behind it would only make every kubectl complain.
_WORKLOAD = ("Deployment", "Service", "ConfigMap", "APIService")


class Kubectl:
    """The real kubectl, as any user."""

    def __init__(self, connection: Connection, folder: Path) -> None:
        self._kubeconfig = folder / "kubeconfig"
        self._kubeconfig.write_text(json.dumps(kubeconfig_of(connection)))
        place = ["--server", connection.server, "--token", connection.token, "--insecure-skip-tls-verify"]
        self._argv = [str(program("kubectl")), *place]

    def iris(self, *arguments: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        """Our own command line, as the administrator."""
        return run(["iris", *arguments], {**os.environ, "KUBECONFIG": str(self._kubeconfig)}, timeout)

    def run(self, *arguments: str, user: str = "", body: Any = None) -> subprocess.CompletedProcess[str]:
        """`user`: on whose behalf; empty: the cluster's administrator. `body`: its standard input, as JSON."""
        argv = [*self._argv, *([f"--as={user}"] if user else []), *arguments]
        text = None if body is None else json.dumps(body)
        return subprocess.run(argv, input=text, capture_output=True, text=True, check=False)

    def done(self, *arguments: str, user: str = "", body: Any = None) -> str:
        """Its standard output; fails the test with its words when it fails."""
        ended = self.run(*arguments, user=user, body=body)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout


@pytest.fixture(scope="package")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("chart")
    with api_server(folder, authorization="RBAC") as connection:
        found = Kubectl(connection, folder)
        rendered = Chart(folder).render(namespace="default").objects
        items = [each for each in rendered if each["kind"] not in _WORKLOAD]
        # Nobody aggregates roles here; Kubernetes' edit has all of view too.
        items += [_bound(EDITOR, "iris-edit"), _bound(EDITOR, "iris-view"), _bound(VIEWER, "iris-view")]
        found.done("apply", "--server-side", "-f", "-", body={"apiVersion": "v1", "kind": "List", "items": items})
        vendor = resources.files("iris_devcluster.coreweave") / "data" / "nodepool_crd.yaml"
        found.done("apply", "--server-side", "-f", str(vendor))
        found.done("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        _wait_in_force(found)
        yield found


def task(name: str, binding: dict[str, Any] | None = None) -> dict[str, Any]:
    """A Task's body."""
    spec: dict[str, Any] = {"image": "task", "command": ["true"], **({"binding": binding} if binding else {})}
    return {"apiVersion": "iris.dev/v1alpha1", "kind": "Task", "metadata": {"name": name}, "spec": spec}


def protected_slice(name: str) -> dict[str, Any]:
    """A Slice's body."""
    spec = {"instanceType": "cd-gp-i64-erapids", "deletionProtection": True}
    return {"apiVersion": "iris.dev/v1alpha1", "kind": "Slice", "metadata": {"name": name}, "spec": spec}


def say_tasks(kubectl: Kubectl, name: str, number: int, user: str = OPERATOR) -> None:
    """A Slice's status.tasks, as the operator writes it."""
    patch = json.dumps({"status": {"tasks": number}})
    kubectl.done("patch", "slice", name, "--subresource=status", "--type=merge", "-p", patch, user=user)


def _bound(user: str, role: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{user}-{role}", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


def _wait_in_force(kubectl: Kubectl) -> None:
    """Roles and policies take effect within moments of being stored."""
    end = time.monotonic() + 30
    kubectl.done("create", "-f", "-", body=protected_slice("probe"))
    say_tasks(kubectl, "probe", 1, user="")
    while time.monotonic() < end:
        binding = kubectl.run("create", "--dry-run=server", "-f", "-", body=task("probe", BINDING), user=EDITOR)
        deletion = kubectl.run("delete", "--dry-run=server", "slice", "probe", user=EDITOR)
        if "spec.binding" in binding.stderr and "deletionProtection" in deletion.stderr:
            say_tasks(kubectl, "probe", 0, user="")
            kubectl.done("delete", "slice", "probe")
            return
        time.sleep(0.2)
    pytest.fail(f"the policies never took effect: {binding.stderr} {deletion.stderr}")
