"""EndpointSlices of Tasks, on the API in memory."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.controller.handlers.endpoints import EndpointReconciler
from iris_operator.controller.memo import Controller
from iris_operator.controller.routing import ENDPOINT
from iris_operator.controller.workqueue import Key
from iris_operator.ports.kube import ENDPOINT_SLICES, TASKS
from tests.builders import task

_KEY = Key(ENDPOINT, "team/t")
_STATUS: dict[str, Any] = {
    "phase": "Running", "attempt": 1, "hostIP": "10.0.0.1", "ports": [{"name": "web", "port": 20001}],
}  # fmt: skip


class World:
    """A Task of Service `web`, and an operator that has seen it."""

    def __init__(self) -> None:
        self.api = FakeKube()
        self.start()

    def start(self) -> None:
        """An operator that knows nothing."""
        self.controller = Controller(self.api, ("team",), "1")
        self.reconciler = EndpointReconciler(self.controller)

    async def make(self) -> None:
        body = task("t", serviceName="web", ports=[{"name": "web"}]).bound().body()
        metadata = {"name": "t", "namespace": "team", "finalizers": body["metadata"]["finalizers"]}
        await self.api.create(TASKS, {**body, "metadata": metadata}, "team")
        await self.say(**_STATUS)

    async def say(self, **status: Any) -> None:
        """Its agent's word."""
        await self.api.patch(TASKS, "t", {"status": status}, namespace="team", subresource="status")

    async def turn(self, *, tasks: bool = True) -> list[dict[str, Any]]:
        """What the watches tell, then the reconciler; the EndpointSlices that are there then."""
        for kind in (ENDPOINT_SLICES, *([TASKS] if tasks else [])):
            items = (await self.api.list(kind)).items
            for body in items:
                self.controller.observe(kind, body)
            for known in list(self.controller.cache.store(kind).values()):
                if known.metadata.uid not in [body["metadata"]["uid"] for body in items]:
                    self.controller.observe(kind, known.wire(), gone=True)
        await self.reconciler.reconcile(_KEY)
        return (await self.api.list(ENDPOINT_SLICES)).items

    def wrote(self) -> list[str]:
        """Verbs on EndpointSlices since the last call."""
        found = [verb for verb, plural, _ in self.api.writes if plural == "endpointslices"]
        self.api.writes.clear()
        return found


@pytest.fixture
async def world() -> World:
    made = World()
    await made.make()
    return made


async def test_made_once_and_left_alone(world: World) -> None:
    (found,) = await world.turn()
    assert found["endpoints"][0]["addresses"] == ["10.0.0.1"]
    assert found["endpoints"][0]["conditions"]["ready"] is True
    assert world.wrote() == ["create"]
    assert len(await world.turn()) == 1
    assert world.wrote() == []


async def test_follows_its_task(world: World) -> None:
    await world.turn()
    await world.api.delete(TASKS, "t", "team")
    (found,) = await world.turn()
    assert found["endpoints"][0]["conditions"] == {"ready": False, "serving": True, "terminating": True}


@pytest.mark.parametrize("status", [{"phase": "Succeeded"}, {"phase": "Pending", "endedAttempt": 1}, {"ports": None}])
async def test_goes_with_the_attempt(world: World, status: dict[str, Any]) -> None:
    await world.turn()
    await world.say(**status)
    assert await world.turn() == []
    assert await world.turn() == []
    assert world.wrote() == ["create", "delete"]


async def test_put_right_when_someone_meddles(world: World) -> None:
    (made,) = await world.turn()
    name = made["metadata"]["name"]
    await world.api.patch(ENDPOINT_SLICES, name, {"ports": [{"name": "web", "port": 1}]}, namespace="team")
    assert (await world.turn())[0]["ports"][0]["port"] == 20001
    await world.api.delete(ENDPOINT_SLICES, name, "team")
    assert len(await world.turn()) == 1


async def test_the_next_attempt_at_an_address_of_the_other_family(world: World) -> None:
    await world.turn()
    await world.say(hostIP="fd00::1")
    assert (await world.turn())[0]["addressType"] == "IPv6"
    assert world.wrote() == ["create", "delete", "create"]


async def test_goes_with_a_task_that_nobody_collects(world: World) -> None:
    await world.turn()
    await world.api.patch(TASKS, "t", {"metadata": {"finalizers": []}}, namespace="team")
    await world.api.delete(TASKS, "t", "team")
    assert await world.turn() == []


async def test_a_task_of_that_name_made_anew_gets_its_own(world: World) -> None:
    (before,) = await world.turn()
    await world.api.patch(TASKS, "t", {"metadata": {"finalizers": []}}, namespace="team")
    await world.api.delete(TASKS, "t", "team")
    await world.make()
    (after,) = await world.turn()
    assert before["metadata"]["name"] != after["metadata"]["name"]


async def test_a_cache_without_its_task_takes_nothing_away(world: World) -> None:
    await world.turn()
    world.start()
    assert len(await world.turn(tasks=False)) == 1
    assert "team/t" in world.controller.cache.tasks
    assert world.wrote() == ["create"]
