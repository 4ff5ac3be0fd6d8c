"""A Slice's reconciler on the API in memory: refusals, turns, adoption, strangers, and what it writes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from iris_operator.ports.kube import EVENTS, NODEPOOLS, NODES, PODS, SLICES
from tests.unit.iris_operator.controller.slice_world import SliceWorld

_STRANGER = {
    "apiVersion": NODEPOOLS.api_version,
    "kind": "NodePool",
    "metadata": {"name": "team-s", "labels": {"a": "b"}},
    "spec": {"instanceType": "theirs", "targetNodes": 1},
}


@pytest.fixture
def world() -> SliceWorld:
    return SliceWorld()


async def _nothing_is_left(world: SliceWorld) -> None:
    assert [await world.all(kind) for kind in (SLICES, NODEPOOLS, NODES, PODS)] == [[], [], [], []]


async def test_six_writes_and_three_events_from_nothing_to_ready(world: SliceWorld) -> None:
    await world.make()
    await world.turns()
    assert (await world.status())["phase"] == "Ready"
    writes = [one for one in world.api.operator_writes if one[1] != EVENTS.plural]
    assert len(writes) <= 6, writes
    assert sorted(await world.event_reasons()) == ["Booting", "Initializing", "Ready"]
    world.api.operator_writes.clear()
    await world.turns()
    assert world.api.operator_writes == []  # and then it is quiet
    assert world.controller.counters["iris_launches_total"] == 1


async def test_given_back(world: SliceWorld) -> None:
    await world.make(nodeCount=2)
    await world.turns()
    await world.api.delete(SLICES, "s", "team")
    await world.turns()
    await _nothing_is_left(world)


async def test_a_refused_deletion_shows_and_is_tried_until_it_is_not(world: SliceWorld) -> None:
    await world.make()
    await world.turns()
    world.api.refuses = {"delete"}
    await world.api.delete(SLICES, "s", "team")
    errors = await world.turns()
    assert len(errors) > 3  # the engine tries each again, with backoff
    told = await world.condition("Deleted")
    assert (told["status"], told["reason"]) == ("False", "DeletionRefused")
    assert "no delete today" in told["message"]
    assert (await world.event_reasons()).count("DeletionRefused") == 1
    world.api.operator_writes.clear()
    await world.turns()
    assert world.api.operator_writes == []  # told once
    assert (await world.find(SLICES, "s"))["metadata"]["finalizers"] == ["iris.dev/slice"]
    world.api.refuses = set()
    await world.turns()
    await _nothing_is_left(world)


async def test_a_refused_creation_shows_and_fails_in_the_end(world: SliceWorld) -> None:
    world.api.refuses = {"apply"}
    await world.make()
    assert await world.turns()
    status = await world.status()
    assert (status["phase"], (await world.condition("Ready"))["reason"]) == ("Pending", "NodePoolRefused")
    assert "no apply today" in status["message"]
    world.time += timedelta(seconds=1801)
    await world.turns()
    status = await world.status()
    assert (status["phase"], status["failure"]) == ("Failed", "Internal")
    assert await world.turns() == []  # it is tried no more
    await world.api.delete(SLICES, "s", "team")
    await world.turns(2)
    await _nothing_is_left(world)


async def test_a_slice_that_must_wait_says_so_once_and_has_its_turn() -> None:
    world = SliceWorld(autoscaler={"launchesPerMinute": 1})
    await world.make()
    await world.turns(2)
    await world.make("second")
    world.api.operator_writes.clear()
    await world.turns()
    status = await world.status("second")
    assert (status["phase"], (await world.condition("Ready", "second"))["reason"]) == ("Pending", "LaunchRateLimited")
    assert "at most 1 NodePool a minute" in status["message"]
    assert "launchedAt" not in status and not status.get("nodePoolName")
    assert len(await world.all(NODEPOOLS)) == 1
    assert world.api.operator_writes.count(("patch status", "slices")) <= 4  # the first one's way to Ready, and this
    await world.api.delete(SLICES, "second", "team")
    await world.turns(1)
    assert await world.find(SLICES, "second") == {}  # nothing launched: it goes at once


async def test_a_restart_adopts(world: SliceWorld) -> None:
    world.boots = False
    await world.make()
    await world.turns()
    (pool,) = await world.all(NODEPOOLS)
    world.start()
    world.boots = True
    await world.turns()
    assert (await world.status())["phase"] == "Ready"
    (after,) = await world.all(NODEPOOLS)
    assert after["metadata"]["uid"] == pool["metadata"]["uid"]
    assert world.controller.counters["iris_launches_total"] == 0


async def test_a_stranger_s_node_pool_is_never_touched(world: SliceWorld) -> None:
    before = await world.api.create(NODEPOOLS, _STRANGER)
    await world.make()
    await world.turns()
    assert (await world.condition("Ready"))["reason"] == "NodePoolNameTaken"
    await world.api.delete(SLICES, "s", "team")
    await world.turns()
    assert await world.all(SLICES) == []
    assert await world.all(NODEPOOLS) == [before]


async def test_not_even_one_that_no_watch_has_told_of(world: SliceWorld) -> None:
    """The API is asked before a NodePool is applied: applying over it would make it ours."""
    await world.make()
    before: dict[str, Any] = {}
    real = world.api.get

    async def get(kind: Any, name: str, namespace: str | None = None) -> dict[str, Any]:
        if kind is NODEPOOLS and not before:  # somebody makes it in this very moment
            world.api.by_operator = False
            before.update(await world.api.create(NODEPOOLS, _STRANGER))
            world.api.by_operator = True
        return await real(kind, name, namespace)

    world.api.get = get  # type: ignore[method-assign]
    await world.turns()
    assert await world.all(NODEPOOLS) == [before]
    assert (await world.condition("Ready"))["reason"] == "NodePoolNameTaken"


async def test_a_node_pool_that_no_watch_has_told_of_is_not_forgotten(world: SliceWorld) -> None:
    """The finalizer goes only when the API itself says that nothing is left."""
    await world.make()
    await world.turns()
    await world.api.delete(SLICES, "s", "team")
    world.start().observe(SLICES, await world.find(SLICES, "s"))  # and nothing else
    await world.reconcile()
    assert (await world.find(SLICES, "s"))["metadata"]["finalizers"] == ["iris.dev/slice"]
    await world.turns()
    await _nothing_is_left(world)


async def test_events_say_why_a_boot_was_slow(world: SliceWorld) -> None:
    world.boots = False
    await world.make()
    await world.turns()
    event = {"reason": "CWInsufficientCapacity", "type": "Warning", "regarding": {"kind": "NodePool", "name": "team-s"}}
    body = {"apiVersion": EVENTS.api_version, "kind": "Event", "metadata": {"name": "e"}, **event}
    await world.api.create(EVENTS, body, "default")
    world.time += timedelta(seconds=1801)
    await world.turns(1)
    status = await world.status()
    assert (status["phase"], status["failure"]) == ("Failed", "NoCapacity")
    assert "Events: CWInsufficientCapacity" in status["message"]
    assert status["nodePoolName"] == "team-s"  # it bills until it is gone
    await world.turns()
    assert (await world.status())["nodePoolName"] == ""
    assert await world.all(NODEPOOLS) == []


async def test_the_end_of_a_lifetime(world: SliceWorld) -> None:
    await world.make(maxLifetimeSeconds=60)
    await world.turns()
    world.time += timedelta(seconds=61)
    await world.turns()
    await _nothing_is_left(world)
