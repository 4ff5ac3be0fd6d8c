"""A ScaleGroup keeps its minimum."""

from __future__ import annotations

import pytest

from iris_devcluster.coreweave.testing import eventually
from iris_operator.ports.kube import NODEPOOLS, SCALE_GROUPS, SLICES
from tests.cluster.controller.world import Body, World

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]

_TEMPLATE = {"spec": {"instanceType": "cd-gp-i64-erapids"}}


async def _ready(world: World, wanted: int) -> list[Body]:
    async def enough() -> bool:
        return bool((await world.find(SCALE_GROUPS, "g")).get("status", {}).get("ready") == wanted)

    await eventually(enough, 30)
    return await world.all(SLICES)


def _names(slices: list[Body]) -> set[str]:
    return {one["metadata"]["name"] for one in slices}


async def test_keeps_its_minimum(world: World) -> None:
    made = await world.make(SCALE_GROUPS, "g", {"minSlices": 2, "maxSlices": 3, "template": _TEMPLATE})
    slices = await _ready(world, 2)
    assert len(slices) == 2
    for one in slices:
        assert one["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert one["spec"]["scaleGroupName"] == "g"
    (pool, _) = await world.all(NODEPOOLS)
    assert pool["metadata"]["labels"]["iris-scale-group"] == "g"
    status = (await world.find(SCALE_GROUPS, "g"))["status"]
    assert (status["slices"], status["bounds"], status["observedGeneration"]) == (2, "2-3", 1)


async def test_a_deleted_slice_is_made_anew(world: World) -> None:
    await world.make(SCALE_GROUPS, "g", {"minSlices": 1, "maxSlices": 2, "template": _TEMPLATE})
    (first,) = await _ready(world, 1)
    await world.api.delete(SLICES, first["metadata"]["name"], world.namespace)

    async def another() -> bool:
        now = await world.all(SLICES)
        return len(now) == 1 and _names(now) != _names([first]) and now[0].get("status", {}).get("phase") == "Ready"

    await eventually(another, 30)


@pytest.mark.parametrize("maximum", [1, 2])
async def test_a_failed_slice_is_replaced(world: World, maximum: int) -> None:
    """With room beside it, and without."""
    world.boots = False
    await world.make(SCALE_GROUPS, "g", {"minSlices": 1, "maxSlices": maximum, "template": _TEMPLATE})

    async def one() -> list[Body]:
        return await world.all(SLICES)

    (first,) = await eventually(one)
    name = first["metadata"]["name"]
    await world.phase(SLICES, name, "Booting")
    failed = {"status": {"phase": "Failed", "message": "told by the test"}}
    await world.api.patch(SLICES, name, failed, namespace=world.namespace, subresource="status")
    world.boots = True
    slices = await _ready(world, 1)
    assert len(slices) <= maximum
    assert _names(slices) - {name}


async def test_a_raised_minimum(world: World) -> None:
    await world.make(SCALE_GROUPS, "g", {"minSlices": 0, "maxSlices": 3, "template": _TEMPLATE})

    async def seen() -> bool:
        return "status" in await world.find(SCALE_GROUPS, "g")

    await eventually(seen)
    assert await world.all(SLICES) == []
    await world.api.patch(SCALE_GROUPS, "g", {"spec": {"minSlices": 1}}, namespace=world.namespace)
    assert len(await _ready(world, 1)) == 1
