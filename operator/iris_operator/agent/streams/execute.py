"""Commands in a running Task, over a WebSocket. The first byte of a message says what it is: docs/designs/004."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from aiohttp import WSMessage, WSMsgType, web

from iris_operator.adapters.websockets import keep_alive
from iris_operator.agent.streams.source import TASK, StreamSource, flag, number, refusal, running_sandbox
from iris_operator.api.streams import Channel
from iris_runtimes.errors import RuntimeFault
from iris_runtimes.execution import ExecRequest, ExecSession, Stream

_LOOK_SECONDS = 1.0


_OUTPUT = {Stream.STDOUT: Channel.STDOUT.head, Stream.STDERR: Channel.STDERR.head}


def add_exec(app: web.Application, source: StreamSource) -> None:
    """WebSocket .../exec?command=&command=&stdin=&tty=&columns=&rows=&workingDir="""

    async def execute(request: web.Request) -> web.StreamResponse:
        asked = _request(request)
        sandbox = running_sandbox(source, request)
        socket = await open_socket(request)
        try:
            session = await source.runtime.execute(sandbox.id, asked)
        except RuntimeFault as fault:
            await _end(socket, {"error": str(fault), "reason": fault.reason})
            return socket
        try:
            await _converse(request, socket, session)
        finally:
            await asyncio.shield(session.close())
        return socket

    app.router.add_get(f"{TASK}/exec", execute)


async def open_socket(request: web.Request) -> web.WebSocketResponse:
    """Accept. Refuses what is no WebSocket."""
    socket = web.WebSocketResponse(compress=False, autoclose=False)
    if not socket.can_prepare(request).ok:
        raise refusal(400, f"{request.path.rpartition('/')[2]} is a WebSocket")
    await socket.prepare(request)
    return socket


def _request(request: web.Request) -> ExecRequest:
    command = request.query.getall("command", [])
    if not command or not command[0]:
        raise refusal(400, "command is missing: what is to be run")
    terminal = flag(request, "tty")
    return ExecRequest(
        command,
        working_dir=request.query.get("workingDir", ""),
        stdin=flag(request, "stdin"),
        terminal=terminal,
        columns=number(request, "columns", 80, 1, 65535),
        rows=number(request, "rows", 24, 1, 65535),
    )


async def _converse(request: web.Request, socket: web.WebSocketResponse, session: ExecSession) -> None:
    """Until the command has ended, or the person has gone: then it is ended."""
    listening = asyncio.create_task(_listen(request, socket, session))
    telling = asyncio.create_task(_tell(socket, session))
    pinging = asyncio.create_task(keep_alive(socket))
    try:
        await asyncio.wait({listening, telling}, return_when=asyncio.FIRST_COMPLETED)
        if telling.done():
            await _end(socket, telling.result())
    except ConnectionResetError:
        pass  # the person has gone
    finally:
        for task in (listening, telling, pinging):
            task.cancel()
        await asyncio.gather(listening, telling, pinging, return_exceptions=True)


async def _tell(socket: web.WebSocketResponse, session: ExecSession) -> dict[str, object]:
    """What it writes, as it comes; then how it ended."""
    try:
        async with contextlib.aclosing(session.output()) as pieces:
            async for piece in pieces:
                await socket.send_bytes(_OUTPUT[piece.stream] + piece.data)
        return {"exitCode": await session.wait()}
    except RuntimeFault as fault:
        return {"error": str(fault), "reason": fault.reason}


async def _listen(request: web.Request, socket: web.WebSocketResponse, session: ExecSession) -> None:
    """Returns when the person has gone."""
    async for message in _messages(socket):
        channel, data = message.data[:1], message.data[1:]
        if channel == Channel.STDIN.head:
            if not await _written(request, socket, session, data):
                return
        elif channel == Channel.END_OF_INPUT.head:
            await session.end_input()
        elif channel == Channel.RESIZE.head:
            await _resize(session, data)


async def _messages(socket: web.WebSocketResponse) -> AsyncIterator[WSMessage]:
    async for message in socket:
        if message.type is WSMsgType.BINARY and message.data:
            yield message


async def _written(request: web.Request, socket: web.WebSocketResponse, session: ExecSession, data: bytes) -> bool:
    """Give it input; False when the person has gone while the command would not read."""
    writing = asyncio.ensure_future(session.write(data))
    try:
        while not (await asyncio.wait({writing}, timeout=_LOOK_SECONDS))[0]:
            # Nothing is read meanwhile, so only a write can tell.
            await socket.ping()
            if request.transport is None or request.transport.is_closing():
                return False
        with contextlib.suppress(RuntimeFault):  # how it ended is told by what waits for it
            writing.result()
        return True
    finally:
        writing.cancel()


async def _resize(session: ExecSession, data: bytes) -> None:
    """A size that is none is no reason to end a command."""
    with contextlib.suppress(ValueError, KeyError, TypeError, RuntimeFault):
        size = json.loads(data)
        await session.resize(max(1, int(size["columns"])), max(1, int(size["rows"])))


async def _end(socket: web.WebSocketResponse, how: dict[str, object]) -> None:
    with contextlib.suppress(ConnectionResetError):
        await socket.send_bytes(Channel.END.head + json.dumps(how).encode())
        await socket.close()
