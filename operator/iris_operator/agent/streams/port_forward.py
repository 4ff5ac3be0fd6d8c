"""One TCP connection to a port of a running Task, over a WebSocket.

Tasks have their node's network, and so has the agent: what a Task listens on is a port of this node. It is as much as a
command run in the Task could reach, and who may ask for the one may ask for the other.
"""

from __future__ import annotations

import asyncio

from aiohttp import WSMsgType, web

from iris_operator.adapters.websockets import keep_alive
from iris_operator.agent.streams.execute import open_socket
from iris_operator.agent.streams.source import TASK, StreamSource, number, refusal, running_sandbox
from iris_operator.api.streams import PORT_END

_LOCAL = ("127.0.0.1", "::1")
_CONNECT_SECONDS = 5.0
_CHUNK = 256 * 1024


def add_port_forward(app: web.Application, source: StreamSource) -> None:
    """WebSocket .../portforward?port="""

    async def forward(request: web.Request) -> web.StreamResponse:
        port = number(request, "port", 0, 1, 65535)
        if not port:
            raise refusal(400, "port is missing: which of the Task's ports")
        running_sandbox(source, request)
        reader, writer = await _connect((*_LOCAL, source.address), port)
        try:
            socket = await open_socket(request)
            await _carry(socket, reader, writer)
            return socket
        finally:
            writer.close()

    app.router.add_get(f"{TASK}/portforward", forward)


async def _connect(hosts: tuple[str, ...], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """On the first address that listens: a command may do so on the node's own address alone."""
    why = ""
    for host in hosts:
        if host:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(host, port)
            except OSError as error:  # a TimeoutError is one
                why = error.strerror or str(error)
    raise refusal(503, f"nothing answers on port {port} of the Task's node ({why or 'refused'}): does it listen?")


async def _carry(socket: web.WebSocketResponse, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until both sides have ended, or one is gone."""
    both = {asyncio.create_task(_outward(socket, reader)), asyncio.create_task(_inward(socket, writer))}
    pinging = asyncio.create_task(keep_alive(socket))
    try:
        waiting = set(both)
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if any(not one.result() for one in done):
                break
        await socket.close()
    except OSError:
        pass  # one of them is gone, and so is the connection
    finally:
        for task in (*both, pinging):
            task.cancel()
        await asyncio.gather(*both, pinging, return_exceptions=True)


async def _outward(socket: web.WebSocketResponse, reader: asyncio.StreamReader) -> bool:
    while data := await reader.read(_CHUNK):
        await socket.send_bytes(data)
    await socket.send_str(PORT_END)
    return True


async def _inward(socket: web.WebSocketResponse, writer: asyncio.StreamWriter) -> bool:
    """False when the other end has gone without a word."""
    async for message in socket:
        if message.type is WSMsgType.TEXT and message.data == PORT_END:
            if writer.can_write_eof():
                writer.write_eof()
            return True
        if message.type is WSMsgType.BINARY:
            writer.write(message.data)
            await writer.drain()
    return False
