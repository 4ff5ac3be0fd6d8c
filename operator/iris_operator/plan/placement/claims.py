"""Room that Tasks on their way out will leave, and for whom it is kept.

A Task that waits may be promised room that is still to be left, so that nothing of lower rank takes what is free of it
meanwhile. Nobody writes a promise down: each pass makes them anew, in order of rank, from what is being stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from iris_operator.api.quantity import minus, plus
from iris_operator.plan.placement.ledger import Ledger, Slot
from iris_operator.plan.placement.occupants import Bound, port_text
from iris_operator.plan.placement.shapes import Shape
from iris_operator.plan.placement.slot_index import SlotIndex

TASKS = "Tasks"
"""Stands for the number of Tasks among amounts by resource; no resource is named so."""


@dataclass(eq=False, slots=True)
class Coming:
    """What Tasks on their way out will leave on one node. `who`: those Tasks, each with the name of the waiting Task that it
    makes room for, empty for nobody. `rows`: by that name, as far as nobody was promised it, TASKS among the resources."""

    slot: Slot
    who: dict[int, tuple[Bound, str]] = field(default_factory=dict)
    rows: dict[str, dict[str, int]] = field(default_factory=dict)

    def is_for(self, name: str) -> bool:
        """Whether one of them was stopped for the Task of that name."""
        return any(name == whom for _, whom in self.who.values())

    def of(self, resource: str) -> int:
        """How much of it will be left."""
        return sum(row.get(resource, 0) for row in self.rows.values())

    def draw(self, name: str, need: dict[str, int]) -> None:
        """Take what is needed, as far as it is there, from what is left for that name."""
        row = self.rows.get(name, {})
        for resource, value in need.items():
            got = min(value, row.get(resource, 0))
            if got:
                row[resource] -= got
                need[resource] = value - got


class Claims:
    """The promises of one pass. Each takes room of the index, and of what is still to come."""

    def __init__(self, ledger: Ledger, index: SlotIndex) -> None:
        self._slots, self._occupants, self._index = ledger.slots, ledger.occupants, index
        self._coming: dict[str, Coming] = {}
        self._kept: dict[str, tuple[Slot, dict[str, int]]] = {}  # by name: where, and what is free of it already
        self._never: set[tuple[Shape, int]] = set()  # what finds nothing finds nothing later: promises only take
        waiting = ledger.waiting_names() if ledger.occupants.leaving else ()
        for worker, leaving in ledger.occupants.leaving.items():
            slot = ledger.slots.get(worker)
            if slot is not None:
                for one in leaving.values():
                    binding = one.task.spec.binding
                    whom = binding.stop_for if binding is not None else ""
                    self.expect(slot, one, whom if whom in waiting else "")

    def expect(self, slot: Slot, leaving: Bound, name: str) -> None:
        """It leaves that slot, for the Task of that name; empty: for nobody."""
        coming = self._coming.setdefault(slot.worker_uid, Coming(slot))
        coming.who[id(leaving)] = (leaving, name)
        coming.rows[name] = plus(coming.rows.get(name, {}), {**leaving.wanted, TASKS: 1})
        self._never.clear()

    def of(self, slot: Slot) -> Coming | None:
        """Who leaves a slot; None: nobody."""
        return self._coming.get(slot.worker_uid)

    def names(self) -> set[str]:
        """Of the Tasks that somebody makes room for."""
        return {whom for coming in self._coming.values() for _, whom in coming.who.values() if whom}

    def redeem(self, shape: Shape, name: str) -> Slot | None:
        """The node that was promised to the Task of that name, taken, if there is enough by now; None: there isn't yet."""
        kept = self._kept.get(name)
        if kept is None:
            return None
        slot, free = kept
        left = self._index.left(slot)
        enough = all(left.get(one, 0) + free.get(one, 0) >= value for one, value in shape.wanted.items())
        held = any(self._occupants.holders(slot.worker_uid, port) for port in shape.ports)
        if not enough or held or self._index.room(slot) + free[TASKS] < 1:
            return None
        self._index.withhold(slot, minus(shape.wanted, free), 1 - free[TASKS])
        return slot

    def leaves(self, one: Bound) -> bool:
        """Whether it is on its way out, or is to be by this pass."""
        coming = self._coming.get(one.worker_uid)
        return coming is not None and id(one) in coming.who

    def promise(self, shape: Shape, name: str, members: int = 1) -> tuple[Coming, ...]:
        """Keep room for the Task of that name: where others were stopped for it, else where the least is left over.

        With `members`: for so many of the shape, on one slice. Empty: there won't be enough where somebody leaves.
        """
        if (shape, members) in self._never:
            return ()
        found = self._for_one(shape, name) if members == 1 else self._for_all(shape, name, members)
        if not found:
            self._never.add((shape, members))
        return found

    def may(self, slot: Slot, shape: Shape) -> bool:
        """Whether one more of the shape may run on the slot, were there room. No: also when a port of it was given away."""
        return (
            not slot.refuses
            and slot.cluster == shape.cluster
            and shape.slice_name in ("", slot.slice_name)
            and shape.scale_group_name in ("", slot.scale_group_name)
            and not any(self._index.taken(slot, port) for port in shape.ports)
        )

    def lacks(self, slot: Slot, shape: Shape, members: int = 1) -> dict[str, int]:
        """What the slot won't have for so many of the shape when all that leave it have left: amounts by resource, TASKS for
        their number, `port 80` for its holders. Empty: it will do."""
        coming, left = self._coming.get(slot.worker_uid), self._index.left(slot)
        found = {name: members * value - left.get(name, 0) for name, value in shape.wanted.items()}
        found[TASKS] = members - self._index.room(slot)
        if coming is not None:
            found = {name: value - coming.of(name) if value > 0 else value for name, value in found.items()}
        for port in shape.ports:
            holders = self._occupants.holders(slot.worker_uid, port)
            found[f"port {port_text(port)}"] = sum(not self.leaves(one) for one in holders)
        return {name: value for name, value in found.items() if value > 0}

    def keep(self, slot: Slot, shape: Shape, name: str) -> None:
        """Promise room on that slot to the Task of that name: what others leave for it, what is left for nobody, what is free,
        and only then what is left for another. What is free and not needed so stays free for all."""
        need = {**shape.wanted, TASKS: 1}
        coming = self._coming.get(slot.worker_uid, Coming(slot))
        coming.draw(name, need)
        coming.draw("", need)
        left = self._index.left(slot)
        free = {resource: min(value, left.get(resource, 0)) for resource, value in need.items() if resource != TASKS}
        number = min(need[TASKS], self._index.room(slot))
        self._index.withhold(slot, free, number, shape.ports)
        self._kept[name] = (slot, {**free, TASKS: number})
        rest = minus(need, {**free, TASKS: number})
        for whom in sorted(coming.rows):
            coming.draw(whom, rest)

    def _for_one(self, shape: Shape, name: str) -> tuple[Coming, ...]:
        able = [one for one in self._coming.values() if self.may(one.slot, shape) and not self.lacks(one.slot, shape)]
        if not able:
            return ()
        found = min(able, key=lambda one: (not one.is_for(name), self._future(one)))
        self.keep(found.slot, shape, name)
        return (found,)

    def _for_all(self, shape: Shape, name: str, members: int) -> tuple[Coming, ...]:
        """Somewhere on one slice: placing them says on which of its nodes."""
        by_slice: dict[str, list[Coming]] = {}
        for one in self._coming.values():
            by_slice.setdefault(one.slot.slice_name, []).append(one)
        for slice_name in sorted(by_slice, key=lambda at: (not any(one.is_for(name) for one in by_slice[at]), at)):
            nodes = [slot for slot in self._slots.values() if slot.slice_name == slice_name]
            hosts = self._hosts(sorted(nodes, key=lambda slot: slot.rank), shape, members)
            if len(hosts) == members:
                for slot in hosts:
                    self.keep(slot, shape, name)
                return tuple(by_slice[slice_name])
        return ()

    def _hosts(self, nodes: Iterable[Slot], shape: Shape, members: int) -> list[Slot]:
        """A node for each, as many as there are for; first one to each node."""
        able = [slot for slot in nodes if self.may(slot, shape)]
        found: list[Slot] = []
        each = 1
        while able and len(found) < members:
            able = [slot for slot in able if not self.lacks(slot, shape, each)]
            found += able[: members - len(found)]
            each += 1
            if shape.ports:
                break
        return found

    def _future(self, one: Coming) -> tuple[object, ...]:
        left = self._index.left(one.slot)
        return one.slot.place({name: value + one.of(name) for name, value in left.items()})
