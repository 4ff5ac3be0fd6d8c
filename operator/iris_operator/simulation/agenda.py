"""Simulated time: a heap of things to come. Nothing here waits."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Do = Callable[[], None]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Agenda:
    """What will happen, in order of time and then of planning. `seconds` is the time since the start."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self.start = start
        self.seconds = 0.0
        self._heap: list[tuple[float, int, Do]] = []
        self._count = itertools.count()

    @property
    def now(self) -> datetime:
        """The true time, UTC."""
        return self.start + timedelta(seconds=self.seconds)

    @property
    def next_seconds(self) -> float | None:
        """When the next thing happens, in seconds since the start; None when nothing will."""
        return self._heap[0][0] if self._heap else None

    def at(self, seconds: float, do: Do) -> None:
        """Do it at that time, or now when that is past."""
        heapq.heappush(self._heap, (max(seconds, self.seconds), next(self._count), do))

    def after(self, delay: float, do: Do) -> None:
        """Do it so many seconds from now."""
        self.at(self.seconds + delay, do)

    def step(self) -> None:
        """Do the next thing; time goes there. IndexError when there is none."""
        seconds, _, do = heapq.heappop(self._heap)
        self.seconds = seconds
        do()

    def run_until(self, seconds: float) -> None:
        """Do all that happens up to that time, and be there."""
        while self._heap and self._heap[0][0] <= seconds:
            self.step()
        self.seconds = max(self.seconds, seconds)
