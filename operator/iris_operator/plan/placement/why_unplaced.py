"""Why a Task found no room: what it needs, and what the nodes that it may use have. One answer per shape and pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from iris_operator.api.quantity import Amounts, shortage, to_quantity
from iris_operator.api.slice import Availability, Slice, SlicePhase
from iris_operator.plan.placement.ledger import Scope, Slot
from iris_operator.plan.placement.occupants import port_text
from iris_operator.plan.placement.shapes import Shape
from iris_operator.plan.placement.slot_index import SlotIndex, scope_of
from iris_operator.plan.text import amounts_text, count, names_text

_SHOWN = 8
_CLOSED_SHOWN = 3
_LARGER = ": ask for less, or add a larger slice"
_NONE = ": apply a Slice or a ScaleGroup"
_ANY_PORT = ": leave out containerPort for a free one, or end who has it"

Why = tuple[str, str, str]
"""Reason, facts, advice (may be empty)."""


@dataclass
class _Room:
    """The nodes of one scope: what is free on those that take Tasks, and those that take none, whatever is free there.

    `kinds`: the different capacities among all of them.
    """

    open: list[tuple[Slot, Amounts]]
    closed: list[Slot]
    kinds: list[Amounts]
    frees: dict[str, list[int]] = field(default_factory=dict)

    def free(self, name: str) -> list[int]:
        """What is free of a resource, most first."""
        if name not in self.frees:
            self.frees[name] = sorted((free.get(name, 0) for _, free in self.open), reverse=True)
        return self.frees[name]


class Explainer:
    """Of one pass, after everything was placed."""

    def __init__(self, index: SlotIndex, slices: Sequence[Slice]) -> None:
        self._index, self._slices = index, slices
        self._rooms: dict[Scope, _Room] = {}
        self._said: dict[Shape, Why] = {}
        self._slices_said = ""

    def why(self, shape: Shape) -> Why:
        """Why no node has room for it."""
        if shape not in self._said:
            self._said[shape] = self._why(shape)
        return self._said[shape]

    def _why(self, shape: Shape) -> Why:
        wanted = shape.wanted
        needs = f"needs {amounts_text(wanted)}" + "".join(f", port {port_text(one)}" for one in shape.ports)
        within = f" in slice {shape.slice_name}" if shape.slice_name else ""
        within += f" in group {shape.scale_group_name}" if shape.scale_group_name else ""
        room = self._room(scope_of(shape))
        if not room.kinds:
            none = "" if self._slices else _NONE
            return "NoSliceReady", f"{needs}; no slice{within} is Ready: {self._slices_text()}", none
        largest = {name: max(kind.get(name, 0) for kind in room.kinds) for name in wanted}
        over = shortage(wanted, largest)
        if over:
            name = min(over)
            has = to_quantity(name, largest[name])
            return "TooLarge", f"{needs}; the largest node{within} offers {has} {name}", _LARGER
        if all(shortage(wanted, kind) for kind in room.kinds):
            return "TooLarge", f"{needs}; no single node{within} offers all of that", _LARGER
        full = [slot for slot, free in room.open if not shortage(wanted, free)] if shape.ports else []
        if full:
            return "PortTaken", f"{needs}; {self._ports_text(shape, full)}", _ANY_PORT
        return "InsufficientResources", f"{needs}; {_free_text(wanted, room)}", ""

    def _ports_text(self, shape: Shape, slots: list[Slot]) -> str:
        """`port 80 is taken on all 3 nodes that have room: by a on n0, by b on n1`, for the first few."""
        held: dict[str, list[str]] = {}
        for slot in sorted(slots, key=lambda slot: (slot.slice_name, slot.rank)):
            for port in shape.ports:
                if not self._index.ports_free(slot, (port,)):
                    by = names_text(self._index.port_holders(slot, port)) or "a Task just placed"
                    held.setdefault(port_text(port), []).append(f"by {by} on {slot.node_name}")
        all_ = f"all {len(slots)} nodes that have room" if len(slots) > 1 else "the only node that has room"
        return "; ".join(
            f"port {port} is taken on {all_ if len(words) == len(slots) else count(len(words), 'node')}: "
            f"{names_text(words, _CLOSED_SHOWN)}"
            for port, words in held.items()
        )

    def _room(self, scope: Scope) -> _Room:
        if scope not in self._rooms:
            found = self._index.free(scope)
            kinds = {tuple(slot.capacity.items()): slot.capacity for slot, _ in found}
            self._rooms[scope] = _Room(
                [(slot, free) for slot, free in found if self._index.room(slot)],
                [slot for slot, _ in found if not self._index.room(slot)],
                list(kinds.values()),
            )
        return self._rooms[scope]

    def _slices_text(self) -> str:
        if not self._slices_said:
            self._slices_said = _slices_text(self._slices)
        return self._slices_said


def _free_text(wanted: Amounts, room: _Room) -> str:
    """`3 nodes have 4, 2, 0 nvidia.com/gpu free`, for each resource that is short somewhere."""
    parts = []
    for name in sorted(wanted) if room.open else ():
        frees = room.free(name)
        if frees[-1] >= wanted[name]:
            continue
        shown = ", ".join(to_quantity(name, value) for value in frees[:_SHOWN])
        more = f" and {len(frees) - _SHOWN} more less" if len(frees) > _SHOWN else ""
        have = "has" if len(frees) == 1 else "have"
        parts.append(f"{count(len(frees), 'node')} {have} {shown}{more} {name} free")
    if room.closed:
        parts.append(_closed_text(room.closed))
    return "; ".join(parts)


def _closed_text(closed: list[Slot]) -> str:
    """`node n0 has 256 of 256 Tasks (worker.maxTasks)`, for the first few of the nodes that take no more."""
    said = [
        f"node {slot.node_name} "
        + (
            f"takes none: {slot.refuses}"
            if slot.refuses
            else f"has {slot.max_tasks} of {slot.max_tasks} Tasks (worker.maxTasks)"
        )
        for slot in sorted(closed, key=lambda slot: (slot.slice_name, slot.rank))[:_CLOSED_SHOWN]
    ]
    more = f" and {count(len(closed) - _CLOSED_SHOWN, 'node')} more alike" if len(closed) > _CLOSED_SHOWN else ""
    return "; ".join(said) + more


def _slices_text(slices: Sequence[Slice]) -> str:
    if not slices:
        return "there is none"
    phases: dict[str, list[str]] = {}
    for one in slices:
        phase = str(one.status.phase or SlicePhase.PENDING)
        if one.spec.availability is not Availability.SCHEDULABLE:
            phase += f" but {one.spec.availability}"
        phases.setdefault(phase, []).append(one.metadata.name)
    return "; ".join(
        f"{len(names)} {phase} ({names_text(sorted(names), 3)})" for phase, names in sorted(phases.items())
    )
