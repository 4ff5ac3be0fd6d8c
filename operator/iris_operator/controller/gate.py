"""What the leader writes through, so that it can be certain when its last write is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from iris_operator.ports.errors import ApiError
from iris_operator.ports.kube import Body, Kind, KubeApi, Listing, WatchEvent


class ClosedError(ApiError):
    """This replica has handed over, or is about to: it writes nothing any more."""

    def __init__(self) -> None:
        super().__init__(0, "Closed", "this replica ends")


class WriteGate:
    """Satisfies ports.kube.KubeApi: every call goes on to another one, until `close`; then reads only."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._closed = False
        self._under_way = 0
        self._unsure = False  # a write was cut off: the API server may carry it out yet
        self._moved = asyncio.Event()

    async def close(self, seconds: float) -> bool:
        """Let no write begin, and wait for those under way. Whether it is certain that none comes later."""
        self._closed = True
        try:
            async with asyncio.timeout(seconds):
                while self._under_way:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            return False
        return not self._unsure

    @contextmanager
    def _write(self) -> Iterator[None]:
        if self._closed:
            raise ClosedError
        self._under_way += 1
        try:
            yield
        except asyncio.CancelledError:
            self._unsure = True
            raise
        except ApiError as error:
            # No answer at all. Long ago that is over; just now it may still be in the server's hands.
            self._unsure = self._unsure or (self._closed and error.status == 0)
            raise
        finally:
            self._under_way -= 1
            self._moved.set()

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any]:
        return await self._api.get(kind, name, namespace)

    async def list(self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        return await self._api.list(kind, namespace, labels=labels, fields=fields)

    def watch(
        self, kind: Kind, namespace: str | None = None, *, resource_version: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent]:
        return self._api.watch(kind, namespace, resource_version=resource_version, labels=labels, fields=fields)

    async def create(self, kind: Kind, body: Body, namespace: str | None = None) -> dict[str, Any]:
        with self._write():
            return await self._api.create(kind, body, namespace)

    async def apply(self, kind: Kind, body: Body, *, manager: str, namespace: str | None = None) -> dict[str, Any]:
        with self._write():
            return await self._api.apply(kind, body, manager=manager, namespace=namespace)

    async def patch(
        self, kind: Kind, name: str, patch: Body, *, namespace: str | None = None, subresource: str = ""
    ) -> dict[str, Any]:
        with self._write():
            return await self._api.patch(kind, name, patch, namespace=namespace, subresource=subresource)

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
        with self._write():
            await self._api.delete(
                kind, name, namespace, uid=uid, resource_version=resource_version, grace_seconds=grace_seconds
            )
