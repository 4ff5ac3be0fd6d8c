"""Workers that take keys off the queue; errors mean: again, later. And the resync that mends what a watch missed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable

from iris_operator.api.names import ENDPOINTS_MANAGER, LABEL_ENDPOINTS_BY
from iris_operator.controller.cache import MODELS, owner_task
from iris_operator.controller.handlers.authority import AuthorityReconciler
from iris_operator.controller.handlers.clusters import ClusterReconciler
from iris_operator.controller.handlers.endpoints import EndpointReconciler
from iris_operator.controller.handlers.orphans import OrphanReconciler
from iris_operator.controller.handlers.placement import PlacementReconciler
from iris_operator.controller.handlers.replicas import ReplicasReconciler
from iris_operator.controller.handlers.requests import RequestReconciler
from iris_operator.controller.handlers.slices import SliceReconciler
from iris_operator.controller.handlers.tasks import TaskReconciler
from iris_operator.controller.handlers.workers import WorkerReconciler
from iris_operator.controller.memo import Controller
from iris_operator.controller.routing import (
    AUTHORITY,
    CLUSTER,
    ENDPOINT,
    ORPHANS,
    PLACE,
    REPLICAS,
    REQUEST,
    SLICE,
    TASK,
    WORKER,
)
from iris_operator.controller.workqueue import Key
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.ports.kube import ENDPOINT_SLICES, LEASES, NODES, PODS, REQUESTS, Kind

log = logging.getLogger(__name__)

_WORKERS = 8
_BACKOFF_SECONDS = (0.1, 30.0)
_RESYNC_SECONDS = 300.0
_FIRST_RESYNC_SECONDS = 15.0

Reconcile = Callable[[Key], Awaitable[None]]

# What is watched by label only, to keep strangers' objects out of memory.
SELECTED: dict[Kind, str] = {
    **dict.fromkeys((PODS, NODES, LEASES, REQUESTS), "iris-managed=true"),
    ENDPOINT_SLICES: f"{LABEL_ENDPOINTS_BY}={ENDPOINTS_MANAGER}",
}


class Engine:
    """Runs a Controller's reconcilers."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._failures: Counter[Key] = Counter()
        self._reconcilers: dict[str, Reconcile] = {
            SLICE: SliceReconciler(controller).reconcile,
            TASK: TaskReconciler(controller).reconcile,
            WORKER: WorkerReconciler(controller).reconcile,
            CLUSTER: ClusterReconciler(controller).reconcile,
            PLACE: PlacementReconciler(controller).reconcile,
            REPLICAS: ReplicasReconciler(controller).reconcile,
            ORPHANS: OrphanReconciler(controller).reconcile,
            ENDPOINT: EndpointReconciler(controller).reconcile,
            REQUEST: RequestReconciler(controller).reconcile,
            AUTHORITY: AuthorityReconciler(controller).reconcile,
        }

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.queue.run_delays())
            group.create_task(self._resync_for_ever())
            for _ in range(_WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        queue = self._controller.queue
        while True:
            key = await queue.get()
            try:
                await self._reconcilers[key.kind](key)
            except ApiError as error:
                self._retry(key, error)
            except Exception as error:
                log.exception("reconciling %s %s broke", key.kind, key.name)
                self._retry(key, error)
            else:
                self._failures.pop(key, None)
            finally:
                queue.done(key)

    def _retry(self, key: Key, error: Exception) -> None:
        self._failures[key] += 1
        delay = min(_BACKOFF_SECONDS[1], _BACKOFF_SECONDS[0] * 2 ** min(self._failures[key], 12))
        if isinstance(error, (ConflictError, NotFoundError)) and self._failures[key] <= 3:
            log.debug("%s %s: %s; again", key.kind, key.name, error)
        else:
            log.warning("%s %s: %s; again in %.1f s", key.kind, key.name, error, delay)
        self._controller.queue.add_after(key, delay)

    async def resync(self) -> None:
        """List everything: take over what is there, forget what isn't."""
        for kind in MODELS:
            namespaces = self._controller.namespaces if kind.namespaced else (None,)
            for namespace in namespaces:
                await self._resync(kind, namespace)
        self._look_at_all()

    def _look_at_all(self) -> None:
        """Whatever was missed so far, nothing waits for longer than until here."""
        cache, queue = self._controller.cache, self._controller.queue
        keys = [Key(SLICE, name) for name in cache.slices]
        keys.append(Key(ORPHANS, ""))
        keys += [Key(AUTHORITY, "")] if self._controller.home else []
        keys += [Key(WORKER, name) for name, pod in cache.pods.items() if pod.deleting]
        for namespace in self._controller.namespaces:
            keys += [Key(kind, namespace) for kind in (PLACE, CLUSTER)]
            open_tasks = cache.placement_view(namespace).tasks
            keys += [Key(TASK, task.key) for task in open_tasks if task.spec.binding is not None or task.deleting]
            keys += [Key(ENDPOINT, task.key) for task in open_tasks if task.spec.service_name]
        keys += [Key(REPLICAS, task.key) for task in cache.tasks.values() if task.spec.replicas > 1]
        keys += [Key(ENDPOINT, owner_task(found)) for found in cache.endpoint_slices.values() if owner_task(found)]
        for key in keys:
            queue.add(key)

    async def _resync(self, kind: Kind, namespace: str | None) -> None:
        try:
            listing = await self._controller.api.list(kind, namespace, labels=SELECTED.get(kind, ""))
        except ApiError as error:
            log.warning("listing %s in %s: %s", kind.plural, namespace or "the cluster", error)
            return
        there = {item["metadata"]["uid"] for item in listing.items}
        for item in listing.items:
            self._controller.observe(kind, item)
        for known in list(self._controller.cache.store(kind).values()):
            meta = known.metadata
            missing = meta.uid not in there and (namespace is None or meta.namespace == namespace)
            if missing and int(meta.resource_version) <= int(listing.resource_version):
                log.info("%s %s is gone; the watch did not tell", kind.plural, known.key)
                body = {"metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}}
                self._controller.observe(kind, body, gone=True)

    async def _resync_for_ever(self) -> None:
        # kopf's own first list may be older than ours by a moment in which something vanished: look once more soon
        delay = _FIRST_RESYNC_SECONDS
        while True:
            await asyncio.sleep(delay)
            await self.resync()
            delay = _RESYNC_SECONDS
