"""What is due when: a heap whose entries may go stale. Pure; times are seconds of whatever clock the caller has."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
_STALE_AT_MOST = 256


class Agenda(Generic[T]):
    """`is_live` tells whether an entry still counts; what doesn't is dropped sooner or later."""

    def __init__(self, is_live: Callable[[T], bool]) -> None:
        self._is_live = is_live
        self._heap: list[tuple[float, int, T]] = []
        self._order = itertools.count()
        self._sweep_at = _STALE_AT_MOST

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, due: float, entry: T) -> None:
        """To be taken at `due`, or as soon as possible after."""
        if len(self._heap) >= self._sweep_at:
            # Entries of a long period would else outlive their Tasks by a day.
            self._heap = [one for one in self._heap if self._is_live(one[2])]
            heapq.heapify(self._heap)
            self._sweep_at = 2 * len(self._heap) + _STALE_AT_MOST
        heapq.heappush(self._heap, (due, next(self._order), entry))

    def take(self, now: float) -> tuple[float, T] | None:
        """The earliest live entry that is due, with the time at which it was; None when there is none."""
        while self._heap and self._heap[0][0] <= now:
            due, _, entry = heapq.heappop(self._heap)
            if self._is_live(entry):
                return due, entry
        return None

    def next_due(self) -> float | None:
        """When to look again; None: not before something is added."""
        return self._heap[0][0] if self._heap else None


def first_due(now: float, age_seconds: float, initial_delay_seconds: int, period_seconds: int, chance: float) -> float:
    """When to ask for the first time. `age_seconds`: since the command's start; `chance`: from 0 to 1.

    A command that has just started is asked at once, give or take a tenth of a period; many that an agent finds when it
    comes are spread over a whole one.
    """
    delay = max(0.0, initial_delay_seconds - age_seconds)
    found_running = age_seconds > initial_delay_seconds + period_seconds
    spread = float(period_seconds) if found_running else min(period_seconds / 10, 1.0)
    return now + delay + chance * spread


def next_due(due: float, period_seconds: int, now: float) -> float:
    """When to ask again what was due at `due`: on the beat, and at once when that is past."""
    return max(due + period_seconds, now)
