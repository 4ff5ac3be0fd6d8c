"""Who ends so that others have room: no more than needed, of the lowest priority, with the least work lost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from iris_operator.api.quantity import plus
from iris_operator.plan.placement.claims import TASKS
from iris_operator.plan.placement.occupants import Bound, port_text

Gives = dict[str, int]
"""What a node gets back: amounts by resource, TASKS, `port 80`: as Claims.lacks says what is missing."""

Cost = tuple[int, float, int]
"""Highest priority, seconds of work lost, number of Tasks. Less is better."""

NOTHING: Cost = (-(10**9), 0.0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """What can only be stopped together: one Task, or all members of one. `seconds`: that they have run."""

    tasks: tuple[Bound, ...]
    priority: int
    seconds: float

    @property
    def rank(self) -> tuple[int, float, str]:
        """The first to go is the least."""
        return (self.priority, self.seconds, self.tasks[0].task.metadata.name)


class Candidate(NamedTuple):
    """A unit, and what one node gets back when it goes."""

    unit: Unit
    gives: Gives


def unit_of(tasks: Collection[Bound], now: datetime) -> Unit:
    """At least one."""
    if len(tasks) == 1:
        (one,) = tasks
        return Unit((one,), one.task.spec.priority, _ran(one, now))
    ordered = tuple(sorted(tasks, key=lambda one: one.task.metadata.name))
    return Unit(ordered, max(one.task.spec.priority for one in tasks), sum(_ran(one, now) for one in tasks))


def gives(unit: Unit, worker_uid: str) -> Gives:
    """What the node of a worker gets back."""
    found: Gives = {}
    for one in unit.tasks:
        if one.worker_uid == worker_uid:
            more = {**one.wanted, TASKS: 1, **{f"port {port_text(at)}": 1 for at in one.ports}}
            found = plus(found, more) if found else more
    return found


def cost(units: Iterable[Unit]) -> Cost:
    """What it costs to stop them all."""
    found = list(units)
    if len(found) <= 1:
        return (found[0].priority, found[0].seconds, len(found[0].tasks)) if found else NOTHING
    return (max(one.priority for one in found), sum(one.seconds for one in found), sum(len(one.tasks) for one in found))


def choose(lacks: Mapping[str, int], candidates: Sequence[Candidate]) -> list[Unit] | None:
    """The cheapest that give what a node lacks. `candidates`: by rank, the first to go first. None: all of them don't.

    Either one that is enough by itself, or as many as it takes in their order, less those that turn out not to be needed.
    """
    several = _in_turn(lacks, candidates)
    if several is None:
        return None
    wanted = list(lacks.items())
    alone = next((one.unit for one in candidates if _is_enough(wanted, one.gives)), None)
    found = [one.unit for one in several]
    return min(found, [alone], key=cost) if alone is not None else found


def _in_turn(lacks: Mapping[str, int], candidates: Sequence[Candidate]) -> list[Candidate] | None:
    missing = dict(lacks)
    chosen: list[Candidate] = []
    for one in candidates:
        if any(one.gives.get(name) for name in missing):
            chosen.append(one)
            missing = {name: value - one.gives.get(name, 0) for name, value in missing.items()}
            missing = {name: value for name, value in missing.items() if value > 0}
            if not missing:
                return _needed(lacks, chosen)
    return None


def _needed(lacks: Mapping[str, int], chosen: list[Candidate]) -> list[Candidate]:
    """Without those that the others make up for: who is worth most stays first."""
    for one in reversed(list(chosen)):
        rest = [other for other in chosen if other is not one]
        if covers(lacks, [other.gives for other in rest]):
            chosen = rest
    return chosen


def _is_enough(wanted: Sequence[tuple[str, int]], given: Gives) -> bool:
    for name, value in wanted:  # noqa: SIM110 asked of each Task on each node: a generator costs three times as much
        if given.get(name, 0) < value:
            return False
    return True


def covers(lacks: Mapping[str, int], given: Sequence[Gives]) -> bool:
    """Whether all that is given makes up for what is missing."""
    return all(sum(one.get(name, 0) for one in given) >= value for name, value in lacks.items())


def _ran(one: Bound, now: datetime) -> float:
    binding = one.task.spec.binding
    since = one.task.status.start_time or (binding.bound_at if binding is not None else now)
    return max(0.0, (now - since).total_seconds())
