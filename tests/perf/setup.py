"""Finds what is measured on, or makes it, and leaves things as they were."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from iris_devcluster.api import ApiError as DevclusterApiError
from iris_devcluster.errors import DevclusterError
from iris_devcluster.images.programs import program
from iris_devcluster.nodes import Cluster
from iris_devcluster.progress import Progress, Step
from iris_operator.adapters.kube.client import KubeClient
from iris_operator.adapters.kube.config import from_kubeconfig
from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import NODEPOOLS, PODS, SLICES
from tests.perf.observe import Unmeasured
from tests.perf.target import Target
from tests.perf.usage import OPERATOR_SELECTOR

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_ROOT = REPOSITORY / ".iris"
NAMESPACE = "default"
_IMAGE = "registry.iris:5000/iris/task:dev"
_BIN = Path(sys.executable).parent
_LOOK_SECONDS = 0.5


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
    values = cluster.root / "images.yaml"
    images = [str(_BIN / "iris-devcluster"), "images", "--values", str(values), "--root", str(cluster.root)]
    try:
        await asyncio.to_thread(_run, "building the images", images, cluster.root)
        await asyncio.to_thread(
            _run,
            "installing the chart",
            [str(REPOSITORY / "scripts" / "install"), "--values", str(values)],
            cluster.root,
        )
        yield
    finally:
        if not keep:
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
                await _give_back(api, name)


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


async def _give_back(api: KubeClient, name: str) -> None:
    try:
        await api.delete(SLICES, name, NAMESPACE)
        async with asyncio.timeout(180):
            while True:
                await api.get(SLICES, name, NAMESPACE)
                await asyncio.sleep(_LOOK_SECONDS)
    except NotFoundError:
        return
    except TimeoutError:
        words = f"slice {name} is still there 180 s after its deletion; see its message, and {NODEPOOLS.plural}"
        raise Unmeasured(words) from None


def _run(what: str, command: list[str], root: Path) -> None:
    """A step that shows its own progress on standard error; standard output is the results'."""
    environment = {**os.environ, "KUBECONFIG": str(root / "kubeconfig")}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, stdout=sys.stderr, check=False)
    if done.returncode:
        raise Unmeasured(f"{what} failed: {' '.join(command)} exited {done.returncode}")
