"""A command in a running Task: this end of the exec WebSocket of docs/designs/004."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import click

from iris_operator.adapters.websockets import keep_alive
from iris_operator.api.streams import Channel, task_stream
from iris_operator.cli.session import Session, missing_kinds
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError, UnavailableError

Sink = Callable[[Channel, bytes], Awaitable[None]]
"""Takes what the command writes: STDOUT or STDERR, and the bytes."""

_NO_COMMAND = {"CommandNotFound", "CommandNotExecutable"}


class ExecError(click.ClickException):
    """The command could not be run, or how it went is not known. `reason` is the node's word, if it had one."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        # As a shell says it.
        self.exit_code = 127 if reason == "CommandNotFound" else 126 if reason == "CommandNotExecutable" else 1  # type: ignore[misc]

    @property
    def no_such_command(self) -> bool:
        """Whether the image lacks the program."""
        return self.reason in _NO_COMMAND


@dataclass(frozen=True)
class Screen:
    """A terminal of the person's: its size when asked, and each new size as it comes."""

    size: Callable[[], tuple[int, int]]
    sizes: Callable[[], AsyncIterator[tuple[int, int]]]


@dataclass(frozen=True)
class Request:
    """What to run. `source`: its input; None: it has none. `screen`: it gets a terminal of that size."""

    command: Sequence[str]
    source: AsyncIterator[bytes] | None = None
    screen: Screen | None = None
    working_dir: str = ""

    def params(self) -> list[tuple[str, str]]:
        """The query."""
        params = [("command", word) for word in self.command]
        if self.source is not None:
            params.append(("stdin", "1"))
        if self.working_dir:
            params.append(("workingDir", self.working_dir))
        if self.screen is not None:
            columns, rows = self.screen.size()
            params += [("tty", "1"), ("columns", str(columns)), ("rows", str(rows))]
        return params


async def execute(session: Session, task: str, request: Request, sink: Sink) -> int:
    """Run it to its end; its exit code. ExecError, ApiError."""
    path = task_stream(session.namespace, task, "exec")
    async with session.api.websocket(path, request.params()) as socket:
        hearing = asyncio.create_task(_hear(socket, sink))
        feeding = asyncio.create_task(_feed(socket, request.source))
        others = [asyncio.create_task(keep_alive(socket))]
        if request.screen is not None:
            others.append(asyncio.create_task(_resize(socket, request.screen)))
        try:
            await asyncio.wait({hearing, feeding}, return_when=asyncio.FIRST_COMPLETED)
            if not hearing.done():
                feeding.result()  # input that can't be read ends the command: it would wait for more for ever
            return await hearing
        finally:
            for helper in (hearing, feeding, *others):
                helper.cancel()
            await asyncio.gather(hearing, feeding, *others, return_exceptions=True)


async def output_of(session: Session, task: str, command: Sequence[str]) -> tuple[int, bytes]:
    """Exit code and standard output of a short command."""
    out = bytearray()

    async def keep(channel: Channel, data: bytes) -> None:
        if channel is Channel.STDOUT:
            out.extend(data)

    return await execute(session, task, Request(command), keep), bytes(out)


async def _hear(socket: aiohttp.ClientWebSocketResponse, sink: Sink) -> int:
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == Channel.END:
            return _ended(json.loads(data))
        if channel in (Channel.STDOUT, Channel.STDERR):
            await sink(Channel(channel), data)
    raise ExecError("the connection to the Task's node broke off; the command was ended with it")


def _ended(how: dict[str, Any]) -> int:
    if "exitCode" not in how:
        raise ExecError(str(how.get("error", "the node does not say how it ended")), str(how.get("reason", "")))
    return int(how["exitCode"])


async def _feed(socket: aiohttp.ClientWebSocketResponse, source: AsyncIterator[bytes] | None) -> None:
    if source is None:
        return
    with contextlib.suppress(ConnectionResetError):
        async for data in source:
            await socket.send_bytes(Channel.STDIN.head + data)
        await socket.send_bytes(Channel.END_OF_INPUT.head)


async def _resize(socket: aiohttp.ClientWebSocketResponse, screen: Screen) -> None:
    with contextlib.suppress(ConnectionResetError):
        async for columns, rows in screen.sizes():
            size = json.dumps({"columns": columns, "rows": rows}).encode()
            await socket.send_bytes(Channel.RESIZE.head + size)


def no_task(error: ApiError, name: str, namespace: str) -> Exception:
    """A refusal in the gateway's or the node's own words, which are for people; other errors as they are."""
    if isinstance(error, NotFoundError) and f'"{name}" not found' in error.message:
        return click.ClickException(f"no Task {name} in namespace {namespace} (another one: -n NAMESPACE)")
    told = isinstance(error, (NotFoundError, ConflictError)) or (isinstance(error, UnavailableError) and error.status)
    return click.ClickException(error.message) if told and not missing_kinds(error) else error
