"""How many slices a group makes in a pass, and for what: its minimum, waiting Tasks, spares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from iris_operator.plan.groups.capacity import ordered_capacity
from iris_operator.plan.groups.crew import SCALE_DOWN, Crew
from iris_operator.plan.groups.demand import DemandPlan, Grower, Lot, Unit, Where
from iris_operator.plan.groups.disruption import Wants
from iris_operator.plan.groups.members import Member


@dataclass
class Growth:
    """`minimum`: slices to make for minSlices, before demand is looked at. `back`: retiring ones kept for it."""

    crew: Crew
    minimum: int
    missing: int  # of minSlices, that can't be made now
    back: list[Member] = field(default_factory=list)
    lots: list[Lot] = field(default_factory=list)
    grower: Grower | None = None


@dataclass(frozen=True)
class Making:
    """Slices to make, by what for; `short`: those of the minimum and spares that can't be made.

    `demand`: slices for waiting Tasks, beyond what is Ready.
    """

    minimum: int
    tasks: int
    spares: int
    short: int
    demand: int
    wants: Wants

    @property
    def total(self) -> int:
        """Slices to make in this pass."""
        return self.minimum + self.tasks + self.spares


def begin(crew: Crew) -> Growth:
    """What the minimum asks for, and the room that demand may use: retiring, in flight, and to be made."""
    if not crew.active:
        return Growth(crew, 0, 0)
    # Lately cordoned ones first: they have the longest to go.
    returning = [one for one in reversed(_retiring(crew)) if not one.schedulable]
    missing = max(0, crew.group.spec.min_slices - len(crew.up) - len(crew.in_flight) - _kept(crew))
    back = returning[:missing]
    missing -= len(back)
    minimum = min(missing, crew.may_launch)
    growth = Growth(crew, minimum, missing - minimum, back)
    growth.lots = _lots(crew, returning, minimum)
    growth.grower = _grower(crew, crew.may_launch - minimum)
    return growth


def finish(growth: Growth, demand: DemandPlan) -> Making:
    """After demand was put somewhere: spares, and what is to stand at all."""
    crew, spec = growth.crew, growth.crew.group.spec
    units = dict.fromkeys(unit for lot in growth.lots for unit in lot.units)
    promised = {unit.name for unit in units if unit.used and unit.where is not Where.NEW}
    new = sum(unit.used for unit in units if unit.where is Where.NEW)
    tasks = demand.make.get(crew.name, 0)
    busy = crew.busy_up + sum(one.name in crew.busy for one in crew.retiring)
    used = busy + len(promised) + new + tasks
    slices = min(spec.max_slices, max(spec.min_slices, used) + spec.buffer_slices)
    keep = {one.name for one in growth.back} | (promised & {one.name for one in crew.retiring})
    standing = len(crew.up) + len(crew.in_flight) + _kept(crew) + len(keep) + growth.minimum + tasks
    missing = max(0, slices - standing - growth.missing)
    if missing:
        for one in reversed(_retiring(crew)):
            if missing and one.name not in keep and not one.schedulable:
                keep.add(one.name)
                missing -= 1
    left = crew.may_launch - growth.minimum - tasks if crew.active else 0
    spares = min(missing, max(0, left))
    idle = max(0, slices - used, spec.min_slices - busy)
    # Idle Ready slices are the better spares; those in flight make up for what is missing of them.
    idle_there = len(crew.up) - crew.busy_up + len(keep - promised)
    wants = Wants(
        slices=slices,
        idle=idle,
        in_flight=max(0, slices - used - idle_there),
        promised=frozenset(promised),
        keep=frozenset(keep),
    )
    return Making(
        growth.minimum, tasks, spares, missing - spares + growth.missing, demand.wanted.get(crew.name, 0), wants
    )


def lots_by_hand(cluster: str, members: Sequence[Member]) -> list[Lot]:
    """Slices in flight that no group made, under one IrisCluster."""
    return [
        Lot(cluster, "", Where.IN_FLIGHT, ordered_capacity(one.slice.spec), _nodes(one, "", Where.IN_FLIGHT))
        for one in sorted(members, key=lambda one: one.progress)
    ]


def _retiring(crew: Crew) -> list[Member]:
    """Those that leave only because nobody needed them, and still could stay; first cordoned first."""
    found = [one for one in crew.retiring if one.retiring == SCALE_DOWN and one.returns and one.name not in crew.busy]
    return sorted(found, key=lambda one: (one.retiring_since or 0.0, one.name))


def _kept(crew: Crew) -> int:
    """Retiring ones that stay anyway: they were given work."""
    return sum(one.retiring == SCALE_DOWN and one.name in crew.busy for one in crew.retiring)


def _lots(crew: Crew, returning: list[Member], minimum: int) -> list[Lot]:
    cluster = crew.cluster
    lots: list[Lot] = []
    kept = [unit for one in returning for unit in _ready_nodes(one, crew.name)]
    if kept:
        lots.append(Lot(cluster, crew.name, Where.KEPT, crew.capacity, kept))
    coming = [unit for one in crew.in_flight if one.schedulable for unit in _nodes(one, crew.name, Where.IN_FLIGHT)]
    if coming:
        lots.append(Lot(cluster, crew.name, Where.IN_FLIGHT, crew.capacity, coming))
    units = [Unit("", crew.name, Where.NEW) for _ in range(minimum)]
    nodes = [unit for unit in units for _ in range(crew.group.spec.template.spec.node_count)]
    if nodes:
        lots.append(Lot(cluster, crew.name, Where.NEW, crew.capacity, nodes))
    return lots


def _nodes(one: Member, group: str, where: Where) -> list[Unit]:
    return [Unit(one.name, group, where)] * one.slice.spec.node_count


def _ready_nodes(one: Member, group: str) -> list[Unit]:
    return [Unit(one.name, group, Where.KEPT)] * sum(node.ready for node in one.slice.status.nodes)


def _grower(crew: Crew, can_make: int) -> Grower:
    spec = crew.group.spec
    nodes = spec.template.spec.node_count
    return Grower(
        name=crew.name,
        cluster=crew.cluster,
        priority=spec.priority,
        slice_cost=spec.cost_per_node_hour * nodes,
        node_count=nodes,
        capacity=crew.capacity,
        can_make=can_make,
        at_most=spec.max_slices,
    )
