"""A process of this machine that stands for a container's, or for a command in one."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import shutil
import signal
import struct
import termios
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import partial

_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Missing(Exception):
    """In runc's words."""


class FakeProcess:
    """What it writes is kept, as the Engine keeps logs."""

    def __init__(
        self, command: list[str], env: list[str], folder: str = "", terminal: bool = False, stdin: bool = False
    ) -> None:
        self.name = uuid.uuid4().hex
        self.terminal = terminal
        self.size = (80, 24)
        self.code: int | None = None
        self.ended_at = ""
        self._command = command
        self._env = dict(pair.partition("=")[::2] for pair in env)
        self._folder = folder or "/"
        self._stdin = stdin
        self._process: asyncio.subprocess.Process | None = None
        self._pieces: list[tuple[int, bytes]] = []
        self._changed = asyncio.Condition()
        self._told: list[Callable[[], None]] = []
        self._master = -1
        self._watching: asyncio.Task[None] | None = None
        self._all_written = False

    @classmethod
    async def begin(cls, command: list[str], env: list[str], folder: str) -> FakeProcess:
        """Made and started."""
        made = cls(command, env, folder)
        await made.start()
        return made

    @property
    def pid(self) -> int:
        """0 before it started."""
        return self._process.pid if self._process is not None else 0

    @property
    def running(self) -> bool:
        """Whether it does."""
        return self._process is not None and self.code is None

    def on_end(self, tell: Callable[[], None]) -> None:
        """Call when it has ended."""
        self._told.append(tell)

    async def start(self) -> None:
        """Missing in runc's words when there is no such command."""
        program = self._command[0]
        if shutil.which(program, path=self._env.get("PATH", _PATH)) is None:
            why = (
                f"stat {program}: no such file or directory" if "/" in program else "executable file not found in $PATH"
            )
            raise Missing(f'exec: "{program}": {why}')
        env = {"PATH": _PATH, **self._env}
        reads: list[tuple[int, int]] = []
        if self.terminal:
            self._master, slave = pty.openpty()
            self.resize(*self.size)
            out = err = stdin = slave
            reads = [(1, self._master)]
        else:
            (read_out, out), (read_err, err) = os.pipe(), os.pipe()
            reads = [(1, read_out), (2, read_err)]
            stdin = asyncio.subprocess.PIPE if self._stdin else asyncio.subprocess.DEVNULL
        self._process = await asyncio.create_subprocess_exec(
            *self._command, env=env, cwd=self._folder, stdin=stdin, stdout=out, stderr=err, start_new_session=True
        )
        for file in {out, err}:
            os.close(file)
        self._watching = asyncio.create_task(self._watch(reads))

    def resize(self, columns: int, rows: int) -> None:
        """The terminal's size."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def signal(self, number: int) -> None:
        """To the command; SIGKILL ends all, as in a process namespace of its own."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if number == signal.SIGKILL else os.kill)(self.pid, number)

    async def ended(self) -> None:
        """Wait for it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.code is not None)

    async def written(self, follow: bool) -> AsyncIterator[tuple[int, bytes]]:
        """1 or 2 for the stream, and bytes; from the beginning."""
        seen = 0
        while True:
            while seen < len(self._pieces):
                yield self._pieces[seen]
                seen += 1
            if self._all_written or not follow:
                return
            async with self._changed:
                await self._changed.wait_for(partial(self._more_than, seen))

    def _more_than(self, seen: int) -> bool:
        return self._all_written or len(self._pieces) > seen

    async def feed(self, reader: asyncio.StreamReader) -> None:
        """Input, to its end."""
        while data := await reader.read(2**16):
            if self.terminal:
                os.write(self._master, data)
            elif self._process is not None and self._process.stdin is not None:
                self._process.stdin.write(data)
                await self._process.stdin.drain()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def destroy(self) -> None:
        """End it and all of it."""
        if self._process is None:
            return
        self.signal(signal.SIGKILL)
        if self._watching is not None:
            await asyncio.wait([self._watching], timeout=5)

    async def _watch(self, reads: list[tuple[int, int]]) -> None:
        assert self._process is not None
        reading = [asyncio.create_task(self._read(number, file)) for number, file in reads]
        code = await self._process.wait()
        self.ended_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f123Z")
        self.code = code if code >= 0 else 128 - code
        await self._notify()
        for tell in self._told:
            tell()
        await asyncio.gather(*reading)
        self._all_written = True
        await self._notify()
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def _read(self, number: int, file: int) -> None:
        os.set_blocking(file, False)
        loop = asyncio.get_running_loop()
        while True:
            ready = loop.create_future()
            loop.add_reader(file, lambda done=ready: done.done() or done.set_result(None))  # type: ignore[misc]
            await ready
            loop.remove_reader(file)
            try:
                data = os.read(file, 2**16)
            except BlockingIOError:
                continue
            except OSError:  # a terminal whose last user has gone
                data = b""
            if not data:
                break
            self._pieces.append((number, data))
            await self._notify()
        os.close(file)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
