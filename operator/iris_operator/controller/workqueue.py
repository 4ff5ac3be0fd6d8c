"""A work queue of keys, as client-go's.

A key is worked on by one worker at a time; added while it is worked on, it comes once more after. `add_after` keeps the
earliest time. One heap, no timer per object.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import NamedTuple


class Key(NamedTuple):
    """What to reconcile: a reconciler's name, and `namespace/name` (or a namespace)."""

    kind: str
    name: str


class WorkQueue:
    """Not thread-safe: one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._working: set[Key] = set()
        self._again: set[Key] = set()
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._count = itertools.count()
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._queued)

    def add(self, key: Key) -> None:
        """Work on it as soon as a worker is free."""
        self._due.pop(key, None)
        if key in self._working:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Work on it in so many seconds, or sooner if it is due sooner already."""
        due = self._clock() + seconds
        if key in self._queued or self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._count), key))
        self._wake.set()

    async def get(self) -> Key:
        """The next key; `done` must follow."""
        key = await self._ready.get()
        self._queued.discard(key)
        self._working.add(key)
        return key

    def done(self, key: Key) -> None:
        """The work on it ended, well or badly."""
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    async def run_delays(self) -> None:
        """Move keys that became due to the ready ones, until cancelled."""
        while True:
            self._wake.clear()
            wait = self._release_due()
            try:
                await asyncio.wait_for(self._wake.wait(), wait)
            except TimeoutError:
                continue

    def _release_due(self) -> float | None:
        """Seconds until the next is due; None when nothing waits."""
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) != due:  # replaced by a sooner one, or added meanwhile
                heapq.heappop(self._heap)
                continue
            left = due - self._clock()
            if left > 0:
                return left
            heapq.heappop(self._heap)
            self.add(key)
        return None
