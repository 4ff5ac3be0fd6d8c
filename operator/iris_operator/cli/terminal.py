"""The person's own terminal: its keys, its size, and its mode while a command of a Task has it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from iris_operator.api.streams import Channel

_CHUNK = 2**16


@contextmanager
def raw_mode(file: int) -> Iterator[None]:
    """Every key goes to the command, Ctrl-C too. The terminal is as before afterwards, whatever happens."""
    before = termios.tcgetattr(file)
    try:
        tty.setraw(file, termios.TCSANOW)  # what was typed ahead stays
        yield
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def size() -> tuple[int, int]:
    """Columns and rows."""
    found = shutil.get_terminal_size()
    return max(1, found.columns), max(1, found.lines)


async def sizes() -> AsyncIterator[tuple[int, int]]:
    """Each new size."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            await changed.wait()
            changed.clear()
            yield size()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def keys(file: int) -> AsyncIterator[bytes]:
    """What is read from a file, a pipe or a terminal, until its end. No more is read ahead than one piece.

    By a thread: a regular file can't be waited for, and a terminal must stay as blocking as its other users expect.
    """
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes | OSError] = asyncio.Queue(maxsize=1)

    def read() -> None:
        data: bytes | OSError = b"-"
        while data and not isinstance(data, OSError):
            try:
                data = os.read(file, _CHUNK)
            except OSError as error:
                data = error
            try:
                asyncio.run_coroutine_threadsafe(pieces.put(data), loop).result()
            except (RuntimeError, asyncio.CancelledError):  # nobody listens any more
                return

    # Not of the loop's own: at the end those are waited for, and this one may wait for a key for ever.
    threading.Thread(target=read, daemon=True, name="read standard input").start()
    while data := await pieces.get():
        if isinstance(data, OSError):
            raise data
        yield data


async def to_standard_streams(channel: Channel, data: bytes) -> None:
    """Bytes as they are, at once. A reader that is gone is an OSError, as everywhere."""
    stream = sys.stdout.buffer if channel is Channel.STDOUT else sys.stderr.buffer

    def write() -> None:
        stream.write(data)
        stream.flush()

    await asyncio.to_thread(write)  # a pager may take its time, and the connection must not look dead meanwhile
