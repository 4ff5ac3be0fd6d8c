"""A Task that outlives its slice: moved by a deletion, retried after its node's death; never two attempts at a time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product.world import World

pytestmark = pytest.mark.e2e

GPU = "gd-8xh100ib-i128"
ONE_GPU: dict[str, Any] = {"limits": {"nvidia.com/gpu": 1, "cpu": "100m", "memory": "64Mi"}}
# The first attempt never ends by itself; the one after it is done at once.
SCRIPT = """
echo attempt $IRIS_ATTEMPT on $IRIS_NODE_NAME
[ $IRIS_ATTEMPT -gt 1 ] && exit 0
trap 'echo told; exit 3' TERM
while :; do sleep 0.1; done
"""


@pytest.fixture(scope="module")
def names(world: World) -> Iterator[tuple[str, str]]:
    """Of two slices, which go with the module."""
    yield ("one", "two")
    world.kubectl("delete", "slice", "one", "two", "--ignore-not-found", "--timeout=150s")


@pytest.fixture
def pair(world: World, names: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Two Ready slices of one node each, those of the test before where it left them; no other of the session has GPUs."""
    for name in names:
        world.apply("Slice", name, {"instanceType": GPU, "gpusPerNode": 8})
    for name in names:
        world.kubectl("wait", "--for=condition=Ready", f"slice/{name}", "--timeout=120s")
    yield names
    world.devcluster("cloud", "clear", "--all")
    world.devcluster("cloud", "set", "--boot-seconds", "0.5")
    world.kubectl("delete", "task", "--all", "--timeout=60s")


def _start(world: World, name: str) -> dict[str, Any]:
    """Run it; its first binding."""
    world.task(name, SCRIPT, resources=ONE_GPU, terminationGracePeriodSeconds=5)
    found = world.wait_phase(name, "Running")
    binding: dict[str, Any] = found["spec"]["binding"]
    return binding


def _follow(world: World, name: str, folder: Path) -> subprocess.Popen[bytes]:
    """`iris logs -f`, once it has read something; what it says goes to `out` and `said` in the folder."""
    command = [str(Path(sys.executable).with_name("iris")), "logs", name, "-f"]
    with (folder / "out").open("wb") as out, (folder / "said").open("wb") as said:
        following = subprocess.Popen(command, env=world.env, stdout=out, stderr=said)
    world.until(lambda: (folder / "out").read_text(), "iris logs -f to show something")
    return following


def test_deleting_its_slice_moves_a_task(world: World, pair: tuple[str, str], tmp_path: Path) -> None:
    before = _start(world, "moves")
    other = pair[1 - pair.index(before["sliceName"])]
    following = _follow(world, "moves", tmp_path)
    world.kubectl("delete", "slice", before["sliceName"], "--timeout=120s")
    status = world.ended("moves", 90)
    assert (status["phase"], status["attempt"], status.get("retries", {}).get("infrastructure", 0)) == (
        "Succeeded",
        2,
        0,
    )
    task = world.get("task", "moves")
    assert task is not None
    assert task["spec"]["binding"]["sliceName"] == other
    (first,) = status["attempts"]
    assert (first["reason"], first.get("cause"), first["exitCode"]) == ("SliceDeleted", None, 3)
    assert (first["sliceName"], first["nodeName"]) == (before["sliceName"], before["nodeName"])
    assert following.wait(60) == 0
    out, said = (tmp_path / "out").read_text(), (tmp_path / "said").read_text()
    assert out.splitlines()[0] == f"attempt 1 on {before['nodeName']}"
    assert out.splitlines()[-1].startswith("attempt 2 on ")
    assert "attempt 1 lost: SliceDeleted" in said
    assert "attempt 1" in world.iris("why", "moves")
    assert world.iris("logs", "moves").splitlines() == [f"attempt 2 on {task['spec']['binding']['nodeName']}"]
    world.kubectl("delete", "task", "moves", "--timeout=30s")


def test_a_worker_pod_deleted_under_a_task_moves_it(world: World, pair: tuple[str, str]) -> None:
    """The kubelet really ends a Pod that our finalizer holds, and says so in the way that worker_fence relies on."""
    before = _start(world, "stays")
    pod = before["workerPod"]
    world.kubectl("delete", "pod", pod, "--timeout=90s")
    status = world.ended("stays", 90)
    assert (status["phase"], status["attempt"], status.get("retries", {}).get("infrastructure", 0)) == (
        "Succeeded",
        2,
        0,
    )
    assert status["attempts"][0]["reason"] == "WorkerDeleted"
    world.kubectl("delete", "task", "stays", "--timeout=30s")


def test_a_worker_pod_deleted_by_force_is_ended_before_the_task_runs_again(world: World, pair: tuple[str, str]) -> None:
    before = _start(world, "forced")
    world.kubectl("delete", "pod", before["workerPod"], "--force", "--grace-period=0", "--wait=false")
    status = world.ended("forced", 90)
    assert (status["phase"], status["attempt"]) == ("Succeeded", 2)
    assert status["attempts"][0]["reason"] in ("WorkerDeleted", "WorkerLost")
    assert f"task-{(world.get('task', 'forced') or {})['metadata']['uid']}-1" not in world.containers(
        before["nodeName"]
    )
    world.kubectl("delete", "task", "forced", "--timeout=30s")


def test_a_node_that_dies_under_a_task(world: World, pair: tuple[str, str]) -> None:
    before = _start(world, "survives")
    other = pair[1 - pair.index(before["sliceName"])]
    world.devcluster("cloud", "fault", before["nodeName"], "--power", "off")
    world.until(lambda: not _ready(world, before["nodeName"]), "the node to be NotReady", 90)
    # It stands, and is silent: for all that anyone knows the command may run.
    task = world.get("task", "survives")
    assert task is not None
    assert (task["status"]["phase"], task["spec"]["binding"]["attempt"]) == ("Running", 1)
    world.devcluster("cloud", "set", "--replace-seconds", "1")  # the vendor takes the machine out
    status = world.ended("survives", 120)
    assert (status["phase"], status["attempt"], status["retries"]["infrastructure"]) == ("Succeeded", 2, 1)
    assert (status["attempts"][0]["reason"], status["attempts"][0]["cause"]) == ("WorkerLost", "Infrastructure")
    task = world.get("task", "survives")
    assert task is not None
    assert task["spec"]["binding"]["sliceName"] == other
    world.kubectl("delete", "task", "survives", "--timeout=30s")


def _ready(world: World, node: str) -> bool:
    found = world.get("node", node) or {}
    conditions = found.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
