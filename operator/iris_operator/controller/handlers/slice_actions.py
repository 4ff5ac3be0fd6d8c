"""Each action of a Slice's plan as API calls."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from functools import singledispatchmethod

from iris_operator.api.core import Pod
from iris_operator.api.names import FINALIZER_SLICE, slice_id
from iris_operator.api.nodepool import NodePool
from iris_operator.api.slice import Slice
from iris_operator.controller.handlers.stops import stop_task
from iris_operator.controller.memo import Controller
from iris_operator.controller.writer import Writer
from iris_operator.manifests.nodepool import node_pool
from iris_operator.manifests.worker_pod import worker_pod
from iris_operator.plan.actions import (
    AddFinalizer,
    ApplyNodePool,
    CreateWorker,
    DeleteNodePool,
    DeleteSlice,
    DeleteWorker,
    RemoveFinalizer,
    SliceAction,
    StopTask,
)
from iris_operator.plan.groups.launch_rate import LaunchRate
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.slices.node_pool_state import is_ours
from iris_operator.plan.slices.obstacles import Held, deletion_refused, launch_refused, rate_limited
from iris_operator.plan.slices.worker_size import worker_size
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.ports.kube import NODEPOOLS, PODS, SLICES

log = logging.getLogger(__name__)


class SliceActions:
    """Carries out one action at a time. Raises Held, or ports.errors.ApiError for what has nothing to do with the vendor."""

    def __init__(self, controller: Controller, writer: Writer) -> None:
        self._controller, self._writer = controller, writer
        self._rates: dict[str, LaunchRate] = {}

    @singledispatchmethod
    async def do(self, action: SliceAction | DeleteSlice, owner: Slice) -> None:
        """Do it."""
        raise TypeError(f"no way to do {action}")

    @do.register
    async def _(self, action: AddFinalizer, owner: Slice) -> None:
        await self._writer.add_finalizer(SLICES, owner, FINALIZER_SLICE)

    @do.register
    async def _(self, action: RemoveFinalizer, owner: Slice) -> None:
        current = self._controller.cache.slices.get(owner.key, owner)
        await self._writer.remove_finalizer(SLICES, current, FINALIZER_SLICE)

    @do.register
    async def _(self, action: DeleteSlice, owner: Slice) -> None:
        await self._writer.delete(SLICES, self._controller.cache.slices.get(owner.key, owner))

    @do.register
    async def _(self, action: ApplyNodePool, owner: Slice) -> None:
        if not await self.nothing_left(owner, whoever=True):
            return  # it exists: the next pass adopts it, or says whose it is
        self._await_turn(owner)
        body = node_pool(owner)
        try:
            await self._writer.apply(NODEPOOLS, body)
        except ApiError as error:
            obstacle = launch_refused(body["metadata"]["name"], error)
            if obstacle is None:
                raise
            raise Held(obstacle, error=error) from error
        self._controller.counters["iris_launches_total"] += 1

    @do.register
    async def _(self, action: DeleteNodePool, owner: Slice) -> None:
        try:
            await self._writer.delete(NODEPOOLS, action.node_pool)
        except ApiError as error:
            obstacle = deletion_refused(action.node_pool.metadata.name, error)
            if obstacle is None:
                raise
            raise Held(obstacle, error=error) from error

    @do.register
    async def _(self, action: CreateWorker, owner: Slice) -> None:
        cluster = self._controller.cache.cluster_of(owner.metadata.namespace, owner.spec.cluster_name)
        if isinstance(cluster, NoCluster):
            return
        name = action.node.metadata.name
        listing = await self._controller.api.list(PODS, fields=f"spec.nodeName={name}")
        neighbours = [Pod.parse(item) for item in listing.items]
        size = worker_size(action.node, neighbours, cluster.spec.worker)
        body = worker_pod(owner, action.rank, action.node, size, cluster.spec)
        try:
            await self._writer.create(PODS, body, owner.metadata.namespace)
        except ConflictError:
            log.debug("worker Pod %s exists already", body["metadata"]["name"])

    @do.register
    async def _(self, action: DeleteWorker, owner: Slice) -> None:
        await self._writer.delete(PODS, action.pod, grace_seconds=0 if action.force else None)

    @do.register
    async def _(self, action: StopTask, owner: Slice) -> None:
        await stop_task(self._writer, action)

    async def nothing_left(self, owner: Slice, *, whoever: bool = False) -> bool:
        """Whether the slice's NodePool (or, of that name, whoever's) is certainly not there: the API is asked itself.

        A watch may lag and a list at start may have failed; a node that nobody knows of bills for ever.
        """
        name = slice_id(owner.metadata.namespace, owner.metadata.name)
        try:
            body = await self._controller.api.get(NODEPOOLS, name)
        except NotFoundError:
            return True
        if not whoever and not is_ours(NodePool.parse(body), owner):
            return True
        self._controller.observe(NODEPOOLS, body)
        return False

    def _await_turn(self, owner: Slice) -> None:
        cluster = self._controller.cache.cluster_of(owner.metadata.namespace, owner.spec.cluster_name)
        if isinstance(cluster, NoCluster):
            return
        rate = self._rates.setdefault(cluster.key, LaunchRate(time.monotonic))
        per_minute = cluster.spec.autoscaler.launches_per_minute
        wait = rate.take(owner.metadata.uid, per_minute, self._launched_lately() if rate.fresh else 0)
        if wait > 0:
            raise Held(rate_limited(per_minute), wait_seconds=wait)

    def _launched_lately(self) -> int:
        """NodePools made within the last minute: a restart is no way around the limit."""
        since = self._controller.now() - timedelta(seconds=60)
        pools = self._controller.cache.node_pools.values()
        return sum(
            one.metadata.creation_timestamp is not None and one.metadata.creation_timestamp > since for one in pools
        )


def words(action: SliceAction | DeleteSlice) -> str:
    """For the log."""
    for name in ("node_pool", "pod", "task", "slice"):
        target = getattr(action, name, None)
        if target is not None:
            return f"{type(action).__name__} {target.metadata.name}"
    return type(action).__name__
