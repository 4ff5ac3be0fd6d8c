"""A Task of several replicas on real nodes: placed together, told of each other, repeated together."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product.world import EXAMPLES, World

pytestmark = pytest.mark.e2e

# The first attempt never ends by itself; the one after it is done at once.
SCRIPT = """
echo rank $IRIS_RANK of $IRIS_REPLICAS, attempt $IRIS_ATTEMPT, $IRIS_PEERS, $IRIS_LEADER
[ $IRIS_ATTEMPT -gt 1 ] && exit 0
trap 'exit 3' TERM
while :; do sleep 0.1; done
"""


@pytest.fixture(scope="module")
def duo(world: World) -> Iterator[str]:
    """A Ready slice of two nodes."""
    world.apply("Slice", "duo", {"instanceType": "cd-gp-i64-erapids", "nodeCount": 2})
    world.kubectl("wait", "--for=condition=Ready", "slice/duo", "--timeout=120s")
    yield "duo"
    world.kubectl("delete", "task", "--all", "--timeout=60s")
    world.kubectl("delete", "slice", "duo", "--timeout=120s")


def test_members_know_each_other_and_begin_anew_together(world: World, duo: str) -> None:
    world.task("train", SCRIPT, replicas=2, placement={"sliceName": duo}, terminationGracePeriodSeconds=2)
    status = world.wait_phase("train", "Running")["status"]
    assert status["membersReady"] == "2/2"
    found = world.get("slice", duo)
    assert found is not None
    addresses = [one["address"] for one in found["status"]["nodes"]]
    assert len(set(addresses)) == 2
    peers = ",".join(addresses)

    def logged() -> list[str]:
        lines = sorted(world.log("train").splitlines())
        return lines if len(lines) == 2 else []

    lines = world.until(logged, "both members' first lines")
    assert lines == [f"[{rank}] rank {rank} of 2, attempt 1, {peers}, {addresses[0]}" for rank in (0, 1)]
    said = world.iris("exec", "train", "--rank", "1", "--", "sh", "-c", "echo $IRIS_RANK on $IRIS_HOST_IP")
    assert said.split() == ["1", "on", addresses[1]]

    world.kubectl("delete", "pod", "duo-worker-1", "--timeout=90s")
    status = world.ended("train", 90)
    assert (status["phase"], status["attempt"]) == ("Succeeded", 2)
    assert sum(status.get("retries", {}).values()) == 0
    assert [(one["attempt"], one["reason"]) for one in status["attempts"]] == [(1, "WorkerDeleted")]
    lines = world.until(logged, "both members' lines of the second attempt")
    assert [line.split(",")[:2] for line in lines] == [[f"[{rank}] rank {rank} of 2", " attempt 2"] for rank in (0, 1)]
    first = world.iris("logs", "train-0", "--attempt", "1")
    assert first.startswith("rank 0 of 2, attempt 1")
    assert "train-1" in world.iris("why", "train")
    world.kubectl("delete", "task", "train", "--timeout=60s")
    assert world.names("task", "-l", "iris.dev/task=train") == []


def test_one_fails_the_others_end(world: World, duo: str) -> None:
    """Made, followed and waited for by `iris run`, which exits with that member's exit code."""
    script = "[ $IRIS_RANK = 1 ] && { echo bye; exit 7; }; trap 'exit 3' TERM; while :; do sleep 0.1; done"
    command = [
        str(Path(sys.executable).with_name("iris")),
        "run",
        "--name",
        "broken",
        "--replicas",
        "2",
        "--slice",
        duo,
    ]
    done = subprocess.run(
        [*command, "iris/task:dev", "--", "sh", "-c", script],
        env=world.env, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (7, "[1] bye\n"), done.stderr
    status = world.ended("broken")
    assert (status["phase"], status["reason"], status["exitCode"]) == ("Failed", "Error", 7)
    other = world.get("task", "broken-0")
    assert other is not None
    assert (other["status"]["phase"], other["status"]["reason"]) == ("Killed", "MemberFailed")
    world.kubectl("delete", "task", "broken", "--timeout=60s")


def test_a_container_that_stays_is_on_all_nodes_or_on_none(world: World, duo: str) -> None:
    def stays(name: str, policy: str = "Persistent", replicas: int = 2) -> dict[str, Any]:
        lifetime = {"policy": policy, "name": name}
        return {"containerLifetime": lifetime, "placement": {"sliceName": duo}, "replicas": replicas}

    world.task("alone", "true", **stays("part", replicas=1))
    assert world.ended("alone")["phase"] == "Succeeded"
    world.task("partly", "echo never", **stays("part"))
    status = world.ended("partly")
    assert (status["phase"], status["reason"]) == ("Failed", "ContainerPartlyRunning")
    assert "container part runs on node " in status["message"] and "and not on node " in status["message"]

    world.task("nowhere", "echo never", **stays("lab", "NoLaunch"))
    status = world.ended("nowhere")
    assert (status["phase"], status["reason"]) == ("Failed", "ContainerNotRunning")
    world.task("first", "echo $IRIS_RANK >/tmp/mine", **stays("lab"))
    assert world.ended("first")["phase"] == "Succeeded"
    world.task("second", "cat /tmp/mine", **stays("lab", "NoLaunch"))
    assert world.ended("second")["phase"] == "Succeeded"
    assert sorted(world.iris("logs", "second").splitlines()) == ["[0] 0", "[1] 1"]


@pytest.mark.usefixtures("duo")
def test_the_example(world: World) -> None:
    world.kubectl("apply", "-f", str(EXAMPLES / "replicas.yaml"))
    assert world.ended("pair")["phase"] == "Succeeded"
    assert "[0] hello from rank 1" in world.iris("logs", "pair").splitlines()
