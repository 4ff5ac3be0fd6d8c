"""Waiting for slices to be drained or gone, with what is left of each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from iris_operator.api.slice import Slice, SlicePhase
from iris_operator.api.task import Task
from iris_operator.cli.session import Session
from iris_operator.plan.text import count, duration, names_text
from iris_operator.ports.errors import NotFoundError, UnavailableError
from iris_operator.ports.kube import SLICES, TASKS

_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Goal:
    """One slice, as it was when we asked. `gone`: wait for its end, else for its being drained."""

    slice: Slice
    gone: bool = False

    @property
    def name(self) -> str:
        """The slice's name."""
        return self.slice.metadata.name


@dataclass(frozen=True)
class Left:
    """What is left of a slice: Tasks on it, and what the operator says. `end`: how it ended, empty while it goes on."""

    goal: Goal
    tasks: Sequence[Task] = ()
    message: str = ""
    end: str = ""

    @property
    def line(self) -> str:
        """One line without times: it changes only when something did."""
        head = f"slice/{self.goal.name}"
        if self.end:
            return f"{head}: {self.end}"
        if self.tasks:
            names = names_text([task.metadata.name for task in self.tasks])
            return f"{head}: {count(len(self.tasks), 'Task')} left: {names}"
        return f"{head}: {self.message}" if self.message else head


@dataclass
class Watched:
    """Since when we know of each Task that it was told to stop, by UID and attempt."""

    told: dict[tuple[str, int], datetime] = field(default_factory=dict)

    def lines(self, left: Left, now: datetime) -> list[str]:
        """What is left, with each Task's grace period, for a display that is drawn anew every second."""
        rows = [left.line]
        if not left.end:
            rows += [f"    {task.metadata.name:<30} {self._grace(task, now)}" for task in left.tasks]
        return rows

    def _grace(self, task: Task, now: datetime) -> str:
        binding = task.spec.binding
        phase = task.status.phase.value if task.status.phase else "Pending"
        if binding is None or not binding.stop_reason:
            return f"{phase}, not told to stop yet"
        since = self.told.setdefault((task.metadata.uid, binding.attempt), now)
        gone = (now - since).total_seconds()
        grace = task.spec.termination_grace_period_seconds
        if gone > grace:
            return f"{phase}, killed: its grace period of {duration(grace)} is over"
        return f"{phase}, told to stop {duration(gone)} ago, may take {duration(grace)}"


async def wait(
    found: Session,
    goals: Sequence[Goal],
    timeout: timedelta | None,
    show: Callable[[Sequence[Left]], None],
    clock: Callable[[], float],
) -> list[Left]:
    """Look until all have ended or the time is over; `show` is called at each look. Those that have not ended."""
    end = None if timeout is None else clock() + timeout.total_seconds()
    lefts: dict[str, Left] = {goal.name: Left(goal) for goal in goals}
    while True:
        open_goals = [one.goal for one in lefts.values() if not one.end]
        for left in await asyncio.gather(*(_tried(look(found, goal), lefts[goal.name]) for goal in open_goals)):
            lefts[left.goal.name] = left
        show(list(lefts.values()))
        unfinished = [one for one in lefts.values() if not one.end]
        if not unfinished or (end is not None and clock() >= end):
            return unfinished
        await asyncio.sleep(_LOOK_SECONDS)


async def _tried(looking: Awaitable[Left], before: Left) -> Left:
    try:
        return await looking
    except UnavailableError as error:
        return Left(before.goal, before.tasks, f"the API server can't be reached, trying on: {error.message}")


async def look(found: Session, goal: Goal) -> Left:
    """The slice as it is now."""
    try:
        one = Slice.parse(await found.api.get(SLICES, goal.name, found.namespace))
    except NotFoundError:
        return Left(goal, end="gone")
    if one.metadata.uid != goal.slice.metadata.uid:
        return Left(goal, end="gone; there is another one of that name")
    if not goal.gone and drained(one, goal.slice.metadata.generation):
        return Left(goal, end="drained, no Task is left on it")
    listing = await found.api.list(TASKS, found.namespace, fields=f"spec.binding.sliceName={goal.name}")
    tasks = [Task.parse(item) for item in listing.items]
    on_it = [task for task in tasks if not (task.status.phase and task.status.phase.ended)]
    return Left(goal, sorted(on_it, key=lambda task: task.metadata.name), one.status.message)


def drained(one: Slice, generation: int) -> bool:
    """Whether the operator says so of the spec of that generation or a later one: an older word may be of another drain."""
    if one.status.phase is SlicePhase.FAILED:
        return one.status.tasks == 0 and (one.status.observed_generation or 0) >= generation
    return any(
        each.type == "Drained" and each.status == "True" and (each.observed_generation or 0) >= generation
        for each in one.status.conditions
    )
