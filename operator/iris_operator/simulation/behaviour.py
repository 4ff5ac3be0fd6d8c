"""How the vendor, the nodes and the agents behave: everything that is not Iris. Times are in seconds."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

DEFAULT_TYPE = "*"


@dataclass(frozen=True)
class BootTime:
    """How long nodes take from their order until their kubelet is Ready: log-normal between p50 and p95, bounded below."""

    p50: float = 1320.0
    p95: float = 1620.0
    least: float = 0.0

    def draw(self, rng: random.Random) -> float:
        """One boot."""
        sigma = math.log(max(1.0, self.p95 / self.p50)) / 1.645 if self.p50 > 0 else 0.0
        return max(self.least, self.p50 * math.exp(rng.gauss(0.0, sigma)) if sigma else self.p50)


@dataclass(frozen=True)
class Window:
    """From `start` on (seconds since the trace's start) the vendor has `nodes` nodes of the type in all."""

    start: float
    nodes: int


@dataclass(frozen=True)
class InstanceType:
    """One type of node. Rates are shares of 0 to 1, by node; `mtbf_hours` 0: nodes don't die."""

    resources: dict[str, str] = field(default_factory=lambda: {"cpu": "128", "memory": "2000Gi"})
    boot: BootTime = BootTime()
    never_boots: float = 0.0
    unfit: float = 0.0
    mtbf_hours: float = 0.0
    quota: int | None = None
    capacity: tuple[Window, ...] = ()
    valid: bool = True

    def nodes_at(self, seconds: float) -> int | None:
        """How many nodes there are in all at that time; None: no bound."""
        found: int | None = None
        for window in self.capacity:
            if window.start <= seconds:
                found = window.nodes
        return found


@dataclass(frozen=True)
class Behaviour:
    """Everything around Iris. `types` is by instance type; `*` is any other."""

    types: dict[str, InstanceType] = field(default_factory=lambda: {DEFAULT_TYPE: InstanceType()})
    look_seconds: float = 2.0
    release_seconds: float = 120.0
    replace_seconds: float = 600.0
    pod_start_seconds: tuple[float, float] = (5.0, 15.0)
    task_start_seconds: float = 1.0
    node_not_ready_seconds: float = 40.0
    heartbeat_seconds: float = 10.0

    def type(self, name: str) -> InstanceType:
        """The type's behaviour; one that is not listed, with no `*`, is not sold."""
        return self.types.get(name) or self.types.get(DEFAULT_TYPE) or InstanceType(valid=False)
