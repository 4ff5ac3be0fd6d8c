"""What both ends of a WebSocket of ours do."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
from aiohttp import web

_PING_SECONDS = 15.0


async def keep_alive(socket: web.WebSocketResponse | aiohttp.ClientWebSocketResponse) -> None:
    """Ping until cancelled, or until the connection is gone.

    An end that waits for its own reader (a command that does not read, a pager that shows a page) answers no pings: its
    own tell the gateway that it is there. They also keep what stands between from ending a quiet connection.
    """
    with contextlib.suppress(ConnectionResetError, aiohttp.ClientError):
        while True:
            await asyncio.sleep(_PING_SECONDS)
            await socket.ping()
