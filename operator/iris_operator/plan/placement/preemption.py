"""Which Tasks end so that those of higher priority run: only for who fits nowhere, with no node on its way for it.

Who was stopped for whom says their binding (`stopReason`, `stopFor`); the rest follows in each pass from what is there: what
is being left counts as room for who is first, so that nobody is stopped twice for one Task.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from iris_operator.api.life import Cause
from iris_operator.api.task import Task
from iris_operator.plan.actions import Note, Preempt, StopTask
from iris_operator.plan.placement.claims import Claims, Coming
from iris_operator.plan.placement.eviction import Eviction, Evictions
from iris_operator.plan.placement.ledger import Ledger
from iris_operator.plan.placement.placement import PlacementPlan, Unplaced
from iris_operator.plan.placement.shapes import Shape
from iris_operator.plan.placement.slot_index import SlotIndex
from iris_operator.plan.text import count, names_text

PREEMPTED = "Preempted"
PREEMPTING = "Preempting"

# Tasks that are made room for in one pass; the next follows a second later.
_AT_ONCE = 32


@dataclass
class PreemptionPlan:
    """`preempts`: by rank of who gets the room. `told`: by UID, what is said of Tasks that wait for others to end.

    `more`: not all could be looked at; look again soon.
    """

    preempts: list[Preempt] = field(default_factory=list)
    told: dict[str, Unplaced] = field(default_factory=dict)
    more: bool = False


def plan_preemption(
    placement: PlacementPlan, unserved: Collection[str], ledger: Ledger, now: datetime
) -> PreemptionPlan:
    """`placement`: of this pass; the ledger may be newer. `unserved`: UIDs of Tasks for which no node is on its way."""
    plan = PreemptionPlan()
    lowest = ledger.lowest
    if lowest is None:
        return plan
    above = [one for one in placement.unplaced if one.task.spec.priority > lowest and ledger.knows(one.task)]
    if above:
        _Run(placement, ledger, plan, now).all(above, unserved)
    return plan


class _Run:
    """One pass, over those that wait in order of rank."""

    def __init__(self, placement: PlacementPlan, ledger: Ledger, plan: PreemptionPlan, now: datetime) -> None:
        shapes = [one.shape for one in placement.unplaced if one.shape is not None]
        self._plan = plan
        self._index = SlotIndex(ledger, dict.fromkeys(shapes))
        for one in placement.bindings:
            shape, slot = ledger.shapes.of(one.task), ledger.slots.get(one.binding.worker_uid)
            if isinstance(shape, Shape) and slot is not None and ledger.knows(one.task):  # its binding isn't seen yet
                self._index.take_from(slot, shape)
        self._claims = Claims(ledger, self._index)
        self._evictions = Evictions(ledger, self._claims, now)
        self._slots, self._occupants = ledger.slots, ledger.occupants

    def all(self, waiting: Sequence[Unplaced], unserved: Collection[str]) -> None:
        """Room for each: what is free by now, what is being left, what must be taken from others."""
        hopeless: set[tuple[Shape, int, int]] = set()
        named = self._claims.names()
        for one in waiting:  # as in placement: who waits for its own place to be left holds that, and no other
            if one.task.metadata.name in named and one.shape is not None:
                self._is_left(one, one.shape)
        for one in waiting:
            shape, priority, uid = one.shape, one.task.spec.priority, one.task.metadata.uid
            if shape is None or uid in self._plan.told or self._is_free(one, shape) or self._is_left(one, shape):
                continue
            kind = (shape, priority, one.members)
            if kind in hopeless or uid not in unserved:
                continue
            if len(self._plan.preempts) == _AT_ONCE:
                self._plan.more = True
                return
            found = self._evictions.best(shape, priority, one.members)
            if found is None:
                hopeless.add(kind)
            else:
                self._evict(one, shape, found)

    def _is_free(self, one: Unplaced, shape: Shape) -> bool:
        """Whether there is room by now: the next placement takes it. Of several replicas that shows when nobody has to end."""
        slot = self._index.take(shape) if one.members == 1 else None
        if slot is not None:
            self._evictions.forget(slot.worker_uid)
        return slot is not None

    def _is_left(self, one: Unplaced, shape: Shape) -> bool:
        """Whether others are about to leave it room."""
        found = self._claims.promise(shape, one.task.metadata.name, one.members)
        for coming in found:
            self._evictions.forget(coming.slot.worker_uid)
        if found:
            self._plan.told[one.task.metadata.uid] = _told(one, found)
        return bool(found)

    def _evict(self, one: Unplaced, shape: Shape, found: Eviction) -> None:
        """What ends is room that is about to be left from now on, so that the next may have the rest of it."""
        for bound in (each for unit in found.units for each in unit.tasks):
            slot = self._slots.get(bound.worker_uid)
            if slot is not None:
                self._claims.expect(slot, bound, one.task.metadata.name)
            self._evictions.forget(bound.worker_uid)
        for slot in found.hosts:
            self._claims.keep(slot, shape, one.task.metadata.name)
            self._evictions.forget(slot.worker_uid)
        victims = [each.task for unit in found.units for each in unit.tasks]
        if victims:
            self._plan.preempts.append(_preempt(one, found, victims))
            comings = [coming for slot in found.hosts if (coming := self._claims.of(slot)) is not None]
            self._plan.told[one.task.metadata.uid] = _told(one, comings)


def _told(one: Unplaced, found: Sequence[Coming]) -> Unplaced:
    name = one.task.metadata.name
    every = {bound.task.metadata.name: whom for coming in found for bound, whom in coming.who.values()}
    mine = sorted(who for who, whom in every.items() if whom == name)
    names = mine or sorted(every)
    lower = " of lower priority" if mine else ""
    slices = names_text(sorted({coming.slot.slice_name for coming in found}), 3)
    words = f"waits for {count(len(names), 'Task')}{lower} to end on slice {slices}: {names_text(names, 3)}"
    return Unplaced(one.task, PREEMPTING, f"{_needs(one)}; {words}", one.shape, one.facts, one.members)


def _preempt(one: Unplaced, found: Eviction, victims: Sequence[Task]) -> Preempt:
    task = one.task
    name, priority = task.metadata.name, task.spec.priority
    listed = names_text([f"{each.metadata.name} (priority {each.spec.priority})" for each in victims], 3)
    where = f"slice {found.hosts[0].slice_name}"
    words = f"{_needs(one)}, priority {priority}; has {count(len(victims), 'Task')} of lower priority end on {where}: {listed}"
    stops = tuple(
        StopTask(each, PREEMPTED, name, Note("Warning", PREEMPTED, _victim_words(each, one, where))) for each in victims
    )
    return Preempt(task, stops, Note("Normal", PREEMPTING, words))


def _victim_words(victim: Task, one: Unplaced, where: str) -> str:
    budget, spent = victim.spec.retry_policy.budget(Cause.PREEMPTION), victim.status.retries.of(Cause.PREEMPTION)
    after = (
        f"is placed again (retry {spent + 1} of {budget})"
        if spent < budget
        else f"ends: retryPolicy.preemption {budget}"
    )
    return (
        f"makes room on {where} for Task {one.task.metadata.name} (priority {one.task.spec.priority}), "
        f"which {_needs(one)}; this one has priority {victim.spec.priority} and {after}"
    )


def _needs(one: Unplaced) -> str:
    return one.facts.split("; ", 1)[0]
