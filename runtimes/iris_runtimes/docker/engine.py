"""The Engine's HTTP API over its unix socket: JSON calls, streams, and connections that turn into raw streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from iris_runtimes.errors import NodeFault, RuntimeFault, RuntimeUnavailable

_CALL_SECONDS = 120.0
_HEADER_BYTES = 2**16
_GONE = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, ConnectionError)


class EngineError(Exception):
    """The Engine said no. `status` is HTTP's: 404 no such thing, 409 not in this state, 5xx a failure."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Engine:
    """One Engine. Calls raise EngineError, and RuntimeUnavailable when it does not answer."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._session: aiohttp.ClientSession | None = None
        self._version = ""

    async def json(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        seconds: float | None = _CALL_SECONDS,
    ) -> Any:
        """A call's answer, None when it is empty. `seconds`: None waits for ever."""
        try:
            async with self._request(method, path, body, params, seconds=seconds) as answer:
                text = await answer.read()
        except TimeoutError as error:
            raise RuntimeUnavailable(f"the Docker Engine has not answered for {seconds:.0f} s") from error
        return json.loads(text) if text.strip() else None

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """A call's answer as it comes; no limit of time."""
        async with self._request(method, path, None, params, headers, seconds=None) as answer:
            yield answer.content

    async def hijack(self, path: str, body: Mapping[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """POST, and take the connection over: from then on both ends write as they like, and each can end its side."""
        path = await self._full(path)
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\nConnection: Upgrade\r\n"
            f"Upgrade: tcp\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket, limit=_HEADER_BYTES)
        except OSError as error:
            raise _unavailable(error) from error
        try:
            writer.write(head.encode() + content)
            await writer.drain()
            answer = (await reader.readuntil(b"\r\n\r\n")).decode(errors="replace")
            status = int(answer.split(" ", 2)[1])
            if status not in (101, 200):
                raise EngineError(status, _message(await reader.read(_HEADER_BYTES)))
        except (OSError, asyncio.IncompleteReadError) as error:
            writer.close()
            raise _unavailable(error) from error
        except EngineError:
            writer.close()
            raise
        return reader, writer

    async def close(self) -> None:
        """Let go of the connections."""
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        url = f"http://docker{await self._full(path)}"
        timeout = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self._connected().request(
                method, url, json=body, params=params, headers=headers, timeout=timeout
            ) as answer:
                if answer.status >= 400:
                    raise EngineError(answer.status, _message(await answer.read()))
                yield answer
        except _GONE as error:
            raise _unavailable(error) from error

    async def _full(self, path: str) -> str:
        """With the Engine's own version of the API: one with none is the newest today, and refused one day."""
        if not self._version and path != "/version":
            self._version = f"/v{(await self.json('GET', '/version', seconds=5))['ApiVersion']}"
        return path if path == "/version" else f"{self._version}{path}"

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(self._socket, limit=0))
        return self._session


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """What the Engine refuses and no caller knows better becomes the node's fault."""
    try:
        yield
    except EngineError as error:
        raise node_fault(error) from error


def node_fault(error: EngineError) -> RuntimeFault:
    """For a refusal that should not be."""
    return NodeFault(f"the Docker Engine: {error.message or f'status {error.status}'}")


def _message(raw: bytes) -> str:
    try:
        return " ".join(str(json.loads(raw)["message"]).split())
    except (ValueError, KeyError, TypeError):
        return " ".join(raw.decode(errors="replace").split())


def _unavailable(error: Exception) -> RuntimeUnavailable:
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return RuntimeUnavailable(f"the Docker Engine does not answer: {words}")
