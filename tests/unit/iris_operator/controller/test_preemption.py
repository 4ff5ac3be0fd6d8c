"""What preemption planned is written once, and told; what changed meanwhile is decided anew."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.ports.kube import EVENTS, IRIS_CLUSTERS, SLICES, TASKS
from tests.builders import NAMESPACE, TaskBuilder, at, cluster, slice_, task
from tests.unit.iris_operator.controller.test_groups import World

_NODE = {"cpu": "4", "memory": "8Gi"}


@pytest.fixture
def world() -> World:
    return World()


def _low(name: str) -> TaskBuilder:
    made = task(name).limits(cpu="2", memory="1Gi").bound("s").phase("Running")
    return made.status(startTime=at(60), attempt=1)


async def _start(world: World) -> dict[str, dict[str, Any]]:
    """Two Tasks fill a node, and one of higher priority waits."""
    await world.have(IRIS_CLUSTERS, cluster())
    await world.have(SLICES, slice_("s").ready(_NODE))
    high = task("high", priority=5).limits(cpu="4", memory="1Gi")
    return {one.build().metadata.name: await world.have(TASKS, one) for one in (_low("a"), _low("b"), high)}


async def _stops(world: World) -> dict[str, tuple[str, str]]:
    found = (await world.api.list(TASKS, NAMESPACE)).items
    bindings = {one["metadata"]["name"]: one["spec"].get("binding") or {} for one in found}
    return {name: (one["stopReason"], one["stopFor"]) for name, one in bindings.items() if one.get("stopReason")}


async def _events(world: World) -> list[tuple[str, str]]:
    found = (await world.api.list(EVENTS, NAMESPACE)).items
    return sorted((one["regarding"]["name"], one["reason"]) for one in found)


async def test_who_ends_is_told_once_and_everybody_hears_why(world: World) -> None:
    await _start(world)
    await world.passes()
    assert await _stops(world) == {"a": ("Preempted", "high"), "b": ("Preempted", "high")}
    assert await _events(world) == [("a", "Preempted"), ("b", "Preempted"), ("high", "Preempting")]
    before = world.wrote()
    await world.passes()
    assert world.wrote() == before


async def test_who_changed_meanwhile_is_told_by_the_next_pass(world: World) -> None:
    made = await _start(world)
    changed = {"metadata": {"labels": {"seen": "no"}}}
    fresh = await world.api.patch(TASKS, made["b"]["metadata"]["name"], changed, namespace=NAMESPACE)
    await world.passes()
    assert await _stops(world) == {"a": ("Preempted", "high")}
    assert ("high", "Preempting") not in await _events(world)
    world.controller.observe(TASKS, fresh)
    await world.passes(0.1)  # at once, not a second later: what was told first may end at any moment
    assert await _stops(world) == {"a": ("Preempted", "high"), "b": ("Preempted", "high")}
    assert ("high", "Preempting") in await _events(world)
