"""Named pipes between a shim and us: the only way that containerd knows to pass a process's streams while it runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

_CHUNK_BYTES = 2**16


class _Pipe:
    """One end; waits without a thread."""

    def __init__(self, path: Path, mode: int) -> None:
        # Non-blocking: opening it must not wait for the shim, which waits for us
        self._file: int | None = os.open(path, mode | os.O_NONBLOCK)
        self._waiting: asyncio.Future[None] | None = None

    def close(self) -> None:
        """Whoever waits goes on, and finds it closed."""
        if self._file is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._file)
        loop.remove_writer(self._file)
        os.close(self._file)
        self._file = None
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _ready(self, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
        file = self._file
        if file is None:
            return
        self._waiting = asyncio.get_running_loop().create_future()
        add(file, _wake, self._waiting)
        try:
            await self._waiting
        finally:
            if self._file is not None:
                remove(file)


class OutputPipe(_Pipe):
    """The reading end of a new pipe, open before the shim writes to it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path, 0o600)
        super().__init__(path, os.O_RDONLY)

    async def read(self) -> bytes:
        """The next bytes; none at the end, which comes when nobody has it open for writing any more."""
        loop = asyncio.get_running_loop()
        while self._file is not None:
            # Always wait first: a pipe that no writer has opened yet reads like one that all have left
            await self._ready(loop.add_reader, loop.remove_reader)
            if self._file is not None:
                try:
                    return os.read(self._file, _CHUNK_BYTES)
                except BlockingIOError:
                    continue
        return b""


class InputPipe(_Pipe):
    """The writing end of a new pipe."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path, 0o600)
        # A writer needs a reader: we are it until the shim has come
        self._keeper: int | None = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        super().__init__(path, os.O_WRONLY)

    def reader_has_come(self) -> None:
        """From now on the pipe breaks when nobody reads it any more."""
        if self._keeper is not None:
            os.close(self._keeper)
            self._keeper = None

    async def write(self, data: bytes) -> None:
        """Returns when all of it is in the pipe. Dropped when nobody reads any more."""
        loop = asyncio.get_running_loop()
        rest = memoryview(data)
        while rest and self._file is not None:
            try:
                rest = rest[os.write(self._file, rest[:_CHUNK_BYTES]) :]
            except BlockingIOError:
                await self._ready(loop.add_writer, loop.remove_writer)
            except BrokenPipeError:
                self.close()

    def close(self) -> None:
        """The end of the input."""
        self.reader_has_come()
        super().close()


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
