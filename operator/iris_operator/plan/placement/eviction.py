"""Where a Task gets room, and who must end there for it: on one node, or for one of several replicas on one slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from iris_operator.plan.placement.claims import Claims
from iris_operator.plan.placement.ledger import Ledger, Slot
from iris_operator.plan.placement.occupants import Bound
from iris_operator.plan.placement.shapes import Shape
from iris_operator.plan.placement.victims import NOTHING, Candidate, Cost, Unit, choose, cost, covers, gives, unit_of

_Key = tuple[Shape, int, int]


@dataclass(frozen=True)
class Eviction:
    """`hosts`: a node for each that is to run; `units`: who ends for that; `cost`: theirs, and where."""

    hosts: tuple[Slot, ...]
    units: tuple[Unit, ...]
    cost: tuple[Cost, str, int]


def _eviction(hosts: Sequence[Slot], units: Sequence[Unit]) -> Eviction:
    return Eviction(tuple(hosts), tuple(units), (cost(units), hosts[0].slice_name, hosts[0].rank))


class Evictions:
    """Of one pass. What was found out of a node is remembered until `forget`."""

    def __init__(self, ledger: Ledger, claims: Claims, now: datetime) -> None:
        self._ledger, self._claims, self._now = ledger, claims, now
        self._found: dict[str, dict[_Key, Eviction | None]] = {}
        self._candidates: dict[str, list[Candidate]] = {}
        self._units: dict[int, Unit] = {}  # by each of its Tasks

    def best(self, shape: Shape, priority: int, members: int) -> Eviction | None:
        """The cheapest at which only Tasks below that priority end; None: nowhere would that be enough."""
        if members == 1:
            found = [one for slot in self._ledger.slots.values() if (one := self._on_node(slot, shape, priority, 1))]
        else:
            found = [one for nodes in self._slices() if (one := self._on_slice(nodes, shape, priority, members))]
        return min(found, key=attrgetter("cost"), default=None)

    def forget(self, worker_uid: str) -> None:
        """Room of that worker was taken, or is to come."""
        self._found.pop(worker_uid, None)

    def _slices(self) -> Iterator[list[Slot]]:
        found: dict[str, list[Slot]] = {}
        for slot in self._ledger.slots.values():
            found.setdefault(slot.slice_name, []).append(slot)
        for name in sorted(found):
            yield sorted(found[name], key=lambda slot: slot.rank)

    def _on_node(self, slot: Slot, shape: Shape, priority: int, members: int) -> Eviction | None:
        known = self._found.setdefault(slot.worker_uid, {})
        key = (shape, priority, members)
        if key not in known:
            known[key] = self._look(slot, shape, priority, members)
        return known[key]

    def _look(self, slot: Slot, shape: Shape, priority: int, members: int) -> Eviction | None:
        if not self._claims.may(slot, shape) or (shape.ports and members > 1):
            return None
        lacks = self._claims.lacks(slot, shape, members)
        units = choose(lacks, list(self._below(slot, priority))) if lacks else []
        return _eviction([slot] * members, units) if units is not None else None

    def _on_slice(self, nodes: list[Slot], shape: Shape, priority: int, members: int) -> Eviction | None:
        """One after the other to where it costs least, rather alone on a node."""
        given: dict[str, Eviction] = {}
        for _ in range(members):
            more = []
            for slot in nodes:
                has = given.get(slot.worker_uid)
                number = len(has.hosts) if has is not None else 0
                one = self._on_node(slot, shape, priority, number + 1)
                if one is not None:
                    added = one.cost[0] if has is None or one.cost != has.cost else NOTHING
                    more.append((added, number, slot.rank, one))
            if not more:
                return None
            one = min(more, key=lambda row: row[:3])[3]
            given[one.hosts[0].worker_uid] = one
        hosts = [slot for one in given.values() for slot in one.hosts]
        units = list(dict.fromkeys(unit for one in given.values() for unit in one.units))
        return _eviction(hosts, self._needed(units, given, shape))

    def _needed(self, units: list[Unit], given: dict[str, Eviction], shape: Shape) -> list[Unit]:
        """Without those that others make up for: a unit may leave several nodes at once."""
        for unit in sorted(units, key=lambda one: one.rank, reverse=True):
            rest = [one for one in units if one is not unit]
            if all(self._enough(one, rest, shape) for one in given.values()):
                units = rest
        return units

    def _enough(self, there: Eviction, units: Sequence[Unit], shape: Shape) -> bool:
        slot = there.hosts[0]
        lacks = self._claims.lacks(slot, shape, len(there.hosts))
        return covers(lacks, [gives(unit, slot.worker_uid) for unit in units])

    def _below(self, slot: Slot, priority: int) -> Iterator[Candidate]:
        worker = slot.worker_uid
        if worker not in self._candidates:
            units = dict.fromkeys(self._unit(one) for one in self._ledger.occupants.on(worker))
            found = [Candidate(unit, gives(unit, worker)) for unit in units]
            self._candidates[worker] = sorted(found, key=lambda one: one.unit.rank)
        for one in self._candidates[worker]:
            if one.unit.priority >= priority:
                return
            if not any(self._claims.leaves(each) for each in one.unit.tasks):
                yield one

    def _unit(self, one: Bound) -> Unit:
        found = self._units.get(id(one))
        if found is None:
            found = unit_of(self._ledger.occupants.crowd(one), self._now)
            self._units.update((id(each), found) for each in found.tasks)
        return found
