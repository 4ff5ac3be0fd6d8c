"""All ScaleGroups of a namespace in one pass: what each makes, retires and says, and why Tasks wait.

Who decides what: crew (the group's slices, and whether it may launch), growth (minimum, demand, spares), demand (which
group grows for whom), disruption (which slices go), group_status and why_waiting (what is said). Here they are put in order.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from iris_operator.api.cluster import IrisCluster
from iris_operator.api.names import bounded_name
from iris_operator.api.scalegroup import ScaleGroup, ScaleGroupStatus
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.plan.actions import CreateSlice, GroupAction, Note, Preempt
from iris_operator.plan.groups.crew import Crew, muster
from iris_operator.plan.groups.demand import DemandPlan, Lot, Where, plan_demand
from iris_operator.plan.groups.disruption import Disruption, plan_disruption
from iris_operator.plan.groups.fleet_demand import Queue, queue_demand
from iris_operator.plan.groups.growth import Growth, Making, begin, finish, lots_by_hand
from iris_operator.plan.groups.status import Reason, backoff_decision, group_status, held_back
from iris_operator.plan.groups.why_waiting import Words
from iris_operator.plan.placement.ledger import Ledger
from iris_operator.plan.placement.placement import PlacementPlan, Unplaced
from iris_operator.plan.placement.preemption import plan_preemption
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.text import count

_SOONEST_SECONDS = 0.5
_BAD = ("Block", "Replace")


@dataclass(frozen=True)
class FleetView:
    """One namespace. `tasks`: those that have not ended, bound or not. `gangs`: Task UID -> name of its gang, for Tasks
    that can only run all together (Task itself has no such field yet)."""

    namespace: str
    clusters: tuple[IrisCluster, ...]
    groups: tuple[ScaleGroup, ...]
    slices: tuple[Slice, ...]
    tasks: tuple[Task, ...]
    gangs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupPlan:
    """One group: actions in order, then its status (write it when it differs), then Events."""

    group: ScaleGroup
    actions: tuple[GroupAction, ...]
    status: ScaleGroupStatus
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class FleetPlan:
    """`waiting`: every unplaced Task with the whole reason. `preempts`: who is stopped for some of them.

    `look_again_seconds`: when time alone changes the plan.
    """

    groups: tuple[GroupPlan, ...] = ()
    waiting: tuple[Unplaced, ...] = ()
    preempts: tuple[Preempt, ...] = ()
    look_again_seconds: float | None = None


def plan_fleet(view: FleetView, placement: PlacementPlan, now: datetime, ledger: Ledger | None = None) -> FleetPlan:
    """The plan of all groups. `placement`: what plan_placement said of the same Tasks just before.

    `view` may be newer than that: bindings made since count once. `ledger`: that of the namespace's last pass, for speed.
    """
    ledger = ledger or Ledger()
    ledger.sync(view.namespace, view.clusters, view.slices, view.tasks)
    busy = Counter(ledger.busy)
    busy.update(one.binding.slice_name for one in placement.bindings)
    crews = [_muster(group, ledger, busy, now) for group in sorted(view.groups, key=lambda one: one.metadata.name)]
    growths = [begin(crew) for crew in crews]
    queue = queue_demand(placement.unplaced, view.gangs, {crew.name: crew for crew in crews}, now)
    lots = [lot for growth in growths for lot in growth.lots] + _by_hand(ledger)
    demand = plan_demand(queue.demands, lots, [one.grower for one in growths if one.grower is not None])
    plans, wake = [], [*queue.wake, *([] if placement.wake is None else [placement.wake])]
    for growth in growths:
        plan, more = _plan_group(growth, demand, ledger)
        plans.append(plan)
        wake += more
    preemption = plan_preemption(placement, _unserved(queue, demand) if ledger.lowest is not None else (), ledger, now)
    if preemption.more:
        wake.append(now.timestamp())
    waits = [max(_SOONEST_SECONDS, moment - now.timestamp()) for moment in wake]
    told = preemption.told
    waiting = tuple(
        told.get(one.task.metadata.uid, one) if told else one
        for one in _waiting(placement, queue, demand, crews, ledger)
    )
    return FleetPlan(tuple(plans), waiting, tuple(preemption.preempts), min(waits, default=None))


def _muster(group: ScaleGroup, ledger: Ledger, busy: Mapping[str, int], now: datetime) -> Crew:
    template, roster = ledger.roster(group)
    return muster(group, ledger.shapes.cluster(group.spec.cluster_name), template, roster, busy, now)


def _by_hand(ledger: Ledger) -> list[Lot]:
    found: dict[str, list[Lot]] = {}
    for one in ledger.owned(""):
        settings = ledger.shapes.cluster(one.slice.spec.cluster_name)
        if one.in_flight and one.schedulable and not isinstance(settings, NoCluster):
            found.setdefault(settings.metadata.name, []).extend(lots_by_hand(settings.metadata.name, [one]))
    return [lot for name in sorted(found) for lot in sorted(found[name], key=lambda lot: lot.units[0].name)]


def _plan_group(growth: Growth, demand: DemandPlan, ledger: Ledger) -> tuple[GroupPlan, list[float]]:
    """The plan of one group, and moments (seconds since 1970) at which it may be another."""
    crew = growth.crew
    making = finish(growth, demand)
    leaving = plan_disruption(crew, making.wants) if crew.active else Disruption()
    names = _names(crew, ledger) if making.total else iter(())
    create = [CreateSlice(next(names), reason) for reason, number in _parts(making) for _ in range(number)]
    reasons = [*backoff_decision(crew), *_grown(growth, making), *_kept(leaving), *_summed(leaving.reasons)]
    status = group_status(crew, making, len(leaving.reasons), reasons, leaving.lost)
    notes = tuple(Note("Warning" if action in _BAD else "Normal", action, words) for action, _, words in reasons)
    actions: tuple[GroupAction, ...] = (*leaving.uncordon, *leaving.delete, *leaving.cordon, *create)
    wake = list(leaving.wake)
    if crew.backoff is not None and crew.backoff.until is not None and crew.blocked:
        wake.append(crew.backoff.until.timestamp())
    return GroupPlan(crew.group, actions, status, notes), wake


def _parts(making: Making) -> list[tuple[str, int]]:
    return [("MinSlices", making.minimum), ("Demand", making.tasks), ("Buffer", making.spares)]


def _grown(growth: Growth, making: Making) -> list[Reason]:
    crew, spec = growth.crew, growth.crew.group.spec
    limit = held_back(crew) or f"maxSlices {spec.max_slices}"
    has = f"{len(crew.up)} up, {len(crew.in_flight)} booting; {limit}"
    words = {
        "MinSlices": f"keeps {count(spec.min_slices, 'slice')} (minSlices)",
        "Demand": f"waiting Tasks need {count(making.demand, 'slice')} beyond what is Ready",
        "Buffer": f"keeps {count(spec.buffer_slices, 'idle slice')} (bufferSlices) beside what is in use",
    }
    return [
        ("ScaleUp", reason, f"making {count(number, 'slice')}: {words[reason]}; has {has}")
        for reason, number in _parts(making)
        if number
    ]


def _kept(leaving: Disruption) -> list[Reason]:
    return [("ScaleUp", one.reason, f"keeps slice {one.slice.metadata.name} after all") for one in leaving.uncordon]


def _summed(reasons: list[Reason]) -> list[Reason]:
    """One decision for all slices that go for one reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for action, reason, words in reasons:
        found.setdefault((action, reason), []).append(words)
    return [
        (action, reason, words[0] if len(words) == 1 else f"{count(len(words), 'slice')}; the first: {words[0]}")
        for (action, reason), words in found.items()
    ]


def _names(crew: Crew, ledger: Ledger) -> Iterator[str]:
    """Names of new slices. They follow from what there is, so that a create whose answer was lost is asked for again
    under the same name, and is refused rather than done twice."""
    taken = ledger.slice_names()
    last = crew.group.status.decisions[0].time.isoformat() if crew.group.status.decisions else ""
    seed = ",".join([crew.group.metadata.uid, last, *sorted(one.slice.metadata.uid for one in crew.members)])
    digest = hashlib.sha256(seed.encode()).hexdigest()
    number = 0
    while True:
        token = hashlib.sha256(f"{digest}/{number}".encode()).hexdigest()[:5]
        name = bounded_name(f"{crew.name}-{token}", 50)
        number += 1
        if name not in taken:
            taken.add(name)
            yield name


def _unserved(queue: Queue, demand: DemandPlan) -> set[str]:
    """UIDs of Tasks that no slice is on its way for, nor may be made."""
    found = [one for one, _ in (*queue.named, *queue.no_group)]
    for tasks, shares in zip(queue.tasks, demand.shares, strict=True):
        at = 0
        for share in shares:
            if share.where in (Where.UNMET, Where.NOWHERE):
                found += tasks[at : at + share.tasks]
            at += share.tasks
    return {one.task.metadata.uid for one in found}


def _waiting(
    placement: PlacementPlan, queue: Queue, demand: DemandPlan, crews: list[Crew], ledger: Ledger
) -> Iterator[Unplaced]:
    words = Words(crews)
    yield from queue.misconfigured
    for one, shape in queue.no_group:
        yield words.named_group(one, shape)
    by_name = {one.name: one for one in ledger.members()} if queue.named else {}
    for one, shape in queue.named:
        yield words.named_slice(one, shape, by_name.get(shape.slice_name))
    for tasks, shares in zip(queue.tasks, demand.shares, strict=True):
        yield from words.tell(tasks, shares)
