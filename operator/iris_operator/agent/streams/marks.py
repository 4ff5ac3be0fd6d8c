"""When which bytes of a log were written: marks of (time, size) beside each log. Pure.

A log has no times of its own: it is what the command wrote. While it grows the agent notes, at most once a second, its
size and the time of its last write; so a line's time is late by a second at most, never early.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_MARK = struct.Struct("<dQ")
MARK_BYTES = _MARK.size
STAMP_BYTES = 21
"""Length of what stands before each line with its time: `2026-11-21T16:30:01Z `."""


@dataclass(frozen=True)
class Mark:
    """The log was `size` bytes long, the last of them written at `at` (seconds since 1970, UTC)."""

    at: float
    size: int

    def pack(self) -> bytes:
        """As it lies in the file."""
        return _MARK.pack(self.at, self.size)


def unpack(data: bytes) -> list[Mark]:
    """The marks of a file; a last one that was cut off is left out."""
    return [Mark(at, size) for at, size in _MARK.iter_unpack(data[: len(data) - len(data) % MARK_BYTES])]


def thinned(marks: Sequence[Mark]) -> list[Mark]:
    """Every second one of the older half, and the newer half: what is long ago needs no seconds."""
    half = len(marks) // 2
    return [*marks[1:half:2], *marks[half:]]


def offset_since(marks: Sequence[Mark], since: float, last_write: float) -> int:
    """Where the bytes begin that were written at `since` or later; -1: there are none. `last_write`: of the file."""
    before = bisect_left(marks, since, key=lambda one: one.at)
    if before == len(marks) and last_write < since:
        return -1
    return marks[before - 1].size if before else 0


def seen_at(marks: Sequence[Mark], offset: int) -> tuple[float | None, int | None]:
    """When the byte at `offset` was written, and up to which byte that holds; None and None for what has no mark yet."""
    found = bisect_right(marks, offset, key=lambda one: one.size)
    return (marks[found].at, marks[found].size) if found < len(marks) else (None, None)


def stamp(at: float) -> bytes:
    """What stands before a line."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ ").encode()


class Stamper:
    """Puts a time before each line of a log that comes in pieces, whatever its bytes are."""

    def __init__(self, line_start: bool = True) -> None:
        self._line_start = line_start

    def stamped(self, data: bytes, offset: int, marks: Sequence[Mark], otherwise: float) -> bytes:
        """`data` begins at `offset` of the log; `otherwise`: the time of what has no mark."""
        return b"".join(self._piece(*piece) for piece in _pieces(data, offset, marks, otherwise))

    def _piece(self, data: bytes, at: float) -> bytes:
        before = stamp(at)
        whole = data.replace(b"\n", b"\n" + before)
        if self._line_start:
            whole = before + whole
        self._line_start = data.endswith(b"\n")
        return whole[: -len(before)] if self._line_start else whole


def _pieces(data: bytes, offset: int, marks: Sequence[Mark], otherwise: float) -> Iterator[tuple[bytes, float]]:
    """`data` cut where the time changes."""
    done = 0
    while done < len(data):
        at, until = seen_at(marks, offset + done)
        size = len(data) - done if until is None else min(until - offset - done, len(data) - done)
        yield data[done : done + size], otherwise if at is None else at
        done += size
