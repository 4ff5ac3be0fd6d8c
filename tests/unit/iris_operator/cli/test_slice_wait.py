"""Waiting for a drain or a deletion: until the operator says so of this very slice and this very drain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from iris_operator.api.slice import Slice
from iris_operator.cli import slice_wait
from iris_operator.cli.slice_display import changes
from iris_operator.cli.slice_wait import Goal, Left, Watched, drained, look, wait
from iris_operator.ports.kube import SLICES, TASKS
from tests.builders import NOW, slice_, task
from tests.unit.iris_operator.cli.build import Api


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    monkeypatch.setattr(slice_wait, "_LOOK_SECONDS", 0.01)
    return Api()


async def make(api: Api, name: str = "s") -> Slice:
    made = await api.create(SLICES, slice_(name).meta(namespace="default").body(), "default")
    return Slice.parse(made)


async def bind(api: Api, name: str, **binding: Any) -> None:
    await api.create(TASKS, task(name).bound("s", **binding).meta(namespace="default").body(), "default")


async def say(api: Api, name: str = "s", **status: Any) -> None:
    await api.patch(SLICES, name, {"status": status}, namespace="default", subresource="status")


def condition(status: str, generation: int) -> dict[str, Any]:
    return {"type": "Drained", "status": status, "reason": "R", "observedGeneration": generation,
            "lastTransitionTime": "2026-11-21T12:00:00Z"}  # fmt: skip


DRAINED: dict[str, tuple[dict[str, Any], bool]] = {
    "yes": ({"conditions": [condition("True", 3)]}, True),
    "of a later spec": ({"conditions": [condition("True", 4)]}, True),
    "not yet": ({"conditions": [condition("False", 3)]}, False),
    "of an earlier drain": ({"conditions": [condition("True", 2)]}, False),
    "not looked at yet": ({}, False),
    "no task, but not said": ({"tasks": 0, "phase": "Ready", "observedGeneration": 3}, False),
    "failed, nothing left": ({"phase": "Failed", "tasks": 0, "observedGeneration": 3}, True),
    "failed, tasks left": ({"phase": "Failed", "tasks": 1, "observedGeneration": 3}, False),
    "failed, not looked at": ({"phase": "Failed", "tasks": 0, "observedGeneration": 2}, False),
}


@pytest.mark.parametrize("name", DRAINED)
def test_drained(name: str) -> None:
    status, wanted = DRAINED[name]
    assert drained(slice_().status(**status).build(), generation=3) is wanted


async def test_it_looks_until_the_operator_says_so(api: Api) -> None:
    goal = Goal(await make(api))
    await bind(api, "one")
    seen: list[str] = []
    ticks = iter(range(1000))

    def show(lefts: Sequence[Left]) -> None:
        seen.extend(one.line for one in lefts)

    waiting = asyncio.ensure_future(wait(api.session, [goal], None, show, lambda: next(ticks)))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await say(api, conditions=[condition("True", goal.slice.metadata.generation)])
    assert await waiting == []
    assert seen[0] == "slice/s: 1 Task left: one"
    assert seen[-1] == "slice/s: drained, no Task is left on it"


async def test_a_deletion_ends_when_it_is_gone(api: Api) -> None:
    goal = Goal(await make(api), gone=True)
    await say(api, message="waits for its NodePool")
    left = await look(api.session, goal)
    assert left.line == "slice/s: waits for its NodePool"
    await api.patch(SLICES, "s", {"metadata": {"finalizers": None}}, namespace="default")
    await api.delete(SLICES, "s", "default")
    assert (await look(api.session, goal)).end == "gone"
    await make(api)
    assert "another one of that name" in (await look(api.session, goal)).end


async def test_a_deletion_does_not_end_with_the_drain(api: Api) -> None:
    goal = Goal(await make(api), gone=True)
    await say(api, conditions=[condition("True", 9)])
    assert (await look(api.session, goal)).end == ""


async def test_the_time_is_over(api: Api) -> None:
    goals = [Goal(await make(api)), Goal(await make(api, "other"))]
    await say(api, "other", conditions=[condition("True", goals[1].slice.metadata.generation)])
    await bind(api, "one")
    ticks = iter(range(1000))
    left = await wait(api.session, goals, timedelta(seconds=5), lambda _: None, lambda: next(ticks))
    assert [one.line for one in left] == ["slice/s: 1 Task left: one"]


async def test_an_outage_is_told_and_outlived(api: Api) -> None:
    goal = Goal(await make(api))
    lines: list[str] = []
    ticks = iter(range(1000))
    await api.set_down(True)
    waiting = asyncio.ensure_future(
        wait(api.session, [goal], None, lambda lefts: lines.append(lefts[0].line), lambda: next(ticks))
    )
    await asyncio.sleep(0.05)
    await api.set_down(False)
    await say(api, conditions=[condition("True", goal.slice.metadata.generation)])
    assert await waiting == []
    assert "can't be reached, trying on" in lines[0]


async def test_ended_tasks_and_those_elsewhere_are_not_left(api: Api) -> None:
    goal = Goal(await make(api))
    await bind(api, "done")
    await api.say({"phase": "Succeeded"}, "done")
    await api.create(TASKS, task("far").bound("other").meta(namespace="default").body(), "default")
    await bind(api, "here")
    assert [one.metadata.name for one in (await look(api.session, goal)).tasks] == ["here"]


def test_each_task_with_its_grace() -> None:
    goal = Goal(slice_().build())
    told = task("told", terminationGracePeriodSeconds=60).bound("s", stopReason="SliceDrained").phase("Running").build()
    left = Left(goal, (task("untold").bound("s").build(), told))
    watched = Watched()
    watched.lines(left, NOW)
    head, untold, line = watched.lines(left, NOW + timedelta(seconds=20))
    assert head == "slice/s: 2 Tasks left: untold, told"
    assert "not told to stop yet" in untold
    assert line.split() == ["told", "Running,", "told", "to", "stop", "20s", "ago,", "may", "take", "60s"]
    late = watched.lines(left, NOW + timedelta(seconds=61))[2]
    assert "its grace period of 60s is over" in late


def test_a_pipe_gets_a_line_per_change() -> None:
    goal = Goal(slice_().build())
    said: list[str] = []
    show = changes(said.append)
    for left in (
        Left(goal, message="waits"),
        Left(goal, message="waits"),
        Left(goal, message="waits more"),
        Left(goal, end="gone"),
    ):
        show([left])
    assert said == ["slice/s: waits", "slice/s: waits more"]
