"""Copies of what the API holds, kept fresh by a list and a watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from iris_devcluster.coreweave.kube import KubeClient, KubeError

log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


class Store:
    """Objects of one collection by name; `changed` is called after every change, `run` never returns by itself."""

    def __init__(self, kube: KubeClient, path: str, changed: Callable[[], None], fields: str = "") -> None:
        self._kube = kube
        self._path = path
        self._fields = fields
        self._changed = changed
        self._items: dict[str, dict[str, Any]] = {}
        self.filled = asyncio.Event()

    @property
    def items(self) -> Mapping[str, Mapping[str, Any]]:
        """By name, as last seen."""
        return MappingProxyType(self._items)

    def put(self, body: Mapping[str, Any]) -> None:
        """An object as the API answered our own write; when the watch brings it, it is no news any more."""
        if body["metadata"]["name"] in self._items and self._is_news(body):
            self._items[body["metadata"]["name"]] = dict(body)
            self._changed()

    def _is_news(self, body: Mapping[str, Any]) -> bool:
        known = self._items.get(body["metadata"]["name"])
        return known is None or _version(body) > _version(known)

    async def run(self) -> None:
        """List and watch, from the start again whenever the watch ends."""
        while True:
            try:
                version = await self._list()
                async for event in self._kube.watch(self._path, version, self._fields):
                    self._take(event)
            except KubeError as error:
                if error.status != 410:
                    log.warning("%s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _list(self) -> str:
        params = {"fieldSelector": self._fields} if self._fields else None
        page = await self._kube.request("GET", self._path, params=params)
        self._items = {item["metadata"]["name"]: item for item in page.get("items") or []}
        self.filled.set()
        self._changed()
        return str(page["metadata"]["resourceVersion"])

    def _take(self, event: Mapping[str, Any]) -> None:
        body = event["object"]
        name = body["metadata"].get("name", "")
        if event["type"] == "BOOKMARK":
            return
        if event["type"] == "DELETED":
            self._items.pop(name, None)
        elif self._is_news(body):
            self._items[name] = body
        else:
            return
        self._changed()


def _version(body: Mapping[str, Any]) -> int:
    return int(body["metadata"]["resourceVersion"])
