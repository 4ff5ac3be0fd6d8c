"""How much of a log was received, when there may be times in it: so that a broken stream goes on at the right byte. Pure."""

from __future__ import annotations

from typing import Protocol

STAMP_BYTES = 21  # what the agent puts before a line: agent/streams/marks


class Counted(Protocol):
    """Takes what was received; gives what may be shown, and how many bytes of the log itself that is."""

    def connected(self) -> None:
        """What was begun and not finished is sent anew."""
        ...

    def take(self, chunk: bytes) -> tuple[bytes, int]:
        """Part of it may be held back until more comes."""
        ...


class Plain:
    """The log as it is."""

    def connected(self) -> None:
        return None

    def take(self, chunk: bytes) -> tuple[bytes, int]:
        return chunk, len(chunk)


class Stamped:
    """With a time before each line. A time that came in part is held back."""

    def __init__(self) -> None:
        self._line_start = True
        self._held = b""

    def connected(self) -> None:
        self._held = b""

    def take(self, chunk: bytes) -> tuple[bytes, int]:
        data = self._held + chunk
        last = data.rfind(b"\n") + 1
        begun = last if last or self._line_start else len(data)  # where a line begins whose time may not be whole
        whole = data[:begun] if len(data) - begun <= STAMP_BYTES else data  # a time alone is nothing of the log
        self._held = data[len(whole) :]
        if not whole:
            return b"", 0
        lines = self._line_start + whole.count(b"\n", 0, len(whole) - 1)
        self._line_start = whole.endswith(b"\n")
        return whole, len(whole) - STAMP_BYTES * lines


class Prefixed:
    """Puts a name before each line of one of several logs, and writes whole lines only.

    A line longer than 64 KiB is broken, so that one log can't keep the others waiting, nor fill the memory.
    """

    MOST = 2**16

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._rest = b""

    def take(self, chunk: bytes) -> bytes:
        """The lines that are whole now."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        while len(self._rest) >= self.MOST:
            lines.append(self._rest[: self.MOST])
            self._rest = self._rest[self.MOST :]
        return b"".join(self._prefix + line + b"\n" for line in lines)

    def end(self) -> bytes:
        """What came without a newline."""
        rest, self._rest = self._rest, b""
        return self._prefix + rest + b"\n" if rest else b""
