"""IrisCluster: what it tells, and that it waits for its slices."""

from __future__ import annotations

import pytest

from iris_devcluster.coreweave.testing import eventually
from iris_operator.ports.kube import IRIS_CLUSTERS, SLICES, TASKS
from tests.cluster.controller.world import Body, World

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]


def _ready(body: Body) -> tuple[str, str]:
    return next(
        (
            (one["status"], one["reason"])
            for one in body.get("status", {}).get("conditions", [])
            if one["type"] == "Ready"
        ),
        ("", ""),
    )


async def _until(world: World, reason: str) -> Body:
    async def said() -> Body | None:
        found = await world.find(IRIS_CLUSTERS, "default")
        return found if _ready(found)[1] == reason else None

    found = await eventually(said)
    assert found is not None
    return found


async def test_tells_of_the_installation(world: World) -> None:
    found = await _until(world, "Ready")
    assert found["metadata"]["finalizers"] == ["iris.dev/cluster"]
    await world.make(SLICES, "s", {"instanceType": "cd-gp-i64-erapids"})
    await world.phase(SLICES, "s", "Ready")
    await world.make(TASKS, "t", {"image": "iris/task:1", "resources": {"limits": {"nvidia.com/gpu": 3}}})
    await world.bound("t")
    await world.agent_says("t", "Running")

    async def counted() -> bool:
        status = (await world.find(IRIS_CLUSTERS, "default"))["status"]
        return bool(status["tasks"]["running"] == 1 and status["slices"]["ready"] == 1)

    await eventually(counted)
    status = (await world.find(IRIS_CLUSTERS, "default"))["status"]
    assert (status["capacity"]["nvidia.com/gpu"], status["free"]["nvidia.com/gpu"]) == ("8", "5")
    assert status["agents"] == [{"version": "test", "count": 1}]
    conditions = {one["type"]: one["reason"] for one in status["conditions"]}
    assert conditions["NodePoolAPI"] == "Available"
    assert status["operatorVersion"]


async def test_says_what_is_missing(world: World) -> None:
    await world.api.patch(IRIS_CLUSTERS, "default", {"spec": {"images": {"agent": ""}}}, namespace=world.namespace)
    await _until(world, "AgentImageMissing")


async def test_its_deletion_waits_for_its_slices(world: World) -> None:
    await _until(world, "Ready")
    await world.make(SLICES, "s", {"instanceType": "cd-gp-i64-erapids"})
    await world.phase(SLICES, "s", "Ready")
    await world.api.delete(IRIS_CLUSTERS, "default", world.namespace)
    found = await _until(world, "WaitingForSlices")
    message = next(one["message"] for one in found["status"]["conditions"] if one["type"] == "Ready")
    assert "waits for 1 slice: s" in message
    await world.api.delete(SLICES, "s", world.namespace)
    await world.gone(SLICES, "s")
    await world.gone(IRIS_CLUSTERS, "default")


async def test_an_empty_one_goes_at_once(world: World) -> None:
    await _until(world, "Ready")
    await world.api.delete(IRIS_CLUSTERS, "default", world.namespace)
    await world.gone(IRIS_CLUSTERS, "default", seconds=5)
