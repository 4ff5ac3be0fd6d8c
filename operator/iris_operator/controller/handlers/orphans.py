"""Reconcile NodePools without a Slice, all in one pass."""

from __future__ import annotations

import logging

from iris_operator.api.cluster import Timeouts
from iris_operator.api.names import ANNOTATION_ORPHANED_SINCE
from iris_operator.api.nodepool import NodePool
from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.plan.actions import Note
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.slices.orphans import (
    DeleteOrphan,
    MarkOrphan,
    OrphanAction,
    OrphanView,
    UnmarkOrphan,
    owner_of,
    plan_orphans,
)
from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import IRIS_CLUSTERS, NODEPOOLS, SLICES

log = logging.getLogger(__name__)

ORPHANED_TOTAL = "iris_orphaned_nodepools_total"


class OrphanReconciler:
    """Marks, waits, deletes. Before each the API is asked for the Slice: a cache that lags must not cost a live slice."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)

    async def reconcile(self, key: Key) -> None:
        """All NodePools."""
        plan = plan_orphans(self._view(), self._controller.now())
        if plan.recheck_seconds is not None:
            self._controller.queue.add_after(key, plan.recheck_seconds)
        for action in plan.actions:
            await self._do(action)

    def _view(self) -> OrphanView:
        cache, namespaces = self._controller.cache, self._controller.namespaces
        uids: dict[str, set[str]] = {namespace: set() for namespace in namespaces}
        for one in cache.slices.values():
            uids.setdefault(one.metadata.namespace, set()).add(one.metadata.uid)
        return OrphanView(
            node_pools=tuple(cache.node_pools.values()),
            slice_uids={namespace: frozenset(found) for namespace, found in uids.items() if namespace in namespaces},
            grace_seconds={namespace: self._grace(namespace) for namespace in namespaces},
        )

    def _grace(self, namespace: str) -> int:
        cluster = self._controller.cache.cluster_of(namespace, "")
        return (Timeouts() if isinstance(cluster, NoCluster) else cluster.spec.timeouts).orphan_seconds

    async def _do(self, action: OrphanAction) -> None:
        pool = action.node_pool
        if isinstance(action, UnmarkOrphan):
            await self._annotate(pool, None)
            return
        if await self._slice_exists(pool):
            return
        if isinstance(action, MarkOrphan):
            log.warning("NodePool %s has no Slice: deleted after its grace", pool.metadata.name)
            await self._annotate(pool, action.since.isoformat())
        elif isinstance(action, DeleteOrphan):
            await self._delete(pool, action.reason)

    async def _annotate(self, pool: NodePool, since: str | None) -> None:
        await self._writer.metadata(NODEPOOLS, pool, {"annotations": {ANNOTATION_ORPHANED_SINCE: since}})

    async def _delete(self, pool: NodePool, reason: str) -> None:
        log.warning("deleting NodePool %s: %s", pool.metadata.name, reason)
        await self._writer.delete(NODEPOOLS, pool)
        self._controller.counters[ORPHANED_TOTAL] += 1
        owner = owner_of(pool)
        cluster = self._controller.cache.cluster_of(owner.namespace, "") if owner else None
        if cluster is not None and not isinstance(cluster, NoCluster):
            note = Note("Warning", "OrphanDeleted", f"NodePool {pool.metadata.name} is being deleted: {reason}")
            await self._writer.event(IRIS_CLUSTERS, cluster, note)

    async def _slice_exists(self, pool: NodePool) -> bool:
        owner = owner_of(pool)
        if owner is None:
            return True
        try:
            body = await self._controller.api.get(SLICES, owner.name, owner.namespace)
        except NotFoundError:
            return False
        self._controller.observe(SLICES, body)
        return bool(body["metadata"]["uid"] == owner.uid)
