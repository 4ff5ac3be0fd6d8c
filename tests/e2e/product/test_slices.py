"""A Slice's end and its faults, with the real NodePool kind and the simulated CoreWeave behind it."""

from __future__ import annotations

import pytest

from tests.e2e.product.world import World

pytestmark = pytest.mark.e2e


def _slice(world: World, name: str, **spec: object) -> None:
    world.apply("Slice", name, {"instanceType": "cd-gp-i64-erapids", **spec})


def _condition(world: World, name: str, kind: str) -> dict[str, str]:
    found = world.get("slice", name) or {}
    conditions = found.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == kind), {})


def test_deleting_a_slice_stops_its_tasks_first(world: World) -> None:
    _slice(world, "leaving")
    world.kubectl("wait", "--for=condition=Ready", "slice/leaving", "--timeout=120s")
    world.task("stays-till-the-end", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done",
               placement={"sliceName": "leaving"})  # fmt: skip
    world.wait_phase("stays-till-the-end", "Running")
    world.kubectl("delete", "slice", "leaving", "--timeout=90s")
    status = world.ended("stays-till-the-end")
    assert (status["phase"], status["reason"]) == ("Succeeded", "Completed")  # done within its grace
    assert world.names("nodepools", "-l", "iris-slice-id=default-leaving") == []
    assert world.names("nodes", "-l", "iris-slice-id=default-leaving") == []
    world.kubectl("delete", "task", "stays-till-the-end", "--timeout=30s")


def test_two_nodes_make_one_slice(world: World) -> None:
    _slice(world, "pair", nodeCount=2)
    world.kubectl("wait", "--for=condition=Ready", "slice/pair", "--timeout=120s")
    found = world.get("slice", "pair")
    assert found is not None
    assert [node["rank"] for node in found["status"]["nodes"]] == [0, 1]
    assert len({node["name"] for node in found["status"]["nodes"]}) == 2
    assert found["status"]["nodesReady"] == "2/2"
    world.kubectl("delete", "slice", "pair", "--timeout=90s")


def test_quota_is_told_and_deletion_is_at_once(world: World) -> None:
    world.devcluster("cloud", "set", "--instance-type", "gd-8xh100ib-i128", "--quota", "0")
    try:
        _slice(world, "over", instanceType="gd-8xh100ib-i128", gpusPerNode=8)
        said = world.until(
            lambda: [one] if (one := _condition(world, "over", "NodePoolAccepted")).get("status") == "False" else None,
            "the quota to be told",
        )[0]
        assert said["reason"] == "OverQuota"
        assert "quota" in said["message"]
        world.kubectl("delete", "slice", "over", "--timeout=30s")
        assert world.names("nodepools", "-l", "iris-slice-id=default-over") == []
    finally:
        world.devcluster("cloud", "clear")
        world.devcluster("cloud", "set", "--instance-type", "gd-8xh100ib-i128", "--quota", "none")


def test_an_unknown_instance_type_fails_and_bills_nothing(world: World) -> None:
    _slice(world, "unknown", instanceType="no-such-type")
    found = world.until(
        lambda: (
            one if (one := world.get("slice", "unknown")) and one.get("status", {}).get("phase") == "Failed" else None
        ),
        "the slice to fail",
    )
    assert "invalid" in found["status"]["message"]
    world.until(lambda: not world.names("nodepools", "-l", "iris-slice-id=default-unknown"), "its NodePool to be gone")
    world.kubectl("delete", "slice", "unknown", "--timeout=30s")


def test_a_node_without_its_gpus_never_becomes_ready(world: World) -> None:
    world.devcluster("cloud", "fault", "default-blind", "--gpus", "6")
    _slice(world, "blind", instanceType="gd-8xh100ib-i128", gpusPerNode=8)
    said = world.until(
        lambda: [one] if "6 of 8" in (one := _condition(world, "blind", "NodesReady")).get("message", "") else None,
        "the missing GPUs to be told",
    )[0]
    assert said["status"] == "False"
    assert _condition(world, "blind", "Ready")["status"] == "False"
    world.devcluster("cloud", "clear")
    world.kubectl("delete", "slice", "blind", "--timeout=60s")


def test_a_second_replica_waits_and_takes_over(world: World) -> None:
    world.kubectl("scale", "deploy/iris-operator", "--replicas=2")
    world.kubectl("rollout", "status", "deploy/iris-operator", "--timeout=90s")
    holder = world.leader()
    pod = holder.rpartition("_")[0]
    # Not just its process: the kubelet would restart it in a second, and it would still hold its own Lease.
    world.kubectl("delete", "pod", pod, "--force", "--grace-period=0")

    world.until(lambda: world.leader() not in ("", holder), "the other replica to lead", 30)
    _slice(world, "after")
    world.kubectl("wait", "--for=condition=Ready", "slice/after", "--timeout=120s")
    world.kubectl("delete", "slice", "after", "--timeout=60s")
    world.kubectl("scale", "deploy/iris-operator", "--replicas=1")
    world.kubectl("rollout", "status", "deploy/iris-operator", "--timeout=90s")
