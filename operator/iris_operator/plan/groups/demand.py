"""What waits, put first on slices in flight and then on new ones: which groups must grow, by how much, and for whom.

Nodes that are alike are handled together (a `Lot`), so the cost goes with the number of shapes and groups, not of Tasks
and slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from iris_operator.plan.groups.capacity import PLENTY, NodeCapacity
from iris_operator.plan.placement.shapes import Shape


class Where(StrEnum):
    """What a share of a demand is promised."""

    KEPT = "Kept"  # a slice that was on its way out
    IN_FLIGHT = "InFlight"  # a slice on its way to Ready
    NEW = "New"  # a slice to be made now
    LATER = "Later"  # a slice, once the Tasks have waited for scaleUpDelaySeconds
    UNMET = "Unmet"  # a slice, if its group could grow
    NOWHERE = "Nowhere"  # fits no group


@dataclass(frozen=True)
class Demand:
    """`count` Tasks of a shape; with `members` > 1 as many gangs of so many Tasks, each of which runs whole or not at all.

    `since`: when the oldest came (seconds since 1970). `mature`: has waited long enough for slices to be made for it.
    `priority`: the Tasks'. `together`: a gang goes on one slice, not on several of a group.
    """

    shape: Shape
    count: int
    members: int = 1
    since: float = 0
    mature: bool = True
    priority: int = 0
    together: bool = False


@dataclass(eq=False, slots=True)
class Unit:
    """One slice, there or to be made. `group`: empty for one made by hand. `used`: whether a demand was put on it."""

    name: str
    group: str
    where: Where
    used: bool = False


@dataclass(eq=False, slots=True)
class Lot:
    """Nodes that are alike: `units` has an item per node. Nodes of one slice stand together."""

    cluster: str
    group: str
    where: Where
    capacity: NodeCapacity
    units: list[Unit]

    def fits(self, shape: Shape) -> int:
        """Tasks of the shape that one of the nodes takes."""
        return fit(self.capacity, shape)


@dataclass(eq=False)
class Grower:
    """A group as demand sees it. `can_make`: slices that it may make in this pass; `at_most`: that it could ever have."""

    name: str
    cluster: str
    priority: int
    slice_cost: float
    node_count: int
    capacity: NodeCapacity
    can_make: int
    at_most: int


@dataclass(frozen=True)
class Share:
    """`tasks` Tasks of one demand, and what they are promised, by which group ("" : a slice made by hand), on how many slices."""

    tasks: int
    where: Where
    group: str = ""
    units: tuple[Unit, ...] = ()


@dataclass
class DemandPlan:
    """Per Demand, in the order given, its shares; per group, slices to make and slices wanted beyond what is Ready."""

    shares: list[list[Share]] = field(default_factory=list)
    make: dict[str, int] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)


def fit(capacity: NodeCapacity, shape: Shape) -> int:
    """Tasks of the shape on one node."""
    if shape.ports and not capacity.ports.isdisjoint(shape.ports):
        return 0
    most = min((capacity.of(name) // value for name, value in shape.wanted.items()), default=PLENTY)
    return min(most, capacity.tasks, 1 if shape.ports else PLENTY)


def plan_demand(demands: Sequence[Demand], lots: Iterable[Lot], growers: Iterable[Grower]) -> DemandPlan:
    """First fit, decreasing, by priority: the largest first; those that may make slices before those that may not yet."""
    run = _Run(list(lots), {one.name: one for one in growers})
    shares: dict[int, list[Share]] = {}
    for number in sorted(range(len(demands)), key=lambda number: _rank(demands[number], number)):
        demand = demands[number]
        gangs = demand.count if demand.members > 1 else 1
        tasks = demand.members if demand.members > 1 else demand.count
        shares[number] = [share for _ in range(gangs) for share in run.put(demand, tasks)]
    return DemandPlan([shares[number] for number in range(len(demands))], run.made(), run.wanted())


def _rank(demand: Demand, number: int) -> tuple[object, ...]:
    size = demand.shape
    return (
        -demand.priority,
        not demand.mature,
        -size.devices,
        -size.cpu,
        -size.memory,
        demand.since,
        size.sort_key,
        number,
    )


class _Run:
    """One plan in the making."""

    def __init__(self, lots: list[Lot], growers: dict[str, Grower]) -> None:
        self._lots, self._growers = lots, growers
        self._thought: list[Lot] = []  # slices that can't be made, or not yet: only counted
        self._units = list(dict.fromkeys(unit for lot in lots for unit in lot.units))
        self._made: dict[str, int] = {}

    def put(self, demand: Demand, tasks: int) -> list[Share]:
        """Shares of `tasks` Tasks of the demand."""
        shape = demand.shape
        able = self._able(shape, tasks)
        if demand.together:
            return self._put_together(demand, tasks, [one for one in able if _per_slice(one, shape) >= tasks])
        if demand.members > 1:
            able = [one for one in able if _per_slice(one, shape) * one.at_most >= tasks]
            found = self._put_gang(demand, tasks, able)
            if found:
                return found
            left, shares = tasks, []
        else:
            shares = self._fill(self._lots, shape, tasks)
            left = tasks - sum(one.tasks for one in shares)
            if demand.mature:
                for grower in able:
                    more = self._grow(grower, shape, left)
                    shares += more
                    left -= sum(one.tasks for one in more)
        if left:
            shares += self._think(demand, left, able)
        return shares

    def made(self) -> dict[str, int]:
        """Group -> slices to make."""
        return self._made

    def wanted(self) -> dict[str, int]:
        """Group -> slices that demand was put on."""
        found: dict[str, int] = {}
        for unit in self._units:
            if unit.used:
                found[unit.group] = found.get(unit.group, 0) + 1
        return found

    def _able(self, shape: Shape, tasks: int) -> list[Grower]:
        """Groups whose nodes have room for the shape, best first: priority, cost of all that is needed, fit."""
        found = [
            one
            for one in self._growers.values()
            if one.cluster == shape.cluster
            and shape.scale_group_name in ("", one.name)
            and fit(one.capacity, shape) > 0
        ]
        return sorted(found, key=lambda one: _preference(one, shape, tasks))

    def _put_gang(self, demand: Demand, tasks: int, able: list[Grower]) -> list[Share]:
        """All in one group, or nothing; a group where slices in flight do comes first."""
        shape = demand.shape
        there = {one.name: self._lots_of(one.name) for one in able}
        room = {name: sum(lot.fits(shape) * len(lot.units) for lot in lots) for name, lots in there.items()}
        for grower in able:
            if room[grower.name] >= tasks:
                return self._fill(self._lots, shape, tasks, grower.name)
        for grower in able if demand.mature else ():
            if room[grower.name] + grower.can_make * _per_slice(grower, shape) >= tasks:
                shares = self._fill(self._lots, shape, tasks, grower.name)
                return shares + self._grow(grower, shape, tasks - sum(one.tasks for one in shares))
        return []

    def _put_together(self, demand: Demand, tasks: int, able: list[Grower]) -> list[Share]:
        """All on one slice; `able`: groups whose slices are large enough."""
        shape = demand.shape
        unit = _roomy(self._lots, shape, tasks)
        if unit is not None:
            mine, self._lots = _set_apart(self._lots, unit)
            return self._fill(mine, shape, tasks, into=self._lots)
        for grower in able if demand.mature else ():
            shares = self._grow(grower, shape, tasks)
            if shares:
                return shares
        if not able:
            return [Share(tasks, Where.NOWHERE)]
        where = Where.UNMET if demand.mature else Where.LATER
        return self._fill([self._new_lot(able[0], 1, where)], shape, tasks, into=self._thought)

    def _lots_of(self, group: str) -> list[Lot]:
        return [lot for lot in self._lots if lot.group == group]

    def _grow(self, grower: Grower, shape: Shape, tasks: int) -> list[Share]:
        number = min(grower.can_make, -(-tasks // _per_slice(grower, shape)))
        if number <= 0:
            return []
        grower.can_make -= number
        self._made[grower.name] = self._made.get(grower.name, 0) + number
        lot = self._new_lot(grower, number, Where.NEW)
        return self._fill([lot], shape, tasks, into=self._lots)

    def _think(self, demand: Demand, tasks: int, able: list[Grower]) -> list[Share]:
        """What would be made in the best group, if it could."""
        if not able:
            return [Share(tasks, Where.NOWHERE)]
        where = Where.UNMET if demand.mature else Where.LATER
        filled = self._fill(self._thought, demand.shape, tasks)
        left = tasks - sum(one.tasks for one in filled)
        if left:
            lot = self._new_lot(able[0], -(-left // _per_slice(able[0], demand.shape)), where)
            filled += self._fill([lot], demand.shape, left, into=self._thought)
        return [Share(one.tasks, where, one.group, one.units) for one in filled]

    def _new_lot(self, grower: Grower, number: int, where: Where) -> Lot:
        units = [Unit("", grower.name, where) for _ in range(number)]
        self._units += units
        nodes = [unit for unit in units for _ in range(grower.node_count)]
        return Lot(grower.cluster, grower.name, where, grower.capacity, nodes)

    def _fill(
        self, lots: list[Lot], shape: Shape, tasks: int, group: str = "", into: list[Lot] | None = None
    ) -> list[Share]:
        """Put Tasks on nodes, in order; the lots are split where their nodes are no longer alike."""
        kept: list[Lot] = []
        shares: list[Share] = []
        wanted_group = group or shape.scale_group_name
        for lot in lots:
            suits = tasks > 0 and lot.cluster == shape.cluster and wanted_group in ("", lot.group)
            each = lot.fits(shape) if suits else 0
            if each <= 0:
                kept.append(lot)
                continue
            number = min(tasks, each * len(lot.units))
            tasks -= number
            pieces, units = _split(lot, shape, number, each)
            kept += pieces
            for unit in units:
                unit.used = True
            shares.append(Share(number, lot.where, lot.group, units))
        if into is None:
            lots[:] = kept
        else:
            into.extend(kept)
        return shares


def _roomy(lots: Iterable[Lot], shape: Shape, tasks: int) -> Unit | None:
    """The first slice whose nodes have room for so many together."""
    rooms: dict[Unit, int] = {}
    for lot in lots:
        suits = lot.cluster == shape.cluster and shape.scale_group_name in ("", lot.group)
        each = lot.fits(shape) if suits else 0
        for unit in lot.units if each > 0 else ():
            rooms[unit] = rooms.get(unit, 0) + each
    return next((unit for unit, room in rooms.items() if room >= tasks), None)


def _set_apart(lots: Iterable[Lot], unit: Unit) -> tuple[list[Lot], list[Lot]]:
    """The nodes of one slice, and the others."""
    mine: list[Lot] = []
    others: list[Lot] = []
    for lot in lots:
        for found, units in (
            (mine, [one for one in lot.units if one is unit]),
            (others, [one for one in lot.units if one is not unit]),
        ):
            if units:
                found.append(Lot(lot.cluster, lot.group, lot.where, lot.capacity, units))
    return mine, others


def _split(lot: Lot, shape: Shape, tasks: int, each: int) -> tuple[list[Lot], tuple[Unit, ...]]:
    """The lot's pieces after so many Tasks, fullest first, and the slices that they are on."""
    full, rest = divmod(tasks, each)
    nodes = full + (rest > 0)
    pieces = [
        Lot(lot.cluster, lot.group, lot.where, _less(lot.capacity, shape, number), units)
        for number, units in ((each, lot.units[:full]), (rest, lot.units[full:nodes]), (0, lot.units[nodes:]))
        if units
    ]
    return pieces, tuple(dict.fromkeys(lot.units[:nodes]))


def _less(capacity: NodeCapacity, shape: Shape, tasks: int) -> NodeCapacity:
    known = {name: value - shape.wanted.get(name, 0) * tasks for name, value in capacity.known.items()}
    ports = capacity.ports.union(shape.ports) if tasks and shape.ports else capacity.ports
    return NodeCapacity(known, capacity.complete, capacity.tasks - tasks, ports)


def _per_slice(grower: Grower, shape: Shape) -> int:
    return fit(grower.capacity, shape) * grower.node_count


def _preference(grower: Grower, shape: Shape, tasks: int) -> tuple[object, ...]:
    """Priority, cost of all slices needed, then what a full node leaves unused: devices first, then cpu and memory."""
    each = fit(grower.capacity, shape)
    number = -(-tasks // (each * grower.node_count))
    on_one = min(each, tasks)
    left = {name: value - on_one * shape.wanted.get(name, 0) for name, value in grower.capacity.known.items()}
    devices = sum(value for name, value in left.items() if name not in ("cpu", "memory"))
    return (
        -grower.priority,
        number * grower.slice_cost,
        devices * number,
        left.get("cpu", 0) * number,
        left.get("memory", 0) * number,
        grower.name,
    )
