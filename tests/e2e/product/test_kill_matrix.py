"""Every part killed under Tasks that build, run and stop: each ends once, the cause told right, and nothing is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iris_devcluster.cluster import Cluster
from iris_devcluster.identity import CONTROL_PLANE
from tests.e2e.product.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

GPU = "gd-8xh100ib-i128"
ONE_GPU: dict[str, Any] = {"limits": {"nvidia.com/gpu": 1, "cpu": "100m", "memory": "64Mi"}}
API_DOWN_SECONDS = float(os.environ.get("IRIS_API_DOWN_SECONDS", "60"))

# The first attempt takes so many seconds, those after it hardly any; asked to end, each does.
WORK = """
trap 'exit 143' TERM
echo begun $IRIS_ATTEMPT
[ $IRIS_ATTEMPT -gt 1 ] || { sleep %d & wait $!; }
echo done $IRIS_ATTEMPT
"""
# Told to end by its own limit, it takes its time.
STOP = "trap 'echo told; sleep 6; echo gone; exit 7' TERM; echo begun $IRIS_ATTEMPT; while :; do sleep 0.1; done"

# Who is killed without taking the Tasks along: all goes on as if nothing had been.
HARMLESS = ("operator", "agent", "containerd", "kubelet", "API server")
# Who takes them along: another attempt runs what the first did not end.
FATAL = ("shim", "worker Pod", "node")


@pytest.fixture(scope="module")
def pair(world: World) -> Iterator[None]:
    """Two Ready slices of one node each; no other of the session has GPUs."""
    for name in ("left", "right"):
        world.apply("Slice", name, {"instanceType": GPU, "gpusPerNode": 8})
    for name in ("left", "right"):
        world.kubectl("wait", "--for=condition=Ready", f"slice/{name}", "--timeout=120s")
    yield
    world.devcluster("cloud", "clear", "--all")
    world.devcluster("cloud", "set", "--boot-seconds", "0.5")
    world.kubectl("delete", "slice", "left", "right", "--ignore-not-found", "--timeout=150s")


@pytest.fixture
def tasks(world: World, pair: None, victim: str) -> Iterator[str]:
    """One Task that builds, one that runs, one that stops, side by side on one node; its name."""
    work = WORK % (100 if victim in FATAL else 6)
    common: dict[str, Any] = {"resources": ONE_GPU, "terminationGracePeriodSeconds": 30}
    world.task("running", work, **common)
    node = str(world.wait_phase("running", "Running")["spec"]["binding"]["nodeName"])
    where = {"placement": {"sliceName": _slice_of(world, node)}}
    world.task("stopping", STOP, **common, timeouts={"runningSeconds": 1}, **where)
    world.task("building", "echo built", **common, setup=[{"command": ["sh", "-c", work]}], **where)
    world.until(lambda: "told" in world.log("stopping"), "the command to be told to end")
    building = world.wait_phase("building", "Building")
    assert building["status"].get("startTime") is None
    assert _phase(world, "running") == "Running"
    yield node
    world.kubectl("delete", "task", "running", "stopping", "building", "--ignore-not-found", "--timeout=60s")
    for name in ("left", "right"):
        world.kubectl("wait", "--for=condition=Ready", f"slice/{name}", "--timeout=150s")
    for each in (world.node_of("left"), world.node_of("right")):
        world.until(lambda each=each: not world.containers(each), f"no container to be left on {each}")  # type: ignore[misc]


@pytest.mark.parametrize("victim", HARMLESS)
def test_what_goes_on_without_it_is_not_disturbed(world: World, tasks: str, victim: str) -> None:
    _kill(world, victim, tasks)
    running, building, stopping = (world.ended(name, 120) for name in ("running", "building", "stopping"))
    assert (running["phase"], running["attempt"], running["exitCode"]) == ("Succeeded", 1, 0)
    assert (building["phase"], building["attempt"], building["exitCode"]) == ("Succeeded", 1, 0)
    assert (stopping["phase"], stopping["reason"], stopping["exitCode"]) == ("Failed", "RunningTimeout", 7)
    assert _whole(world, "running") == ["begun 1", "done 1"]
    assert _whole(world, "building") == ["begun 1", "done 1", "built"]
    # Who comes back does not know whether it was told.
    assert [line.lstrip(".") for line in dict.fromkeys(_whole(world, "stopping"))] == ["begun 1", "told", "gone"]


@pytest.mark.parametrize("victim", FATAL)
def test_what_is_taken_along_runs_again_and_only_then(world: World, tasks: str, victim: str) -> None:
    _kill(world, victim, tasks)
    running, building, stopping = (world.ended(name, 180) for name in ("running", "building", "stopping"))
    for status in (running, building):
        assert (status["phase"], status["attempt"], status["exitCode"]) == ("Succeeded", 2, 0), status
        (first,) = status["attempts"]
        assert first.get("cause") in ((None,) if victim == "worker Pod" else ("Infrastructure",)), first
        assert "user" not in status.get("retries", {})
    assert _whole(world, "running") == ["begun 2", "done 2"]
    assert _whole(world, "building") == ["begun 2", "done 2", "built"]
    # It had used up its time before: that is its own, whoever ended it then.
    assert stopping["phase"] in ("Failed", "WorkerLost"), stopping
    assert "user" not in stopping.get("retries", {})


def _kill(world: World, victim: str, node: str) -> None:
    if victim == "operator":
        world.kill_in_pod(world.names("pods", "-l", "app.kubernetes.io/name=iris-operator")[0][4:], "iris-operator")
    elif victim == "agent":
        world.kill_in_pod(f"{_slice_of(world, node)}-worker-0", "iris-agent")
    elif victim == "shim":
        _kill_shims(world, node)
    elif victim == "worker Pod":
        world.kubectl("delete", "pod", f"{_slice_of(world, node)}-worker-0", "--timeout=90s")
    elif victim == "API server":
        _without_api_server(world, API_DOWN_SECONDS)
    elif victim == "node":
        world.devcluster("cloud", "set", "--replace-seconds", "1")
        world.devcluster("cloud", "fault", node, "--power", "off")
    else:
        os.kill(world.node_processes(node)[victim], signal.SIGKILL)


def _kill_shims(world: World, node: str) -> None:
    """All those of namespace iris on the node; the kubelet's Pods have their own."""
    mine = Cluster.open(world.root).node_pids(node)["containerd"]
    namespace = Path(f"/proc/{mine}/ns/mnt").readlink()
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"containerd-shim" in words[0] and b"iris" in words and (entry / "ns/mnt").readlink() == namespace:
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, ValueError):
            continue


def _without_api_server(world: World, seconds: float) -> None:
    """Frozen: it answers nobody, and nobody is told so."""
    states = Cluster.open(world.root).machine(CONTROL_PLANE).states()
    server = next(one.pid for one in states if one.name == "kube-apiserver")
    os.kill(server, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(server, signal.SIGCONT)


def _phase(world: World, name: str) -> str:
    return str((world.get("task", name) or {}).get("status", {}).get("phase"))


def _slice_of(world: World, node: str) -> str:
    return next(name for name in ("left", "right") if world.node_of(name) == node)


def _whole(world: World, name: str) -> list[str]:
    """The log of the last attempt, once its agent answers."""
    lines: Callable[[], list[str]] = lambda: world.log(name).splitlines()  # noqa: E731
    return world.until(lines, f"the log of {name}", 90)
