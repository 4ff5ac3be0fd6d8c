"""Which Task goes on which node: by priority, then oldest first, on the fullest node that has room, so that idle slices
stay idle."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from iris_operator.api.cluster import IrisCluster
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.plan.actions import BindTask
from iris_operator.plan.placement.claims import Claims
from iris_operator.plan.placement.ledger import Ledger, Slot, Waiting
from iris_operator.plan.placement.shapes import Shape
from iris_operator.plan.placement.slot_index import SlotIndex
from iris_operator.plan.placement.squad import Squad
from iris_operator.plan.placement.squad_placement import place_squad, stands_alone
from iris_operator.plan.placement.why_squad import why_squad
from iris_operator.plan.placement.why_unplaced import Explainer
from iris_operator.plan.settings import NoCluster

__all__ = ["Denied", "PlacementPlan", "PlacementView", "Slot", "Unplaced", "free_by_slot", "plan_placement"]


class Unplaced(NamedTuple):
    """A Task that stays pending, and why. `reason` is a condition's reason.

    `shape`: what it needs; None when no settings apply to it. `facts`: the part of the message that says what it needs
    and what there is, without advice. `members`: of a Task of several replicas, how many of the shape go on one slice.
    """

    task: Task
    reason: str
    message: str
    shape: Shape | None = None
    facts: str = ""
    members: int = 1


class Denied(NamedTuple):
    """A Task that is never placed, since it asks for more than its cluster allows; `message` says for what."""

    task: Task
    message: str


@dataclass(frozen=True)
class PlacementPlan:
    """Bindings to make, and what could not be bound, by priority, then oldest first.

    `denied` and those whose rest after a failure isn't over are in neither: nobody makes a slice for them. `wake`: when
    the first of these rests ends, in seconds since 1970.
    """

    bindings: tuple[BindTask, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    denied: tuple[Denied, ...] = ()
    wake: float | None = None


@dataclass(frozen=True)
class PlacementView:
    """Everything placement looks at, in one namespace."""

    namespace: str
    clusters: tuple[IrisCluster, ...]
    slices: tuple[Slice, ...]
    tasks: tuple[Task, ...]


def plan_placement(
    view: PlacementView, now: datetime, ledger: Ledger | None = None, *, explain: bool = True
) -> PlacementPlan:
    """Place every Task of the namespace that waits. `ledger`: that of the namespace's last pass makes it fast.

    Without `explain` nothing is said of what could not be bound: for passes that only bind.
    """
    ledger = ledger or Ledger()
    ledger.sync(view.namespace, view.clusters, view.slices, view.tasks)
    waiting, denied, wake = _sort_out(ledger.waiting(), now)
    if not waiting:
        return PlacementPlan(denied=denied, wake=wake)
    shapes = dict.fromkeys(one.shape for one in waiting if isinstance(one.shape, Shape))
    index = SlotIndex(ledger, shapes)
    bindings: list[BindTask] = []
    left: list[Waiting] = []
    run = _Run(index, ledger, now)
    for one in run.ordered(waiting):
        found = run.place(one)
        if found:
            bindings += found
        elif one.squad is None or not one.squad.placed:
            left.append(one)
    if run.reordered:
        left.sort(key=lambda one: (-one.task.spec.priority, one.since, one.name))
    unplaced = _explain(left, Explainer(index, view.slices), index) if explain else ()
    return PlacementPlan(tuple(bindings), unplaced, denied, wake)


def free_by_slot(view: PlacementView) -> list[Slot]:
    """The ready nodes of a namespace that take Tasks, with what is free on each."""
    ledger = Ledger()
    ledger.sync(view.namespace, view.clusters, view.slices, view.tasks)
    return sorted(ledger.slots.values(), key=lambda slot: (slot.slice_name, slot.rank))


def _sort_out(found: list[Waiting], now: datetime) -> tuple[list[Waiting], tuple[Denied, ...], float | None]:
    """Those to place, those that never are, and when the first that rests may be."""
    waiting: list[Waiting] = []
    denied: list[Denied] = []
    rests: list[float] = []
    for one in found:
        until = one.squad.retry_after if one.squad is not None else one.task.status.retry_after
        if one.denied:
            denied.append(Denied(one.task, one.denied))
        elif until is not None and until > now:
            rests.append(until.timestamp())
        else:
            waiting.append(one)
    return waiting, tuple(denied), min(rests, default=None)


class _Run:
    """One pass. What found no room once finds none later in the same pass: `full` has such shapes, `crowded` such squads."""

    def __init__(self, index: SlotIndex, ledger: Ledger, now: datetime) -> None:
        self._index, self._now = index, now
        self._full: set[Shape] = set()
        self._crowded: set[tuple[object, ...]] = set()
        # The lowest take what is left; who is above them gets room kept that others are about to leave.
        ranks = ledger.lowest is not None and bool(ledger.occupants.leaving)
        self._claims = Claims(ledger, index) if ranks else None
        self._lowest = ledger.lowest or 0
        self._held: set[str] = set()  # those that others make room for

    @property
    def reordered(self) -> bool:
        """Whether `ordered` changed the order."""
        return bool(self._held)

    def ordered(self, waiting: list[Waiting]) -> list[Waiting]:
        """By rank; but who waits for its place to be left takes none that others above the lowest can have: the room that was
        made for one of them would be gone when its own comes free."""
        if self._claims is None:
            return waiting
        named = self._claims.names()
        for one in waiting if named else ():
            name = one.task.metadata.name
            if name in named and self._is_above(one) and isinstance(one.shape, Shape):
                self._claims.promise(one.shape, name, one.task.spec.replicas)
                self._held.add(name)
        if not self._held:
            return waiting
        return sorted(waiting, key=lambda one: (not self._is_above(one), one.task.metadata.name in self._held))

    def _is_above(self, one: Waiting) -> bool:
        return one.task.spec.priority > self._lowest

    def place(self, one: Waiting) -> list[BindTask]:
        """Its bindings; empty: there is no room for it."""
        task, shape, squad = one.task, one.shape, one.squad
        if not isinstance(shape, Shape):
            return []
        held = self._claims is not None and task.metadata.name in self._held
        if squad is not None:
            found = _place_squad(squad, shape, self._index, self._crowded, self._now)
            if found or squad.placed:
                return found
        else:
            slot = self._claims.redeem(shape, task.metadata.name) if self._claims is not None and held else None
            slot = slot or self._take(shape)
            if slot is not None:
                return [_bind(task, slot, self._now)]
        if self._claims is not None and not held and self._is_above(one):
            self._claims.promise(shape, task.metadata.name, task.spec.replicas)
        return []

    def _take(self, shape: Shape) -> Slot | None:
        if shape in self._full:
            return None
        slot = self._index.take(shape)
        if slot is None:
            self._full.add(shape)
        return slot


def _bind(task: Task, slot: Slot, now: datetime) -> BindTask:
    attempt = max(task.status.attempt or 0, task.status.ended_attempt or 0) + 1
    return BindTask(task, slot.binding(attempt, now))


def _place_squad(
    squad: Squad, shape: Shape, index: SlotIndex, crowded: set[tuple[object, ...]], now: datetime
) -> list[BindTask]:
    kind = (shape, len(squad.free), stands_alone(squad.parent))
    if kind in crowded:
        return []
    found = place_squad(squad, shape, index, now)
    if not found and not squad.placed:
        crowded.add(kind)
    return found


def _explain(left: list[Waiting], explainer: Explainer, index: SlotIndex) -> tuple[Unplaced, ...]:
    found: list[Unplaced] = []
    for one in left:
        if isinstance(one.shape, NoCluster):
            found.append(Unplaced(one.task, one.shape.reason, one.shape.message))
        elif one.squad is not None:
            found.append(_explain_squad(one.task, one.shape, explainer, index))
        else:
            reason, facts, advice = explainer.why(one.shape)
            found.append(Unplaced(one.task, reason, facts + advice, one.shape, facts))
    return tuple(found)


def _explain_squad(parent: Task, shape: Shape, explainer: Explainer, index: SlotIndex) -> Unplaced:
    members = parent.spec.replicas
    reason, facts, advice = why_squad(explainer, index, shape, members, alone=stands_alone(parent))
    return Unplaced(parent, reason, facts + advice, shape, facts, members)
