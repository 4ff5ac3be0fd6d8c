"""Waits between tries: doubling, bounded, jittered."""

from __future__ import annotations

import asyncio
import random


class Backoff:
    """`wait` sleeps longer each time until `reset`."""

    def __init__(self, first_seconds: float, most_seconds: float) -> None:
        self._first, self._most = first_seconds, most_seconds
        self._next = first_seconds

    def reset(self) -> None:
        """The last try worked."""
        self._next = self._first

    async def wait(self) -> None:
        """Sleep half to all of the present wait, then double it."""
        await asyncio.sleep(self._next * random.uniform(0.5, 1.0))
        self._next = min(self._next * 2, self._most)
