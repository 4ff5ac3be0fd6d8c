"""Finds the fullest node that has room, without looking at all of them.

Slots of a scope (a cluster, and in it a group or a slice when a Task names one) stand in rows by how many devices are
free, each row sorted by free cpu. What no waiting shape could use is left out, and leaves when it gets that full.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from iris_operator.api.quantity import Amounts, minus
from iris_operator.plan.ledger import Entry, Ledger, Slot
from iris_operator.plan.shapes import Shape

Scope = tuple[str, str, str]


def scope_of(shape: Shape) -> Scope:
    """Cluster, slice, group; empty: any."""
    return (shape.cluster, shape.slice_name, shape.scale_group_name)


@dataclass
class _Rows:
    """One scope: devices free -> entries. No waiting shape of the scope needs less than `cpu`, `memory`."""

    cpu: int
    memory: int
    rows: dict[int, list[Entry]] = field(default_factory=dict)
    devices: list[int] = field(default_factory=list)

    def append(self, devices: int, entry: Entry) -> None:
        """While building: `settle` must follow."""
        if entry[0] >= self.cpu and entry[1] >= self.memory:
            row = self.rows.get(devices)
            if row is None:
                self.rows[devices] = [entry]
            else:
                row.append(entry)

    def settle(self) -> None:
        self.devices = sorted(self.rows)
        for row in self.rows.values():
            row.sort()

    def move(self, before: tuple[int, Entry], after: tuple[int, Entry]) -> None:
        row = self.rows.get(before[0], [])
        at = bisect_left(row, before[1])
        if at < len(row) and row[at] == before[1]:
            del row[at]
        devices, entry = after
        if entry[0] < self.cpu or entry[1] < self.memory:
            return
        if devices not in self.rows:
            self.rows[devices] = []
            insort(self.devices, devices)
        insort(self.rows[devices], entry)


class SlotIndex:
    """The free room of one pass. Taking room changes only the index, never the slots."""

    def __init__(self, ledger: Ledger, shapes: Iterable[Shape]) -> None:
        self._rows: dict[Scope, _Rows] = {}
        for shape in shapes:
            scope = scope_of(shape)
            rows = self._rows.setdefault(scope, _Rows(shape.cpu, shape.memory))
            rows.cpu, rows.memory = min(rows.cpu, shape.cpu), min(rows.memory, shape.memory)
        self._slots = ledger.slots
        self._free: dict[str, Amounts] = {}  # of those of which room was taken
        for worker, (devices, entry) in ledger.places.items():
            for rows in self._rows_of(self._slots[worker]):
                rows.append(devices, entry)
        for rows in self._rows.values():
            rows.settle()

    def take(self, shape: Shape) -> Slot | None:
        """The fullest slot that has room for one more of the shape, with that room taken; None: none has."""
        slot = self._find(self._rows[scope_of(shape)], shape)
        if slot is None:
            return None
        before = self._free.get(slot.worker_uid, slot.free)
        after = self._free[slot.worker_uid] = minus(before, shape.wanted)
        was, is_ = slot.place(before), slot.place(after)
        for one in self._rows_of(slot):
            one.move(was, is_)
        return slot

    def free(self, scope: Scope) -> list[tuple[Slot, Amounts]]:
        """The slots of a scope, with what is left free in each."""
        cluster, slice_name, group = scope
        return [
            (slot, self._free.get(worker, slot.free))
            for worker, slot in self._slots.items()
            if slot.cluster == cluster and slice_name in ("", slot.slice_name) and group in ("", slot.scale_group_name)
        ]

    def _find(self, rows: _Rows, shape: Shape) -> Slot | None:
        memory, others = shape.memory, shape.others
        for devices in rows.devices[bisect_left(rows.devices, shape.devices) :]:
            row = rows.rows[devices]
            for at in range(bisect_left(row, (shape.cpu,)), len(row)):
                entry = row[at]
                if entry[1] < memory:
                    continue
                slot = self._slots[entry[4]]
                if others and not self._has(slot, others):
                    continue
                return slot
        return None

    def _has(self, slot: Slot, others: tuple[tuple[str, int], ...]) -> bool:
        free = self._free.get(slot.worker_uid, slot.free)
        for name, value in others:  # noqa: SIM110 the innermost loop of placement: a generator costs three times as much
            if free.get(name, 0) < value:
                return False
        return True

    def _rows_of(self, slot: Slot) -> list[_Rows]:
        found = self._rows
        keys: list[Scope] = [(slot.cluster, "", ""), (slot.cluster, slot.slice_name, "")]
        if slot.scale_group_name:  # else it would stand in the same scope twice
            keys += [(slot.cluster, "", slot.scale_group_name), (slot.cluster, slot.slice_name, slot.scale_group_name)]
        return [found[key] for key in keys if key in found]
