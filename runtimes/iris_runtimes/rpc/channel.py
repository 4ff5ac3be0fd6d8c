"""The way to one server: a connection that is made when it is needed, and again when it broke."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache

from iris_runtimes.rpc.connection import Connection
from iris_runtimes.rpc.errors import RpcError, StatusCode
from iris_runtimes.rpc.hpack import encode
from iris_runtimes.rpc.stream import Stream

Metadata = Sequence[tuple[str, str]]
_CONNECT_SECONDS = 20.0


class Channel:
    """`socket`: the unix socket's path. Nothing is connected before the first call."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._closed = False

    async def close(self) -> None:
        """Calls under way fail as UNAVAILABLE."""
        self._closed = True
        if self._connection is not None:
            self._connection.close("the channel was closed")

    async def unary(self, path: str, request: bytes, metadata: Metadata, timeout: float | None) -> bytes:
        """One message there, one back; RpcError. Cancelled, the server is told."""
        stream = await self.begin(path, request, metadata, timeout)
        try:
            while stream.end is None:
                await stream.news()
        finally:
            stream.cancel()
        stream.check()
        if not stream.messages:
            raise RpcError(StatusCode.INTERNAL, "an answer without a message")
        return stream.take()

    async def begin(
        self,
        path: str,
        request: bytes | None,
        metadata: Metadata,
        timeout: float | None,
    ) -> Stream:
        """Begin a call. `request`: its only message; None: messages follow. RpcError when nobody answers."""
        connection = self._connection
        if connection is None or not connection.takes_calls:
            connection = await self._connect(timeout)
        stream = connection.open(_head(path, tuple(metadata), timeout), request, last=request is not None)
        if timeout is not None:
            late = StatusCode.DEADLINE_EXCEEDED, f"no answer within {timeout:g}s"
            stream.timer = asyncio.get_running_loop().call_later(timeout, stream.cancel, *late)
        return stream

    async def _connect(self, seconds: float | None) -> Connection:
        async with self._connecting:
            if self._connection is not None and self._connection.takes_calls:
                return self._connection  # by another call, while this one waited
            if self._closed:
                raise RpcError(StatusCode.UNAVAILABLE, "the channel was closed")
            try:
                async with asyncio.timeout(min(seconds or _CONNECT_SECONDS, _CONNECT_SECONDS)):
                    loop = asyncio.get_running_loop()
                    _, self._connection = await loop.create_unix_connection(Connection, self._socket)
            except OSError as error:  # a TimeoutError is one
                why = error.strerror or "no answer"
                raise RpcError(StatusCode.UNAVAILABLE, f"connecting to {self._socket}: {why}") from error
            return self._connection


@lru_cache(maxsize=512)
def _head(path: str, metadata: tuple[tuple[str, str], ...], timeout: float | None) -> bytes:
    """A call's header block."""
    headers = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost")]
    headers += [("te", "trailers"), ("content-type", "application/grpc"), ("user-agent", "iris")]
    if timeout is not None:
        headers.append(("grpc-timeout", f"{min(max(round(timeout * 1000), 1), 99_999_999)}m"))
    return encode([*headers, *metadata])
