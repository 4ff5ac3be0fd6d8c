"""Finds what is measured on, or makes it, and leaves things as they were."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from iris_devcluster.api import ApiError as DevclusterApiError
from iris_devcluster.errors import DevclusterError
from iris_devcluster.images.programs import program
from iris_devcluster.nodes import Cluster
from iris_devcluster.progress import Progress, Step
from iris_operator.adapters.kube.client import KubeClient
from iris_operator.adapters.kube.config import from_kubeconfig
from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import IRIS_CLUSTERS, PODS, SLICES, Kind
from tests.perf.observe import Unmeasured
from tests.perf.target import Target
from tests.perf.usage import OPERATOR_SELECTOR

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_ROOT = REPOSITORY / ".iris"
NAMESPACE = "default"
_IMAGE = "registry.iris:5000/iris/task:dev"
_BIN = Path(sys.executable).parent
_LOOK_SECONDS = 0.5
_GONE_SECONDS = 180.0


@contextmanager
def running_cluster(root: Path, progress: Progress, keep: bool) -> Iterator[Cluster]:
    """The embedded cluster of `root`: the one that runs, else one that ends with the block."""
    try:
        found = Cluster.open(root)
        up = found.api.ready()
    except (DevclusterError, DevclusterApiError):
        up = False
    if up:
        progress.say(f"measuring on the cluster that runs, in {root}")
        yield Cluster.open(root)
        return
    tool = str(_BIN / "iris-devcluster")
    place = ["--root", str(root), "--name", "iris" if root == DEFAULT_ROOT else "bench"]
    try:
        _run("starting a cluster", [tool, "up", *place], root)
        _run("starting the simulated cloud", [tool, "cloud", "start", *place], root)
        yield Cluster.open(root)
    finally:
        if not keep:
            _run("stopping the cluster", [tool, "down", *place], root)


@asynccontextmanager
async def client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    """The thin client, as Iris itself uses it."""
    async with KubeClient(await from_kubeconfig(str(cluster.kubeconfig)), user_agent="iris-bench") as api:
        yield api


@asynccontextmanager
async def installed(cluster: Cluster, api: KubeClient, keep: bool) -> AsyncIterator[None]:
    """The chart: as it is installed, else from this checkout's images and uninstalled after the block."""
    if (await api.list(PODS, NAMESPACE, labels=OPERATOR_SELECTOR)).items:
        yield
        return
    before = await _cluster_names(api)
    try:
        await asyncio.to_thread(_install, cluster)
        yield
    finally:
        if not keep:
            # Its operator makes one, with a finalizer that only the operator takes off.
            await _delete_and_wait(api, IRIS_CLUSTERS, await _cluster_names(api) - before)
            uninstall = [str(program("helm")), "uninstall", "iris", "--namespace", NAMESPACE, "--wait"]
            await asyncio.to_thread(_run, "uninstalling the chart", uninstall, cluster.root)


@asynccontextmanager
async def ready_slice(
    cluster: Cluster, api: KubeClient, name: str, instance_type: str, progress: Progress
) -> AsyncIterator[Target]:
    """A Ready slice of that name: the one there is, else one that is deleted after the block."""
    try:
        await api.get(SLICES, name, NAMESPACE)
        ours = False
    except NotFoundError:
        ours = True
    try:
        if ours:
            body = {
                "apiVersion": SLICES.api_version,
                "kind": "Slice",
                "metadata": {"name": name},
                "spec": {"instanceType": instance_type},
            }
            await api.create(SLICES, body, NAMESPACE)
        with progress.step(f"slice {name}") as step:
            target = await _until_ready(cluster, api, name, step)
        yield target
    finally:
        if ours:
            with progress.step(f"giving slice {name} back"):
                await _delete_and_wait(api, SLICES, {name})


async def _until_ready(cluster: Cluster, api: KubeClient, name: str, step: Step) -> Target:
    message = "nothing yet"
    try:
        async with asyncio.timeout(300):
            while True:
                status = (await api.get(SLICES, name, NAMESPACE)).get("status") or {}
                nodes = status.get("nodes") or []
                if status.get("phase") == "Ready":
                    break
                message = f"{status.get('phase', 'new')}: {status.get('message', '')}"
                step.update(message)
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise Unmeasured(f"slice {name} is not Ready after 300 s: {message}") from None
    node = nodes[0]
    return Target(cluster, api, NAMESPACE, name, node["name"], node["workerPod"], node["workerUid"], _IMAGE)


def _install(cluster: Cluster) -> None:
    with TemporaryDirectory(prefix="iris-bench-") as folder:
        values = str(Path(folder) / "images.yaml")
        images = [str(_BIN / "iris-devcluster"), "images", "--values", values, "--root", str(cluster.root)]
        _run("building the images", images, cluster.root)
        install = [str(REPOSITORY / "scripts" / "install"), "--values", values]
        _run("installing the chart", install, cluster.root)


async def _cluster_names(api: KubeClient) -> set[str]:
    """IrisClusters; none where the kind is unknown yet."""
    try:
        return {one["metadata"]["name"] for one in (await api.list(IRIS_CLUSTERS, NAMESPACE)).items}
    except NotFoundError:
        return set()


async def _delete_and_wait(api: KubeClient, kind: Kind, names: set[str]) -> None:
    for name in names:
        try:
            await api.delete(kind, name, NAMESPACE)
            async with asyncio.timeout(_GONE_SECONDS):
                while True:
                    await api.get(kind, name, NAMESPACE)
                    await asyncio.sleep(_LOOK_SECONDS)
        except NotFoundError:
            continue
        except TimeoutError:
            words = f"{name} of {kind.plural} is still there {_GONE_SECONDS:.0f} s after its deletion: see its message"
            raise Unmeasured(words) from None


def _run(what: str, command: list[str], root: Path) -> None:
    """A step that shows its own progress on standard error; standard output is the results'."""
    environment = {**os.environ, "KUBECONFIG": str(root / "kubeconfig")}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, stdout=sys.stderr, check=False)
    if done.returncode:
        raise Unmeasured(f"{what} failed: {' '.join(command)} exited {done.returncode}")
