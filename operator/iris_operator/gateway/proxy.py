"""Streams between a client and an agent: nothing is kept, the slower side sets the pace, either's end ends both."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence

import aiohttp
from aiohttp import WSMsgType, web
from yarl import URL

from iris_operator.gateway.answers import Refusal
from iris_operator.gateway.target import Target

log = logging.getLogger(__name__)

Query = Sequence[tuple[str, str]]

# The rest of a request is between the API server and us: who the user is is no agent's business.
_ASKED = ("Content-Type", "Accept")
_ANSWERED = ("Content-Type", "Content-Length", "Cache-Control")
_OWN_PREFIX = "iris-"
_BUFFER = 2**20
_CONNECT_SECONDS = 5.0
# A peer that vanished without a word is noticed by then.
_HEARTBEAT_SECONDS = 30.0
_CANNOT_BE_SENT = {None, 1005, 1006, 1015}
_BROKEN = 1011


class Unreachable(Exception):
    """The agent does not answer, or is not who it should be; `refusal` says so."""

    def __init__(self, target: Target, error: Exception) -> None:
        why = "it can't prove who it is" if isinstance(error, ssl.SSLCertVerificationError) else _words(error)
        super().__init__(why)
        self.refusal = Refusal(503, "ServiceUnavailable", f"{target.what} does not answer: {why}")


def agent_session(context: ssl.SSLContext) -> aiohttp.ClientSession:
    """Connections to agents, all with the gateway's own certificate."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=0, keepalive_timeout=30),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        read_bufsize=_BUFFER,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def wants_websocket(request: web.Request) -> bool:
    """Whether it asks to become one."""
    return request.headers.get("Upgrade", "").lower() == "websocket"


async def forward(
    request: web.Request, session: aiohttp.ClientSession, target: Target, query: Query
) -> web.StreamResponse:
    """Ask the agent the same, and hand on what it answers. Unreachable when there is no answer."""
    if wants_websocket(request):
        return await _websocket(request, session, target, query)
    return await _plain(request, session, target, query)


async def _plain(
    request: web.Request, session: aiohttp.ClientSession, target: Target, query: Query
) -> web.StreamResponse:
    headers = {name: request.headers[name] for name in _ASKED if name in request.headers}
    body = request.content if request.can_read_body else None
    try:
        upstream = await session.request(
            request.method, _url(target, query), headers=headers, data=body, server_hostname=target.host,
            allow_redirects=False,
        )  # fmt: skip
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(target, error) from error
    async with upstream:
        response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=_answered(upstream))
        if upstream.content_length is None:
            response.enable_chunked_encoding()
        await response.prepare(request)
        try:
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
        except (aiohttp.ClientError, TimeoutError) as error:
            # Not as if that were all of it: the reader must see that it broke off.
            log.info("%s broke off: %s", target.what, _words(error))
            if request.transport is not None:
                request.transport.close()
            return response
        await response.write_eof()
        return response


async def _websocket(
    request: web.Request, session: aiohttp.ClientSession, target: Target, query: Query
) -> web.StreamResponse:
    try:
        upstream = await session.ws_connect(
            _url(target, query), server_hostname=target.host, max_msg_size=0, compress=0, heartbeat=_HEARTBEAT_SECONDS
        )
    except aiohttp.WSServerHandshakeError:
        # The words of a refusal are in its body, which a handshake's error has not.
        return await _plain(request, session, target, query)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(target, error) from error
    async with upstream:
        client = web.WebSocketResponse(max_msg_size=0, compress=False, heartbeat=_HEARTBEAT_SECONDS)
        await client.prepare(request)
        ways = [asyncio.create_task(_copy(upstream, client)), asyncio.create_task(_copy(client, upstream))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        for one, other in ((client, upstream), (upstream, client)):
            if not one.closed:
                code = other.close_code
                await one.close(code=_BROKEN if code is None or code in _CANNOT_BE_SENT else code)
        return client


_Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


async def _copy(source: _Socket, sink: _Socket) -> None:
    """Until the source ends, or the sink takes no more."""
    try:
        while True:
            message = await source.receive()
            if message.type is WSMsgType.BINARY:
                await sink.send_bytes(message.data)
            elif message.type is WSMsgType.TEXT:
                await sink.send_str(message.data)
            else:
                return
    except (ConnectionError, aiohttp.ClientError) as error:
        log.debug("a WebSocket broke off: %s", error)


def _url(target: Target, query: Query) -> URL:
    return URL.build(scheme="https", host=target.address, port=target.port, path=target.path, query=list(query))


def _answered(upstream: aiohttp.ClientResponse) -> dict[str, str]:
    names = [name for name in upstream.headers if name.lower().startswith(_OWN_PREFIX)]
    return {name: upstream.headers[name] for name in (*_ANSWERED, *names) if name in upstream.headers}


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
