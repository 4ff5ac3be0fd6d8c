"""What the controller's parts share: the API, the cache, the queue, the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from iris_operator.api.base import Resource
from iris_operator.controller.cache import Cache
from iris_operator.controller.routing import route
from iris_operator.controller.workqueue import WorkQueue
from iris_operator.ports.kube import Body, Kind, KubeApi

Listener = Callable[[Kind, Resource | None, Resource | None], None]


def utc_now() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


@dataclass
class Controller:
    """One running operator. Counts its API writes by `verb kind`, and events by their metric's name.

    `listeners` are told of every change of the cache: (kind, before, after); None where it was not, or is not any more.
    """

    api: KubeApi
    namespaces: tuple[str, ...]
    version: str
    home: str = ""  # the operator's own namespace; empty: it keeps no authority, and signs nothing
    cache: Cache = field(default_factory=Cache)
    queue: WorkQueue = field(default_factory=WorkQueue)
    now: Callable[[], datetime] = utc_now
    writes: Counter[str] = field(default_factory=Counter)
    counters: Counter[str] = field(default_factory=Counter)
    listeners: list[Listener] = field(default_factory=list)

    def observe(self, kind: Kind, body: Body, gone: bool = False) -> None:
        """Take over what the API says of an object, and queue whom it concerns."""
        metadata = body["metadata"]
        key = f"{metadata.get('namespace', '')}/{metadata['name']}"
        before = self.cache.store(kind).get(key)
        cache = self.cache
        found = cache.drop(kind, key, metadata.get("uid", "")) if gone else cache.put(kind, body)
        if found is not None:
            for listener in self.listeners:
                listener(kind, found if gone else before, None if gone else found)
            for concerned, delay in route(kind, found, before, self.cache):
                if delay:
                    self.queue.add_after(concerned, delay)
                else:
                    self.queue.add(concerned)
