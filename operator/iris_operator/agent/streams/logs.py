"""One attempt's log: all of it, its end, since a time; followed; with times."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from iris_operator import malloc
from iris_operator.agent.logs.bounds import dropped_line, kept_from, read_kept
from iris_operator.agent.logs.files import line_start, read_chunk, tail_offset
from iris_operator.agent.sandbox.inotify import Inotify
from iris_operator.agent.server import OFFSET_HEADER, LogState
from iris_operator.agent.streams.log_times import read_marks
from iris_operator.agent.streams.marks import Mark, Stamper, offset_since
from iris_operator.agent.streams.source import NOTIFY, TASK, StreamSource, attempt_of, flag, number, refusal

_CHUNK = 1024 * 1024
# How soon a follower sees that the Task has ended: a look at memory, not at the file.
_LOOK_SECONDS = 0.1
# And how often it looks at a file of which the kernel says nothing, in case that word was lost.
_LOOKS_BETWEEN_READS = 20


def add_logs(app: web.Application, source: StreamSource) -> None:
    """GET .../log?follow=&sinceBytes=&sinceSeconds=&tail=&timestamps="""

    async def logs(request: web.Request) -> web.StreamResponse:
        uid, attempt = attempt_of(request)
        path = source.logs_dir / uid / str(attempt) / "output.log"
        if source.log_state(uid, attempt) == "unknown":
            if source.problem():
                raise refusal(503, source.problem())  # it can't know yet
            if not path.exists():
                raise refusal(404, f"no log of Task {uid}, attempt {attempt}, on this node")
        malloc.keep_buffers()
        offset = await _first_byte(request, path)
        response = web.StreamResponse(
            headers={
                OFFSET_HEADER: str(offset),
                "Content-Type": "text/plain; charset=utf-8",
                "Cache-Control": "no-cache",
            }
        )
        response.enable_chunked_encoding()
        await response.prepare(request)
        state = (lambda: source.log_state(uid, attempt)) if flag(request, "follow") else None
        pieces = _pieces(path, offset, state, request.app[NOTIFY])
        if flag(request, "timestamps"):
            pieces = _with_times(path, offset, pieces)
        with contextlib.suppress(ConnectionResetError):  # the reader has gone
            async with contextlib.aclosing(pieces):
                async for _, piece in pieces:
                    await response.write(piece)
            await response.write_eof()
        return response

    app.router.add_get(f"{TASK}/log", logs)


async def _first_byte(request: web.Request, path: Path) -> int:
    """The highest of what is asked for: each leaves something out."""
    first = number(request, "sinceBytes", 0, 0)
    tail = number(request, "tail", -1, 0)
    since = number(request, "sinceSeconds", -1, 0)
    if tail >= 0:
        first = max(first, await asyncio.to_thread(tail_offset, path, tail))
    if since >= 0:
        first = max(first, await asyncio.to_thread(_since, path, since))
    return max(first, await asyncio.to_thread(kept_from, path))


def _since(path: Path, seconds: int) -> int:
    """Where the line begins that was written `seconds` ago; by the file's own clock."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0
    offset = offset_since(read_marks(path), time.time() - seconds, found.st_mtime)
    return found.st_size if offset < 0 else line_start(path, offset)


async def _pieces(
    path: Path, offset: int, state: Callable[[], LogState] | None, notify: Inotify
) -> AsyncGenerator[tuple[int, bytes], None]:
    """Offset and bytes from `offset` on; with `state`, until it says ended and all was sent."""
    growth = _Growth(path, notify)
    try:
        while True:
            # Asked before the read: what was written before the end is then read after it.
            over = state is None or state() in ("ended", "unknown")
            growth.expect()
            begin, chunk = await asyncio.to_thread(read_kept, path, offset, _CHUNK)
            if begin > offset:  # dropped while it was read: logs.maxBytes
                if state is not None:
                    return  # who follows counts bytes: it asks again, and is told where it goes on
                yield offset, dropped_line(begin - offset)
                offset = begin
            if chunk:
                yield offset, chunk
                offset += len(chunk)
            elif over:
                return
            elif state is not None:
                await growth.wait(lambda: state() in ("ended", "unknown"))
    finally:
        growth.close()


@dataclass
class _Growth:
    """Waits until a file may have grown. `expect` before the read that finds nothing new."""

    path: Path
    notify: Inotify
    _grown: asyncio.Event = field(default_factory=asyncio.Event)
    _call_off: Callable[[], None] | None = None

    def expect(self) -> None:
        if self._call_off is None or self._grown.is_set():
            self._grown.clear()
            with contextlib.suppress(OSError):  # not there yet, or no watch to be had: then looks alone must do
                self._call_off = self.notify.watch(self.path, self._grown.set)

    async def wait(self, over: Callable[[], bool]) -> None:
        looks = _LOOKS_BETWEEN_READS if self._call_off is not None else 1
        for _ in range(looks):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._grown.wait()
            if self._grown.is_set() or over():
                return

    def close(self) -> None:
        if self._call_off is not None:
            self._call_off()


async def _with_times(
    path: Path, offset: int, pieces: AsyncGenerator[tuple[int, bytes], None]
) -> AsyncGenerator[tuple[int, bytes], None]:
    starts = offset == 0 or await asyncio.to_thread(read_chunk, path, offset - 1, 1) == b"\n"
    stamper, marks = Stamper(starts), list[Mark]()
    async with contextlib.aclosing(pieces):
        async for at, piece in pieces:
            if not marks or at + len(piece) > marks[-1].size:
                marks = await asyncio.to_thread(read_marks, path)
            last_write = await asyncio.to_thread(_last_write, path)
            yield at, await asyncio.to_thread(stamper.stamped, piece, at, marks, last_write)


def _last_write(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # dropped meanwhile, with its Task
        return time.time()
