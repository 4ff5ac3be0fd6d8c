"""A container's log as a file of ours: the Engine keeps the output, we follow it and write it down.

What is in the file already is skipped, so that a new agent, or one that lost the Engine for a while, goes on where it ended.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import BinaryIO

from iris_runtimes.docker.engine import Engine, EngineError
from iris_runtimes.docker.frames import next_frame
from iris_runtimes.errors import RuntimeUnavailable

_DRAIN_SECONDS = 30.0


class LogFiles:
    """Follows each container once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._following: dict[str, asyncio.Task[None]] = {}
        self._complete: set[str] = set()

    def follow(self, sandbox_id: str, path: Path) -> None:
        """Write its log from now on, unless that happens or is done."""
        running = self._following.get(sandbox_id)
        if sandbox_id not in self._complete and (running is None or running.done()):
            self._following[sandbox_id] = asyncio.create_task(self._write(sandbox_id, path))

    async def complete(self, sandbox_id: str, path: Path) -> None:
        """Return when the log of one that has ended is all in the file; or after a while, if the Engine does not say."""
        self.follow(sandbox_id, path)
        running = self._following.get(sandbox_id)
        if running is not None:
            await asyncio.wait([running], timeout=_DRAIN_SECONDS)

    async def forget(self, sandbox_id: str) -> None:
        """It is removed."""
        running = self._following.pop(sandbox_id, None)
        self._complete.discard(sandbox_id)
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def close(self) -> None:
        """Stop writing."""
        for sandbox_id in list(self._following):
            await self.forget(sandbox_id)

    async def _write(self, sandbox_id: str, path: Path) -> None:
        params = {"stdout": "1", "stderr": "1", "follow": "1"}
        try:
            with path.open("ab") as file:
                skip = file.tell()
                async with self._engine.stream("GET", f"/containers/{sandbox_id}/logs", params) as reader:
                    while (frame := await next_frame(reader)) is not None:
                        skip = _append(file, frame.data, skip)
            state = (await self._engine.json("GET", f"/containers/{sandbox_id}/json"))["State"]
        except (EngineError, RuntimeUnavailable):
            return  # the next look follows again
        if state["Status"] in ("exited", "dead"):
            self._complete.add(sandbox_id)


def _append(file: BinaryIO, data: bytes, skip: int) -> int:
    """Write what is beyond the bytes to skip; how many are left to skip."""
    if skip < len(data):
        file.write(data[skip:])
        file.flush()
    return max(0, skip - len(data))
