"""Writes, and what the rest of the controller hears of them; on the API in memory."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.api.slice import Slice
from iris_operator.controller.engine import Engine
from iris_operator.controller.memo import Controller
from iris_operator.controller.routing import CLUSTER, ORPHANS, PLACE, SLICE, TASK
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.plan.actions import Note
from iris_operator.ports.errors import ConflictError
from iris_operator.ports.kube import EVENTS, NODEPOOLS, SCALE_GROUPS, SLICES, TASKS
from tests.builders import NOW, group, node_pool, slice_, task


@pytest.fixture
def api() -> FakeKube:
    return FakeKube()


@pytest.fixture
def controller(api: FakeKube) -> Controller:
    return Controller(api, ("team",), "1", now=lambda: NOW)


async def _queued(controller: Controller) -> set[Key]:
    found = set()
    while len(controller.queue):
        key = await controller.queue.get()
        controller.queue.done(key)
        found.add(key)
    return found


async def _slice(api: FakeKube, controller: Controller) -> Slice:
    body: dict[str, Any] = slice_().meta(finalizers=[]).body()
    controller.observe(SLICES, await api.create(SLICES, body, "team"))
    await _queued(controller)
    return controller.cache.slices["team/s"]


async def test_the_answer_goes_into_the_cache(api: FakeKube, controller: Controller) -> None:
    owner = await _slice(api, controller)
    await Writer(controller).add_finalizer(SLICES, owner, "iris.dev/slice")
    assert controller.cache.slices["team/s"].metadata.finalizers == ["iris.dev/slice"]
    assert controller.writes == {"patch slices": 1}


async def test_a_status_that_does_not_change_is_not_written(api: FakeKube, controller: Controller) -> None:
    owner = await _slice(api, controller)
    await Writer(controller).status(SLICES, owner, owner.status, owner.status)
    assert not controller.writes


async def test_a_write_on_what_changed_is_refused(api: FakeKube, controller: Controller) -> None:
    owner = await _slice(api, controller)
    await api.patch(SLICES, "s", {"metadata": {"labels": {"a": "b"}}}, namespace="team")
    with pytest.raises(ConflictError):
        await Writer(controller).add_finalizer(SLICES, owner, "iris.dev/slice")


async def test_whoever_waits_for_the_end_of_what_is_gone_already_hears_of_it(
    api: FakeKube, controller: Controller
) -> None:
    """Seen: a NodePool ended between our first list and kopf's, so no watch told, and its Slice stayed for ever."""
    await _slice(api, controller)
    controller.observe(NODEPOOLS, node_pool().body())
    await _queued(controller)
    await Writer(controller).delete(NODEPOOLS, node_pool().build())
    assert controller.cache.node_pools == {}
    assert Key(SLICE, "team/s") in await _queued(controller)


async def test_what_our_own_write_let_go_is_gone_though_no_watch_tells(api: FakeKube, controller: Controller) -> None:
    """Seen: a worker Pod released before kopf's first list; its Tasks waited for the next resync."""
    controller.observe(SLICES, await api.create(SLICES, slice_().body(), "team"))
    await api.delete(SLICES, "s", "team")
    controller.observe(SLICES, await api.get(SLICES, "s", "team"))
    await _queued(controller)
    await Writer(controller).remove_finalizer(SLICES, controller.cache.slices["team/s"], "iris.dev/slice")
    assert controller.cache.slices == {}
    assert Key(PLACE, "team") in await _queued(controller)


async def test_a_lost_event_breaks_nothing(api: FakeKube, controller: Controller) -> None:
    owner = await _slice(api, controller)
    await Writer(controller).event(SLICES, owner, Note("Normal", "Why", "words"))
    (found,) = (await api.list(EVENTS, "team")).items
    assert (found["reason"], found["regarding"]["name"]) == ("Why", "s")
    await api.set_down(True)
    await Writer(controller).event(SLICES, owner, Note("Normal", "Why", "words"))


async def test_a_resync_takes_over_forgets_and_has_all_looked_at(api: FakeKube, controller: Controller) -> None:
    await api.create(SLICES, slice_().body(), "team")
    await api.create(SCALE_GROUPS, group().body(), "team")
    await api.create(TASKS, task("a").bound().body(), "team")
    controller.observe(NODEPOOLS, node_pool("vanished").body())
    engine = Engine(controller)
    await engine.resync()
    assert controller.cache.node_pools == {}
    everything = {
        Key(SLICE, "team/s"), Key(TASK, "team/a"), Key(PLACE, "team"), Key(CLUSTER, "team"),
        Key(SLICE, "team/vanished"), Key(ORPHANS, ""),
    }  # fmt: skip
    assert await _queued(controller) == everything
    await engine.resync()
    assert await _queued(controller) == everything - {Key(SLICE, "team/vanished")}
