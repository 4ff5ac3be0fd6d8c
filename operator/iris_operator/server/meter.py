"""Node-seconds: what runs at a rate, added up over time.

Time is the monotonic clock's, so that a jump of the wall clock neither adds nor takes away. What was before the first thing
was seen belongs to another process, a former leader perhaps: it is never counted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

Labels = tuple[str, ...]


@dataclass
class _Running:
    labels: Labels
    rate: float
    counted_until: float


class Meter:
    """Adds up rate x seconds by labels. `clock`: monotonic seconds; `now`: the time that the API's stamps are in."""

    def __init__(self, clock: Callable[[], float], now: Callable[[], datetime]) -> None:
        self._clock, self._now = clock, now
        self._first: float | None = None
        self._running: dict[str, _Running] = {}
        self._totals: dict[Labels, float] = {}

    def set(self, key: str, labels: Labels, rate: float, since: datetime | None = None) -> None:
        """From now on `key` runs at `rate` (0: stands still); a new rate counts from `since`, when that is known."""
        clock = self._clock()
        first = self._first = clock if self._first is None else self._first
        known = self._running.get(key)
        if known is not None and (known.labels, known.rate) == (labels, rate):
            return
        start = first
        if known is not None:
            start = known.counted_until if known.rate == 0 else self._settle(known, clock)
        ago = max(0.0, (self._now() - since).total_seconds()) if since is not None else 0.0
        # Standing still is not backdated: what ran until now is counted already.
        self._running[key] = _Running(labels, rate, max(start, clock - ago) if rate else clock)

    def drop(self, key: str) -> None:
        """`key` is gone."""
        known = self._running.pop(key, None)
        if known is not None:
            self._settle(known, self._clock())

    def totals(self) -> dict[Labels, float]:
        """Rate x seconds by labels until now; never less than before."""
        clock = self._clock()
        for one in self._running.values():
            self._settle(one, clock)
        return dict(self._totals)

    def _settle(self, one: _Running, clock: float) -> float:
        if one.rate:
            more = one.rate * (clock - one.counted_until)
            self._totals[one.labels] = self._totals.get(one.labels, 0.0) + more
            one.counted_until = clock
        return clock
