"""Finds the fullest node that has room, without looking at all of them.

The slots of a scope stand in one row, sorted by free devices, then cpu, memory. What no waiting shape could use is left
out, and leaves when it gets that full.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from iris_operator.api.quantity import Amounts, minus
from iris_operator.plan.placement.ledger import Entry, Ledger, Scope, Slot
from iris_operator.plan.placement.occupants import Port
from iris_operator.plan.placement.shapes import Shape


def scope_of(shape: Shape) -> Scope:
    """Cluster, slice, group; empty: any."""
    return (shape.cluster, shape.slice_name, shape.scale_group_name)


@dataclass
class _Row:
    """One scope. No waiting shape of it needs less than `cpu`, `memory`."""

    cpu: int
    memory: int
    entries: list[Entry]

    def wants(self, entry: Entry) -> bool:
        return entry[1] >= self.cpu and entry[2] >= self.memory

    def move(self, before: Entry, after: Entry | None) -> None:
        at = bisect_left(self.entries, before)
        if at < len(self.entries) and self.entries[at] == before:
            del self.entries[at]
        if after is not None and self.wants(after):
            insort(self.entries, after)


class SlotIndex:
    """The free room of one pass. Taking room changes only the index, never the ledger."""

    def __init__(self, ledger: Ledger, shapes: Iterable[Shape]) -> None:
        self._rows: dict[Scope, _Row] = {}
        for shape in shapes:
            row = self._rows.setdefault(scope_of(shape), _Row(shape.cpu, shape.memory, []))
            row.cpu, row.memory = min(row.cpu, shape.cpu), min(row.memory, shape.memory)
        for scope, row in self._rows.items():
            row.entries = [entry for entry in ledger.entries(scope) if row.wants(entry)]
        self._slots = ledger.slots
        self._occupants = ledger.occupants
        self._ports: set[tuple[str, Port]] = set()  # worker UID and port: taken in this pass
        self._free: dict[str, Amounts] = {}  # of those of which room was taken
        self._room: dict[str, int] = {}  # of the same: how many Tasks more

    def take(self, shape: Shape) -> Slot | None:
        """The fullest slot that has room for one more of the shape, with that room taken; None: none has."""
        slot = self._find(self._rows[scope_of(shape)].entries, shape)
        if slot is not None:
            self.take_from(slot, shape)
        return slot

    def take_from(self, slot: Slot, shape: Shape) -> None:
        """Take the room of one of the shape on this very slot, which must have it."""
        self.withhold(slot, shape.wanted, 1, shape.ports)

    def withhold(self, slot: Slot, wanted: Amounts, tasks: int, ports: Iterable[Port] = ()) -> None:
        """Take so much of the slot's room, and so many Tasks of its number, for whatever needs them."""
        worker, room = slot.worker_uid, self.room(slot)
        before = self._free.get(worker, slot.free)
        after = self._free[worker] = minus(before, wanted)
        left = self._room[worker] = max(0, room - tasks)
        for port in ports:
            self._ports.add((worker, port))
        if not room:
            return  # it stands in no row any more
        was, is_ = slot.place(before), slot.place(after) if left else None
        for scope in slot.scopes:
            if scope in self._rows:
                self._rows[scope].move(was, is_)

    def left(self, slot: Slot) -> Amounts:
        """What is free on the slot after all that was taken."""
        return self._free.get(slot.worker_uid, slot.free)

    def taken(self, slot: Slot, port: Port) -> bool:
        """Whether a port was taken in this pass."""
        return (slot.worker_uid, port) in self._ports

    def ports_free(self, slot: Slot, ports: Iterable[Port]) -> bool:
        """Whether nobody has any of these ports of its node."""
        return not any(self.taken(slot, port) or self._occupants.holders(slot.worker_uid, port) for port in ports)

    def port_holders(self, slot: Slot, port: Port) -> list[str]:
        """Names of the bound Tasks that have a port of its node."""
        return sorted(one.task.metadata.name for one in self._occupants.holders(slot.worker_uid, port))

    def room(self, slot: Slot) -> int:
        """Tasks that the slot may still take, by their number."""
        return self._room.get(slot.worker_uid, slot.room)

    def free(self, scope: Scope) -> list[tuple[Slot, Amounts]]:
        """The slots of a scope, with what is left free in each."""
        cluster, slice_name, group = scope
        return [
            (slot, self._free.get(worker, slot.free))
            for worker, slot in self._slots.items()
            if slot.cluster == cluster and slice_name in ("", slot.slice_name) and group in ("", slot.scale_group_name)
        ]

    def _find(self, entries: list[Entry], shape: Shape) -> Slot | None:
        cpu, memory, others = shape.cpu, shape.memory, shape.others
        devices, ports = shape.devices, shape.ports
        at = bisect_left(entries, (devices, cpu))
        while at < len(entries):
            entry = entries[at]
            if entry[0] != devices:  # the next run of as many devices: skip those of too little cpu
                devices = entry[0]
                at = bisect_left(entries, (devices, cpu), at)
            elif (
                entry[2] < memory
                or (others and not self._has(self._slots[entry[5]], others))
                or (ports and not self.ports_free(self._slots[entry[5]], ports))
            ):
                at += 1
            else:
                return self._slots[entry[5]]
        return None

    def _has(self, slot: Slot, others: tuple[tuple[str, int], ...]) -> bool:
        free = self._free.get(slot.worker_uid, slot.free)
        for name, value in others:  # noqa: SIM110 the innermost loop of placement: a generator costs three times as much
            if free.get(name, 0) < value:
                return False
        return True
