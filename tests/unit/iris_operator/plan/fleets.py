"""Passes over groups for the planners' tests, from builders."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from iris_operator.api.names import ANNOTATION_RETIRING, ANNOTATION_RETIRING_SINCE, LABEL_TEMPLATE_HASH
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.plan.actions import CreateSlice
from iris_operator.plan.groups.fleet import FleetPlan, FleetView, GroupPlan, plan_fleet
from iris_operator.plan.placement.ledger import Ledger
from iris_operator.plan.placement.placement import PlacementView, plan_placement
from tests.builders import NAMESPACE, NOW, Builder, SliceBuilder, TaskBuilder, at, cluster, group_member

NODE = {"cpu": "4", "memory": "8Gi"}


def fleet(
    groups: Sequence[Builder[ScaleGroup]],
    slices: Sequence[SliceBuilder] = (),
    tasks: Sequence[TaskBuilder] = (),
    clusters: Sequence[Builder[Any]] | None = None,
    now: datetime = NOW,
    gangs: dict[str, str] | None = None,
    ledger: Ledger | None = None,
) -> FleetPlan:
    """Placement, then the fleet pass."""
    built = tuple(one.build() for one in slices), tuple(one.build() for one in tasks)
    settings = tuple(one.build() for one in ((cluster(),) if clusters is None else clusters))
    placement = plan_placement(PlacementView(NAMESPACE, settings, *built), now, ledger)
    view = FleetView(NAMESPACE, settings, tuple(one.build() for one in groups), *built, gangs or {})
    return plan_fleet(view, placement, now, ledger)


def only(plan: FleetPlan, name: str = "g") -> GroupPlan:
    """The plan of one group."""
    (found,) = [one for one in plan.groups if one.group.metadata.name == name]
    return found


def created(plan: GroupPlan) -> list[str]:
    """Why each new slice is made."""
    return [one.reason for one in plan.actions if isinstance(one, CreateSlice)]


def acted(plan: GroupPlan) -> list[str]:
    """`Cordon m0 Roll` for everything but creates."""
    return [
        f"{type(one).__name__.removesuffix('Slice')} {one.slice.metadata.name} {one.reason}"
        for one in plan.actions
        if not isinstance(one, CreateSlice)
    ]


def idle(name: str, ago: float = 1000, of: str = "g", node: dict[str, Any] | None = None) -> SliceBuilder:
    """A Ready slice of the group without Tasks, for so many seconds."""
    made = group_member(of, name).ready(node or NODE)
    return made.status(readySince=at(ago + 10), idleSince=at(ago), launchedAt=at(ago + 1200), bootSeconds=1190)


def booting(name: str, ago: float = 100, of: str = "g") -> SliceBuilder:
    """Launched so many seconds ago."""
    return (
        group_member(of, name).made(ago).phase("Booting", ago).status(launchedAt=at(ago), nodePoolName=f"team-{name}")
    )


def failed(name: str, kind: str = "NoCapacity", ago: float = 10, of: str = "g", pool: str = "") -> SliceBuilder:
    """Failed so many seconds ago; its NodePool is gone unless named. Made a minute before."""
    made = group_member(of, name).made(ago + 60).phase("Failed", ago)
    return made.status(failure=kind, message="said CoreWeave", nodePoolName=pool)


def old(one: SliceBuilder) -> SliceBuilder:
    """Of another template than the group's now."""
    return one.labelled(**{LABEL_TEMPLATE_HASH: "before"})


def retiring(one: SliceBuilder, reason: str = "ScaleDown", ago: float | None = 11) -> SliceBuilder:
    """Cordoned by its group so many seconds ago."""
    notes = {ANNOTATION_RETIRING: reason, **({} if ago is None else {ANNOTATION_RETIRING_SINCE: at(ago)})}
    return one.meta(annotations=notes).spec(availability="Cordoned")
