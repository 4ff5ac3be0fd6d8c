"""How soon the simulated operator looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """How soon the operator looks, in seconds.

    `pass_seconds` are between two passes, `fleet_seconds` between two that also look at the groups (0: all do, as the
    operator's do). No `watch_delay`: news come at once. `lease_ahead_seconds`: see Kubelets.freshen.
    """

    pass_seconds: float = 1.0
    fleet_seconds: float = 0.0
    counts_seconds: float = 1.0
    resync_seconds: float = 300.0
    lease_ahead_seconds: float = 0.0
    watch_delay: Callable[[], float] | None = None
