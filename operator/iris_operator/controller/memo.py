"""What the controller's parts share: the API, the cache, the queue, the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from iris_operator.controller.cache import Cache
from iris_operator.controller.routing import route
from iris_operator.controller.workqueue import WorkQueue
from iris_operator.ports.kube import Body, Kind, KubeApi


def utc_now() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


@dataclass
class Controller:
    """One running operator. Counts its API writes by `verb kind`."""

    api: KubeApi
    namespaces: tuple[str, ...]
    version: str
    cache: Cache = field(default_factory=Cache)
    queue: WorkQueue = field(default_factory=WorkQueue)
    now: Callable[[], datetime] = utc_now
    writes: Counter[str] = field(default_factory=Counter)

    def observe(self, kind: Kind, body: Body, gone: bool = False) -> None:
        """Take over what the API says of an object, and queue whom it concerns."""
        metadata = body["metadata"]
        key = f"{metadata.get('namespace', '')}/{metadata['name']}"
        before = self.cache.store(kind).get(key)
        cache = self.cache
        found = cache.drop(kind, key, metadata.get("uid", "")) if gone else cache.put(kind, body)
        if found is not None:
            for concerned, delay in route(kind, found, before, self.cache):
                if delay:
                    self.queue.add_after(concerned, delay)
                else:
                    self.queue.add(concerned)
