"""The machines themselves: what is true of each, whatever the API says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Machine:
    """One rented node, from its order on. `powered`: its processes run; `reachable`: the API server and it see each other."""

    name: str
    pool_uid: str
    pool_name: str
    instance_type: str
    ordered: float
    fit: bool = True
    registered: bool = False
    powered: bool = True
    reachable: bool = True
    released: float | None = None

    @property
    def alive(self) -> bool:
        """Whether its kubelet and agent do their work and are heard."""
        return self.registered and self.powered and self.reachable and self.released is None


@dataclass
class Machines:
    """All that were ever ordered, by node name; who listens is told of each change of one."""

    by_name: dict[str, Machine] = field(default_factory=dict)
    listeners: list[Callable[[Machine], None]] = field(default_factory=list)

    def add(self, machine: Machine) -> None:
        """Order one."""
        self.by_name[machine.name] = machine

    def changed(self, machine: Machine) -> None:
        """Tell that it registered, died, vanished from sight, came back, or was given back."""
        for listener in self.listeners:
            listener(machine)

    def standing(self, pool_uid: str) -> list[Machine]:
        """Those of a NodePool that are not given back."""
        return [one for one in self.by_name.values() if one.pool_uid == pool_uid and one.released is None]
