"""All ScaleGroups of a namespace in one pass: what each makes, retires and says, and why Tasks wait."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from iris_operator.api.cluster import IrisCluster
from iris_operator.api.scalegroup import ScaleGroup, ScaleGroupStatus
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.plan import scaling
from iris_operator.plan.actions import DeleteSlice, GroupAction, Note
from iris_operator.plan.placement import PlacementPlan, Unplaced


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
    """`waiting`: every unplaced Task with the whole reason. `look_again_seconds`: when time alone changes the plan."""

    groups: tuple[GroupPlan, ...] = ()
    waiting: tuple[Unplaced, ...] = ()
    look_again_seconds: float | None = None


def plan_fleet(view: FleetView, placement: PlacementPlan, now: datetime) -> FleetPlan:
    """The plan of all groups. `placement`: what plan_placement said of the same Tasks just before."""
    return FleetPlan(tuple(_min_only(group, view, now) for group in view.groups), placement.unplaced)


def _min_only(group: ScaleGroup, view: FleetView, now: datetime) -> GroupPlan:
    own = [
        one for one in view.slices if any(owner.uid == group.metadata.uid for owner in one.metadata.owner_references)
    ]
    names = _tokens(group, own)
    plan = scaling.plan_group(group, own, lambda: next(names), now)
    deletes = tuple(DeleteSlice(one, "Failed") for one in plan.delete)
    return GroupPlan(group, (*deletes, *plan.create), plan.status, plan.notes)


def _tokens(group: ScaleGroup, own: list[Slice]) -> Iterator[str]:
    seed = group.metadata.uid + ",".join(sorted(one.metadata.uid for one in own))
    number = 0
    while True:
        yield hashlib.sha256(f"{seed}/{number}".encode()).hexdigest()[:5]
        number += 1
