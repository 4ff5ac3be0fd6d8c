"""What a runtime does inside a running sandbox: commands, and what it uses. Units are in the names."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True)
class ExecRequest:
    """A command to run in a running sandbox, as its own command runs unless said otherwise.

    `terminal`: a pseudo-terminal of `columns` x `rows`, with one stream of output. `stdin`: whether there will be input.
    """

    command: Sequence[str]
    env: Sequence[tuple[str, str]] = ()
    working_dir: str = ""
    user: int | None = None
    group: int | None = None
    stdin: bool = False
    terminal: bool = False
    columns: int = 80
    rows: int = 24


class Stream(StrEnum):
    """Where output came from; a terminal has only STDOUT."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True)
class Output:
    """Bytes that a command has written."""

    stream: Stream
    data: bytes


class ExecSession(Protocol):
    """A command that runs in a sandbox. Whoever made it closes it; that ends the command, if it still runs."""

    def output(self) -> AsyncGenerator[Output, None]:
        """What it writes, until it ends and nobody holds its streams any more. Reading slowly slows the command."""
        ...

    async def write(self, data: bytes) -> None:
        """Give it input; returns when it may take more. Input that nobody reads any more is dropped."""
        ...

    async def end_input(self) -> None:
        """It will read the end of its input."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """The terminal's new size. Nothing happens without one."""
        ...

    async def wait(self) -> int:
        """Its exit code, 128 plus the signal's number when a signal ended it."""
        ...

    async def kill(self) -> None:
        """SIGKILL to it and, as far as the runtime can, to what it has started. Done already is success."""
        ...

    async def close(self) -> None:
        """End it if it runs and let go of what it took."""
        ...


@dataclass(frozen=True)
class Stats:
    """What a sandbox uses. None: this kernel or runtime does not say.

    `memory_bytes` counts the page cache, `working_set_bytes` what could not be given up at once, as the kubelet counts.
    """

    at: datetime
    cpu_seconds: float
    memory_bytes: int
    working_set_bytes: int
    memory_limit_bytes: int | None = None
    memory_peak_bytes: int | None = None
    pids: int | None = None
    throttled_seconds: float | None = None
