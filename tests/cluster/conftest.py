"""One bare API server for all cluster tests: RBAC, both groups' CRDs, no nodes, no controllers."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from importlib import resources
from pathlib import Path

import pytest

from iris_devcluster.coreweave.kube import Connection
from iris_devcluster.coreweave.testing.api_server import api_server
from iris_devcluster.images.programs import program
from iris_operator.adapters.kube.client import KubeClient
from iris_operator.adapters.kube.config import connect
from iris_operator.api.task_policy import IMMUTABLE
from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import IRIS_CLUSTERS, NODEPOOLS, NODES, PODS, SCALE_GROUPS, SLICES, TASKS, Kind

ROOT = Path(__file__).parents[2]
NAMESPACES = Kind("v1", "namespaces", namespaced=False)


@pytest.fixture(scope="package")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """The API server, as iris_devcluster's own client wants it."""
    with api_server(tmp_path_factory.mktemp("api"), authorization="RBAC") as found:
        yield found


@pytest.fixture(scope="package")
def kubeconfig(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its administrator's kubeconfig; the CRDs of crds/ and the vendor's NodePool are Established."""
    path = tmp_path_factory.mktemp("kubeconfig") / "kubeconfig"
    path.write_text(json.dumps(kubeconfig_of(connection)))
    install_crds(path)
    return path


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[KubeClient]:
    """Our own client of it."""
    async with KubeClient(await connect(str(kubeconfig))) as client:
        yield client


@pytest.fixture
async def namespace(api: KubeClient) -> AsyncIterator[str]:
    """A fresh one. What is in it, and what stands outside for it, goes at the end, whoever's finalizers it has."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    await api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    # Pods need their service account, which no controller makes here.
    for account in ("default", "iris-agent"):
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
        await api.create(Kind("v1", "serviceaccounts"), body, name)
    yield name
    for kind in (TASKS, SCALE_GROUPS, SLICES, IRIS_CLUSTERS, PODS):
        await _remove_all(api, kind, name)
    for kind in (NODEPOOLS, NODES):
        await _remove_all(api, kind, None)
    await api.delete(NAMESPACES, name)


def kubectl(kubeconfig: Path, *arguments: str, body: str | None = None) -> str:
    """The real kubectl's standard output; AssertionError with its words when it fails."""
    argv = [str(program("kubectl")), "--kubeconfig", str(kubeconfig), *arguments]
    done = subprocess.run(argv, input=body, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def _remove_all(api: KubeClient, kind: Kind, namespace: str | None) -> None:
    for body in (await api.list(kind, namespace)).items:
        name = body["metadata"]["name"]
        try:
            if body["metadata"].get("finalizers"):
                await api.patch(kind, name, {"metadata": {"finalizers": None}}, namespace=namespace)
            await api.delete(kind, name, namespace, grace_seconds=0)
        except NotFoundError:
            continue


def install_crds(kubeconfig: Path) -> None:
    """Those of crds/ and the vendor's NodePool; Established, and the policy in force, when it returns."""
    vendor = resources.files("iris_devcluster.coreweave") / "data" / "nodepool_crd.yaml"
    kubectl(kubeconfig, "apply", "--server-side", "-f", str(ROOT / "crds"), "-f", str(vendor))
    kubectl(kubeconfig, "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    _policy_in_force(kubeconfig)


def _policy_in_force(kubeconfig: Path) -> None:
    """An API server hears of a new policy a little later, and says nothing when it has."""
    body = {"apiVersion": "iris.dev/v1alpha1", "kind": "Task", "metadata": {"name": "policy"}, "spec": {"image": "a"}}
    kubectl(kubeconfig, "create", "-f", "-", body=json.dumps(body))
    deadline = time.monotonic() + 30
    for image in itertools.count():
        patch = json.dumps({"spec": {"image": f"image-{image}"}})
        try:
            kubectl(kubeconfig, "patch", "task", "policy", "--type=merge", "-p", patch)
        except AssertionError as refused:
            assert IMMUTABLE in str(refused)
            break
        assert time.monotonic() < deadline, "the policy is not in force after 30 s"
        time.sleep(0.1)
    kubectl(kubeconfig, "delete", "task", "policy")


def kubeconfig_of(connection: Connection) -> dict[str, object]:
    """The administrator's kubeconfig of an API server."""
    cluster = {"server": connection.server, "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": connection.token}}],
    }
