"""One operation at a time per key, each brought to its end even when who asked for it goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class KeyedOperations:
    """Runs coroutines so that those of one key follow each other and none is cut off by its caller's cancellation."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Task[Any]] = {}

    def running(self, key: str) -> bool:
        """Whether an operation of that key runs or waits."""
        return key in self._last

    async def run(self, key: str, operation: Coroutine[Any, Any, T]) -> T:
        """The operation's result. A cancelled caller leaves; the operation goes on."""
        task = asyncio.create_task(_after(self._last.get(key), operation))
        self._last[key] = task
        task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task)

    async def finish(self) -> None:
        """Wait for all operations, whatever comes of them."""
        await asyncio.gather(*self._last.values(), return_exceptions=True)

    def _forget(self, key: str, task: asyncio.Task[Any]) -> None:
        if self._last.get(key) is task:
            del self._last[key]
        if not task.cancelled():
            task.exception()  # its caller may be gone: no one else will look


async def _after(before: asyncio.Task[Any] | None, operation: Coroutine[Any, Any, T]) -> T:
    if before is not None:
        await asyncio.wait([before])
    return await operation
