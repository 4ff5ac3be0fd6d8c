"""List, then watch, for ever: a collection kept in memory, with a callback per change."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Any

from iris_operator.ports.errors import ApiError, GoneError
from iris_operator.ports.kube import Body, Kind, KubeApi

log = logging.getLogger(__name__)

OnChange = Callable[[Body, bool], None]
"""Called with an object and whether it is gone."""

_BACKOFF_SECONDS = (0.2, 10.0)
# A server (or a proxy before it) that ends watches at once must not be asked in a tight loop.
_SHORT_WATCH_SECONDS = 0.5


def identity(body: Body) -> Body:
    """What tells an object from others, and its version."""
    metadata: dict[str, Any] = body["metadata"]
    names = ("namespace", "name", "uid", "resourceVersion")
    return {"metadata": {name: metadata[name] for name in names if name in metadata}}


class Informer:
    """Keeps `objects` (by namespace/name) as the API server has them. `synced` is set after the first list.

    `keep`: what of an object is kept, `identity` at least; of one that a later list has not, that is all `on_change` is given.
    """

    def __init__(
        self,
        api: KubeApi,
        kind: Kind,
        namespace: str | None,
        on_change: OnChange,
        *,
        labels: str = "",
        fields: str = "",
        keep: Callable[[Body], Body] = lambda body: body,
    ) -> None:
        self.objects: dict[str, Body] = {}
        self.synced = asyncio.Event()
        self._api, self._kind, self._namespace = api, kind, namespace
        self._labels, self._fields = labels, fields
        self._on_change, self._keep = on_change, keep

    async def run(self) -> None:
        """Runs until cancelled. Any API error means: wait a little (longer each time), then list again."""
        delay = _BACKOFF_SECONDS[0]
        while True:
            try:
                version = await self._list()
                delay = _BACKOFF_SECONDS[0]
                while True:
                    began = time.monotonic()
                    version = await self._watch(version)
                    if time.monotonic() - began < _SHORT_WATCH_SECONDS:
                        await asyncio.sleep(_SHORT_WATCH_SECONDS)
            except GoneError:
                continue
            except ApiError as error:
                log.warning("watching %s: %s; again in %.1f s", self._kind.plural, error, delay)
                await asyncio.sleep(delay * random.uniform(0.5, 1.0))
                delay = min(delay * 2, _BACKOFF_SECONDS[1])

    async def _list(self) -> str:
        listing = await self._api.list(self._kind, self._namespace, labels=self._labels, fields=self._fields)
        seen = {_key(item): item for item in listing.items}
        for key in [key for key in self.objects if key not in seen]:
            self._on_change(self.objects.pop(key), True)
        for key, item in seen.items():
            if _version(self.objects.get(key, {})) != _version(item):
                self.objects[key] = self._keep(item)
                self._on_change(item, False)
        self.synced.set()
        return listing.resource_version

    async def _watch(self, version: str) -> str:
        events = self._api.watch(
            self._kind, self._namespace, resource_version=version, labels=self._labels, fields=self._fields
        )
        async for event in events:
            version = _version(event.body)
            if event.type == "BOOKMARK":
                continue
            key = _key(event.body)
            gone = event.type == "DELETED"
            if gone:
                self.objects.pop(key, None)
            else:
                self.objects[key] = self._keep(event.body)
            self._on_change(event.body, gone)
        return version


def _key(body: Body) -> str:
    metadata: dict[str, Any] = body["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _version(body: Body) -> str:
    return str(body.get("metadata", {}).get("resourceVersion", ""))
