"""Who is on which worker: what each Task takes there, its ports, and which of them are on their way out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from iris_operator.api.quantity import Amounts
from iris_operator.api.task import Task

K = TypeVar("K")

Port = tuple[str, int]
"""Protocol and number on a node's address."""


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A Task on a worker. `wanted`: what it is counted with, own units. `ports`: those that nobody else can have there."""

    task: Task
    slice_name: str
    worker_uid: str
    wanted: Amounts
    ports: tuple[Port, ...] = ()

    @property
    def leaving(self) -> bool:
        """Whether it has been told to stop, so that its room will be free within its grace period."""
        binding = self.task.spec.binding
        return self.task.deleting or (binding is not None and bool(binding.stop_reason))


class Occupants:
    """Bound Tasks by worker UID. Only what a Ledger keeps up to date; not to be changed by who reads it."""

    def __init__(self) -> None:
        self._on: dict[str, dict[int, Bound]] = {}
        self._leaving: dict[str, dict[int, Bound]] = {}
        self._ports: dict[str, dict[Port, dict[int, Bound]]] = {}
        self._crowds: dict[str, dict[int, Bound]] = {}  # members by the UID of their Task

    @property
    def leaving(self) -> Mapping[str, Mapping[int, Bound]]:
        """By worker: those on their way out. Workers without any are not in it."""
        return self._leaving

    def on(self, worker_uid: str) -> Collection[Bound]:
        """All on a worker, those that leave too."""
        return self._on.get(worker_uid, {}).values()

    def crowd(self, one: Bound) -> Collection[Bound]:
        """Itself, or with it all bound members of the Task that it is a member of."""
        return self._crowds[_owner(one)].values() if _owner(one) else (one,)

    def holders(self, worker_uid: str, port: Port) -> Collection[Bound]:
        """Who has a port of a worker's node."""
        return self._ports.get(worker_uid, {}).get(port, {}).values()

    def add(self, one: Bound) -> None:
        """It is bound now."""
        self._on.setdefault(one.worker_uid, {})[id(one)] = one
        if one.leaving:
            self._leaving.setdefault(one.worker_uid, {})[id(one)] = one
        for port in one.ports:
            self._ports.setdefault(one.worker_uid, {}).setdefault(port, {})[id(one)] = one
        if _owner(one):
            self._crowds.setdefault(_owner(one), {})[id(one)] = one

    def remove(self, one: Bound) -> None:
        """That very one is bound no more."""
        worker = one.worker_uid
        _drop(self._on, worker, one)
        if worker in self._leaving:
            _drop(self._leaving, worker, one)
        if _owner(one):
            _drop(self._crowds, _owner(one), one)
        for port in one.ports:
            _drop(self._ports[worker], port, one)
        if one.ports and not self._ports[worker]:
            del self._ports[worker]


def ports_of(task: Task) -> tuple[Port, ...]:
    """The ports that a bound Task keeps others from: those that it names, and those that it was given."""
    if not task.spec.ports:
        return ()
    given = {(one.protocol, one.port) for one in task.status.ports}
    return tuple(sorted(given | set(fixed_ports(task))))


def fixed_ports(task: Task) -> tuple[Port, ...]:
    """The ports that it must have, whichever node it comes to."""
    return tuple(sorted((one.protocol, one.container_port) for one in task.spec.ports if one.container_port))


def port_text(port: Port) -> str:
    """`8080`, `53/UDP`."""
    protocol, number = port
    return str(number) if protocol == "TCP" else f"{number}/{protocol}"


def _owner(one: Bound) -> str:
    return one.task.owner_uid if one.task.metadata.owner_references else ""


def _drop(rows: dict[K, dict[int, Bound]], key: K, one: Bound) -> None:
    row = rows.get(key, {})
    row.pop(id(one), None)
    if not row:
        rows.pop(key, None)
