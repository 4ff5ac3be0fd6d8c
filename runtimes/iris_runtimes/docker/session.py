"""One command that runs in a sandbox of Docker's."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from iris_runtimes.docker.engine import Engine, EngineError, node_fault, translated
from iris_runtimes.docker.frames import next_frame, next_raw
from iris_runtimes.errors import InvalidSpec, NodeFault, RuntimeFault, SandboxNotFound, SandboxNotRunning
from iris_runtimes.execution import ExecRequest, Output
from iris_runtimes.start_words import meaning_of
from iris_runtimes.sweep import MARK, sweep_request

_POLL_SECONDS = 0.03
_MOST_POLL_SECONDS = 0.5
_SWEEP_SECONDS = 10.0
# Of an exec that the Engine could not start, as of a shell's: not executable, not found
_NEVER_RAN = (126, 127)


async def execute(engine: Engine, sandbox_id: str, request: ExecRequest) -> DockerSession:
    """See protocol.Runtime.execute."""
    if not request.command:
        raise InvalidSpec("a command to run in a sandbox needs at least a program")
    mark = f"exec-{uuid.uuid4().hex}"
    try:
        made = await engine.json("POST", f"/containers/{sandbox_id}/exec", exec_body(request, mark))
        start: dict[str, Any] = {"Detach": False, "Tty": request.terminal}
        if request.terminal:
            start["ConsoleSize"] = [request.rows, request.columns]
        reader, writer = await engine.hijack(f"/exec/{made['Id']}/start", start)
    except EngineError as error:
        raise _failure(error, sandbox_id, request) from error
    session = DockerSession(engine, sandbox_id, made["Id"], mark, request, reader, writer)
    await session.begun()
    return session


def exec_body(request: ExecRequest, mark: str) -> dict[str, Any]:
    """Body of POST /containers/ID/exec. Pure."""
    terminal = {"TERM": "xterm"} if request.terminal else {}
    env = {**terminal, **dict(request.env), MARK: mark}
    user = "" if request.user is None else f"{request.user}:{request.group or 0}"
    return {
        "AttachStdin": request.stdin,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": request.terminal,
        "Cmd": list(request.command),
        "Env": [f"{name}={value}" for name, value in env.items()],
        "WorkingDir": request.working_dir,
        "User": user,
    }


class DockerSession:
    """Satisfies execution.ExecSession."""

    def __init__(
        self,
        engine: Engine,
        sandbox_id: str,
        exec_id: str,
        mark: str,
        request: ExecRequest,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._engine = engine
        self._sandbox_id = sandbox_id
        self._exec_id = exec_id
        self._mark = mark
        self._request = request
        self._reader = reader
        self._writer = writer
        self._exit_code: int | None = None

    async def begun(self) -> None:
        """Return once it runs or has run; raise what kept it from that: the Engine says so only after it said yes."""
        while True:
            found = await self._look()
            if found["Running"] or found["ExitCode"] is not None:
                break
            await asyncio.sleep(_POLL_SECONDS)
        if found["Running"] or found["Pid"] or found["ExitCode"] not in _NEVER_RAN:
            return
        said = b"".join([piece.data async for piece in self.output()]).decode(errors="replace")
        self._writer.close()
        raise meaning_of(" ".join(said.split()), self._request.command[0], f"of sandbox {self._sandbox_id}")

    async def output(self) -> AsyncGenerator[Output, None]:
        read = next_raw if self._request.terminal else next_frame
        while (piece := await read(self._reader)) is not None:
            yield piece

    async def write(self, data: bytes) -> None:
        if not self._request.stdin or self._writer.is_closing():
            return
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError:
            self._writer.close()

    async def end_input(self) -> None:
        if self._request.stdin and not self._writer.is_closing() and self._writer.can_write_eof():
            self._writer.write_eof()

    async def resize(self, columns: int, rows: int) -> None:
        if self._request.terminal:
            with suppress(EngineError):  # it has ended meanwhile
                await self._engine.json(
                    "POST", f"/exec/{self._exec_id}/resize", params={"h": str(rows), "w": str(columns)}
                )

    async def wait(self) -> int:
        pause = _POLL_SECONDS
        while self._exit_code is None:
            found = await self._look()
            if not found["Running"] and found["ExitCode"] is not None:
                self._exit_code = int(found["ExitCode"])
                break
            await asyncio.sleep(pause)  # the Engine has no call that waits for an exec
            pause = min(pause * 1.5, _MOST_POLL_SECONDS)
        return self._exit_code if self._exit_code is not None else 0

    async def kill(self) -> None:
        """The Engine can't signal an exec: a shell of the image's kills it and what it has started. NodeFault without one."""
        if self._exit_code is None:
            await self._sweep()

    async def close(self) -> None:
        try:
            found = await self._look()
            if found["Running"]:
                with suppress(RuntimeFault):
                    await self._sweep()
        except RuntimeFault:
            pass  # with its sandbox, or with the Engine
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _look(self) -> dict[str, Any]:
        async with translated():
            found: dict[str, Any] = await self._engine.json("GET", f"/exec/{self._exec_id}/json")
        return found

    async def _sweep(self) -> None:
        body = exec_body(sweep_request(self._mark), f"{self._mark}-sweep")
        try:
            async with asyncio.timeout(_SWEEP_SECONDS):
                made = await self._engine.json("POST", f"/containers/{self._sandbox_id}/exec", body)
                await self._engine.json("POST", f"/exec/{made['Id']}/start", {"Detach": True, "Tty": False})
                await self.wait()
        except EngineError as error:
            if error.status not in (404, 409):
                raise node_fault(error) from error
        except TimeoutError as error:
            raise NodeFault(f"a command in sandbox {self._sandbox_id} could not be ended") from error


def _failure(error: EngineError, sandbox_id: str, request: ExecRequest) -> RuntimeFault:
    if error.status == 404:
        return SandboxNotFound(f"no sandbox {sandbox_id}")
    if error.status == 409:
        return SandboxNotRunning(f"sandbox {sandbox_id} does not run: nothing can be run in it")
    return meaning_of(error.message, request.command[0], f"of sandbox {sandbox_id}")
