"""The operator is killed at each of its writes, done or not, while it makes a slice and while it gives it back."""

from __future__ import annotations

from contextlib import suppress

import pytest

from iris_operator.ports.kube import NODEPOOLS, NODES, PODS, SLICES
from tests.unit.iris_operator.controller.slice_world import Killed, SliceWorld


async def _writes_of_a_life() -> int:
    world = SliceWorld()
    await world.make(nodeCount=2)
    await world.turns()
    await world.api.delete(SLICES, "s", "team")
    await world.turns()
    return len(world.api.operator_writes)


@pytest.mark.parametrize("done", [True, False], ids=["after the write", "before the write"])
async def test_nothing_leaks_wherever_it_is_killed(done: bool) -> None:
    killed = 0
    for number in range(1, await _writes_of_a_life() + 1):
        world = SliceWorld()
        world.api.kill_at, world.api.kill_after_it_is_done = number, done
        await world.make(nodeCount=2)
        killed += await _lives_on(world)
        assert (await world.status())["phase"] == "Ready", number
        assert (len(await world.all(NODEPOOLS)), len(await world.all(PODS))) == (1, 2), number
        await world.api.delete(SLICES, "s", "team")
        killed += await _lives_on(world)
        left = [await world.all(kind) for kind in (SLICES, NODEPOOLS, NODES, PODS)]
        assert left == [[], [], [], []], number
    assert killed == number  # each of them was a kill


async def _lives_on(world: SliceWorld) -> int:
    """Go on till it is quiet; how often the operator was killed on the way."""
    killed = 0
    with suppress(Killed):
        await world.turns()
        return killed
    killed += 1
    world.start()
    await world.turns()
    return killed


async def test_killed_between_a_slice_s_end_and_its_node_pool_s_beginning() -> None:
    """An operator that lost the Lease finishes its last write: the NodePool has no Slice any more, and goes."""
    world = SliceWorld(timeouts={"orphanSeconds": 0})
    await world.make()
    world.boots = False
    await world.turns()
    body = await world.find(SLICES, "s")
    await world.api.patch(SLICES, "s", {"metadata": {"finalizers": []}}, namespace="team")
    await world.api.delete(SLICES, "s", "team")
    assert await world.all(NODEPOOLS) and body["metadata"]["uid"]
    world.start()
    await world.turns()
    assert await world.all(NODEPOOLS) == []
