"""A command in a sandbox of enroot's: `enroot exec`, a process of ours."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path

from iris_runtimes.enroot.program import Program
from iris_runtimes.errors import RuntimeUnavailable
from iris_runtimes.execution import ExecRequest, Output, Stream
from iris_runtimes.streams import merged
from iris_runtimes.sweep import MARK

_CHUNK_BYTES = 2**16


class EnrootSession:
    """Satisfies execution.ExecSession."""

    def __init__(self, mark: str, process: asyncio.subprocess.Process, terminal: int | None) -> None:
        self._mark = mark
        self._process = process
        self._terminal = terminal

    @classmethod
    async def begin(cls, program: Program, pid: int, env: Mapping[str, str], request: ExecRequest) -> EnrootSession:
        """Run it in the sandbox of that process."""
        mark = f"exec-{uuid.uuid4().hex}"
        given = {**env, **dict(request.env), MARK: mark}
        words = [program.path, "exec"]
        for name, value in given.items():
            words += ["--env", f"{name}={value}"]
        words += ["--", str(pid), *request.command]
        master, slave = pty.openpty() if request.terminal else (None, None)
        if master is not None:
            _resize(master, request.columns, request.rows)
        pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        stdin = slave if slave is not None else pipe if request.stdin else none
        out, err = (slave, slave) if slave is not None else (pipe, pipe)
        try:
            process = await asyncio.create_subprocess_exec(
                *words, env=program.env(), stdin=stdin, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as error:
            if master is not None:
                os.close(master)
            raise RuntimeUnavailable(f"the program {program.path} can't be run: {error.strerror}") from error
        finally:
            if slave is not None:
                os.close(slave)
        return cls(mark, process, master)

    async def output(self) -> AsyncGenerator[Output, None]:
        reads: dict[Stream, Callable[[], Awaitable[bytes]]] = {}
        if self._terminal is not None:
            reads[Stream.STDOUT] = self._read_terminal
        else:
            assert self._process.stdout is not None
            assert self._process.stderr is not None
            out, err = self._process.stdout, self._process.stderr
            reads = {Stream.STDOUT: lambda: out.read(_CHUNK_BYTES), Stream.STDERR: lambda: err.read(_CHUNK_BYTES)}
        async with aclosing(merged(reads)) as pieces:
            async for piece in pieces:
                yield piece

    async def write(self, data: bytes) -> None:
        if self._terminal is not None:
            await asyncio.to_thread(os.write, self._terminal, data)
        elif self._process.stdin is not None:
            with suppress(ConnectionError):
                self._process.stdin.write(data)
                await self._process.stdin.drain()

    async def end_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def resize(self, columns: int, rows: int) -> None:
        if self._terminal is not None:
            _resize(self._terminal, columns, rows)

    async def wait(self) -> int:
        code = await self._process.wait()
        return code if code >= 0 else 128 - code

    async def kill(self) -> None:
        """There is no process namespace, so all that it has started is in sight."""
        for _ in range(3):
            for pid in await asyncio.to_thread(_marked, self._mark):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def close(self) -> None:
        if self._process.returncode is None:
            await self.kill()
            await self._process.wait()
        await self.end_input()
        if self._terminal is not None:
            asyncio.get_running_loop().remove_reader(self._terminal)
            os.close(self._terminal)
            self._terminal = None

    async def _read_terminal(self) -> bytes:
        if self._terminal is None:
            return b""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._terminal, _wake, ready)
        try:
            await ready
        finally:
            if self._terminal is not None:
                loop.remove_reader(self._terminal)
        try:
            return os.read(self._terminal, _CHUNK_BYTES)
        except OSError:  # its last user has gone
            return b""


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _resize(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _marked(mark: str) -> list[int]:
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found
