"""logs.maxBytes: of a log that grew beyond it the oldest part is given back to the disk, as a hole at the file's beginning.

The file keeps its length, so offsets stay true for who writes (shims append) and who reads; a hole takes no room. Where the
kept part begins is asked of the file itself, so nothing has to be remembered.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
# fallocate(2): FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_PUNCH = 0x01 | 0x02
# Of whole blocks of any file system: bytes of a part of one would be zeroed, and read as if they were written.
_ALIGN = 64 * 1024
_SECTOR = 512  # st_blocks counts these, whatever the block size: stat(2)


def room_taken(path: Path) -> int:
    """Bytes that a file takes on its disk; 0 when it isn't there."""
    try:
        return path.stat().st_blocks * _SECTOR
    except FileNotFoundError:
        return 0


def drop_oldest(path: Path, max_bytes: int) -> int:
    """Make a log take at most about `max_bytes`; where its kept part begins now. OSError, as from a disk that can't.

    An eighth more than needed goes, so that a log at its bound isn't cut at every look.
    """
    with path.open("r+b") as file:
        found = os.fstat(file.fileno())
        if found.st_blocks * _SECTOR > max_bytes:
            end = (found.st_size - (max_bytes - max_bytes // 8)) // _ALIGN * _ALIGN
            if end > 0:
                _punch(file.fileno(), end)
        return first_kept(file.fileno())


def first_kept(file: int) -> int:
    """Offset of the first byte of an open file that is not in the hole at its beginning."""
    try:
        return os.lseek(file, 0, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:  # empty, or nothing but hole
            raise
        return os.fstat(file).st_size


def kept_from(path: Path) -> int:
    """The same of a file by its path; 0 when it isn't there."""
    try:
        with path.open("rb") as file:
            return first_kept(file.fileno())
    except FileNotFoundError:
        return 0


def read_kept(path: Path, offset: int, size: int) -> tuple[int, bytes]:
    """Up to `size` bytes from `offset`, or from where the kept part begins; that offset, and the bytes.

    No bytes at the end, and when there is no file yet.
    """
    try:
        with path.open("rb", buffering=0) as file:
            while True:
                begin = max(offset, first_kept(file.fileno()))
                file.seek(begin)
                chunk = file.read(size) or b""
                if first_kept(file.fileno()) <= begin:  # else it was dropped while it was read
                    return begin, chunk
    except FileNotFoundError:
        return offset, b""


def dropped_line(number: int) -> bytes:
    """In the place of so many bytes, for who reads a log as a whole."""
    return f"... {size_text(number)} dropped: logs.maxBytes\n".encode()


def size_text(number: int) -> str:
    """`12 MiB`, or smaller units."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= size:
            return f"{round(number / size, 1):g} {unit}"
    return f"{number} bytes"


def _punch(file: int, end: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate64(file, _PUNCH, ctypes.c_int64(0), ctypes.c_int64(end)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class LogBounds:
    """Keeps the logs that grow within bounds. `paths`: those logs; `max_bytes`: 0 for no bound."""

    def __init__(self, max_bytes: Callable[[], int], paths: Callable[[], Iterable[Path]]) -> None:
        self._max_bytes, self._paths = max_bytes, paths
        self._refused = False

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Once."""
        most = self._max_bytes()
        if most > 0:
            await asyncio.to_thread(self._bound, list(self._paths()), most)

    def _bound(self, paths: list[Path], most: int) -> None:
        for path in paths:
            if room_taken(path) <= most:
                continue
            try:
                drop_oldest(path, most)
            except FileNotFoundError:
                continue  # its Task was deleted meanwhile
            except OSError as error:
                if not self._refused:
                    log.warning("logs.maxBytes can't be kept on this node's file system: %s: %s", path, error)
                self._refused = True
