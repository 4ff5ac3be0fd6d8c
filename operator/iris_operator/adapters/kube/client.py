"""A thin client of the Kubernetes API on aiohttp: JSON in, JSON out, typed errors.

Not kubernetes_asyncio's: its models cost 71 MB at import, on every node, and Iris has its own.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import aiohttp

from iris_operator.adapters.kube.config import Connection
from iris_operator.ports.errors import ApiError, UnavailableError, error_for
from iris_operator.ports.kube import Body, Kind, Listing, WatchEvent

_MERGE_PATCH = "application/merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML
_PAGE = 500
_WATCH_SECONDS = 300
_WATCH_SILENCE_SECONDS = 90  # bookmarks come about once a minute; a watch that is silent for longer has stalled
_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)


class SilentError(UnavailableError):
    """Nothing came for longer than is usual. Of a watch: it may have stalled, or nothing happened; watch anew."""


class KubeClient:
    """Satisfies ports.kube.KubeApi. Use as an async context manager; calls may run side by side."""

    def __init__(self, connection: Connection, *, user_agent: str = "iris", connections: int = 50) -> None:
        self.namespace = connection.namespace
        self._connection = connection
        self._session = aiohttp.ClientSession(
            connection.server,
            connector=aiohttp.TCPConnector(ssl=connection.ssl_context or True, limit=connections, keepalive_timeout=90),
            headers={"User-Agent": user_agent, "Accept": "application/json"},
            timeout=_TIMEOUT,
            read_bufsize=2**20,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any]:
        return await self.request("GET", kind.path(namespace, name))

    async def list(self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        items: list[dict[str, Any]] = []
        params = {"limit": str(_PAGE), **_selectors(labels, fields)}
        while True:
            page = await self.request("GET", kind.path(namespace), params=params)
            items += page.get("items") or []
            if not page["metadata"].get("continue"):
                return Listing(items, page["metadata"]["resourceVersion"])
            params = {**params, "continue": page["metadata"]["continue"]}

    async def watch(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        params = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(_WATCH_SECONDS),
            **_selectors(labels, fields),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=_WATCH_SILENCE_SECONDS)
        try:
            async with self.open("GET", kind.path(namespace), params=params, timeout=timeout) as response:
                async for line in _lines(response):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise error_for(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
                    yield WatchEvent(event["type"], event["object"])
        except SilentError:
            return  # the caller watches on from where it was

    async def create(self, kind: Kind, body: Body, namespace: str | None = None) -> dict[str, Any]:
        return await self.request("POST", kind.path(namespace), body=body)

    async def apply(self, kind: Kind, body: Body, *, manager: str, namespace: str | None = None) -> dict[str, Any]:
        path = kind.path(namespace, body["metadata"]["name"])
        params = {"fieldManager": manager, "force": "true"}
        return await self.request("PATCH", path, params=params, body=body, content_type=_APPLY_PATCH)

    async def patch(
        self, kind: Kind, name: str, patch: Body, *, namespace: str | None = None, subresource: str = ""
    ) -> dict[str, Any]:
        return await self.request(
            "PATCH", kind.path(namespace, name, subresource), body=patch, content_type=_MERGE_PATCH
        )

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        options: dict[str, Any] = {"propagationPolicy": "Background"}
        only = {"uid": uid, "resourceVersion": resource_version}
        if uid or resource_version:
            options["preconditions"] = {name: value for name, value in only.items() if value}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        await self.request("DELETE", kind.path(namespace, name), body=options)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """One call; the answer's JSON object."""
        data = None if body is None else json.dumps(body)
        headers = {} if data is None else {"Content-Type": content_type}
        async with self.open(method, path, params=params, data=data, headers=headers) as response:
            answer: dict[str, Any] = json.loads(await response.read())
            return answer

    @asynccontextmanager
    async def open(self, method: str, path: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """A call whose answer is read as it comes. Network faults, also while reading, are UnavailableError."""
        headers = {**options.pop("headers", {}), **await self._credentials()}
        try:
            async with self._session.request(method, path, headers=headers, **options) as response:
                if response.status >= 400:
                    raise await _error(response)
                yield response
        # Not every OSError: the caller's own (a closed standard output) come through here too.
        except (aiohttp.ClientError, TimeoutError, ConnectionResetError) as error:
            raise self._unreachable(error) from error

    @asynccontextmanager
    async def websocket(
        self, path: str, params: Sequence[tuple[str, str]] = ()
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket. A refusal is the typed error of an ordinary call; network faults are UnavailableError."""
        headers = await self._credentials()
        timeout = aiohttp.ClientWSTimeout(ws_close=5.0)
        try:
            async with self._session.ws_connect(
                path, params=params, headers=headers, compress=0, max_msg_size=0, timeout=timeout
            ) as socket:
                yield socket
        except aiohttp.WSServerHandshakeError as refused:
            # The refusal's words are in a body that a handshake's error has not; an ordinary call is told the same.
            async with self.open("GET", path, params=params):
                raise UnavailableError(refused.status, "NoWebSocket", f"{path}: {refused.message}") from refused
        except (aiohttp.ClientError, TimeoutError, ConnectionResetError) as error:
            raise self._unreachable(error) from error

    async def _credentials(self) -> dict[str, str]:
        try:
            token = await self._connection.token()
        except OSError as error:
            raise self._unreachable(error) from error
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _unreachable(self, error: Exception) -> UnavailableError:
        words = f"{self._connection.server}: {type(error).__name__}: {error}".rstrip(": ")
        return UnavailableError(0, "Unreachable", words)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {name: value for name, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Lines of any length; aiohttp's own readline bounds them."""
    rest = bytearray()
    async for chunk in response.content.iter_any():
        rest += chunk
        *whole, tail = rest.split(b"\n")
        for line in whole:
            if line:
                yield bytes(line)
        rest = bytearray(tail)


async def _error(response: aiohttp.ClientResponse) -> ApiError:
    text = await response.text(errors="replace")
    try:
        status = json.loads(text)
    except json.JSONDecodeError:
        status = {}
    if not isinstance(status, dict):
        status = {}
    return error_for(response.status, status.get("reason", "") or "", status.get("message", "") or text[:500])
