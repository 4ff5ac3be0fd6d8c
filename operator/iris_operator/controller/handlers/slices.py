"""Reconcile one Slice."""

from __future__ import annotations

import logging
from functools import singledispatchmethod

from iris_operator.api.core import Pod
from iris_operator.api.names import FINALIZER_SLICE
from iris_operator.api.slice import Slice
from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.manifests.nodepool import node_pool
from iris_operator.manifests.worker_pod import worker_pod
from iris_operator.plan.actions import (
    AddFinalizer,
    ApplyNodePool,
    CreateWorker,
    DeleteNodePool,
    DeleteWorker,
    RemoveFinalizer,
    SliceAction,
    StopTask,
)
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.slice_deletion import plan_deletion
from iris_operator.plan.slice_lifecycle import plan_live_slice
from iris_operator.plan.worker_size import worker_size
from iris_operator.ports.errors import ConflictError, NotFoundError
from iris_operator.ports.kube import NODEPOOLS, PODS, SLICES, TASKS

log = logging.getLogger(__name__)


class SliceReconciler:
    """Brings one Slice nearer to what it should be."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)

    async def reconcile(self, key: Key) -> None:
        """Plan, act, then one status patch."""
        owner = self._controller.cache.slices.get(key.name)
        if owner is None:
            return
        view = self._controller.cache.slice_view(owner)
        now = self._controller.now()
        plan = plan_deletion(view, now) if owner.deleting else plan_live_slice(view, now)
        for action in plan.actions:
            await self._do(action, owner)
        if any(isinstance(action, RemoveFinalizer) for action in plan.actions):
            return
        newest = self._controller.cache.slices.get(owner.key, owner)  # our own actions may have made it newer
        await self._writer.status(SLICES, newest, owner.status, plan.status)
        for note in plan.notes:
            await self._writer.event(SLICES, owner, note)
        if plan.recheck_seconds is not None:
            self._controller.queue.add_after(key, plan.recheck_seconds)

    async def _do(self, action: SliceAction, owner: Slice) -> None:
        log.info("slice %s: %s", owner.key, _words(action))
        await self._act(action, owner)

    @singledispatchmethod
    async def _act(self, action: SliceAction, owner: Slice) -> None:
        raise TypeError(f"no way to do {action}")

    @_act.register
    async def _(self, action: AddFinalizer, owner: Slice) -> None:
        await self._writer.add_finalizer(SLICES, owner, FINALIZER_SLICE)

    @_act.register
    async def _(self, action: RemoveFinalizer, owner: Slice) -> None:
        current = self._controller.cache.slices.get(owner.key, owner)
        await self._writer.remove_finalizer(SLICES, current, FINALIZER_SLICE)

    @_act.register
    async def _(self, action: ApplyNodePool, owner: Slice) -> None:
        await self._writer.apply(NODEPOOLS, node_pool(owner))

    @_act.register
    async def _(self, action: DeleteNodePool, owner: Slice) -> None:
        await self._writer.delete(NODEPOOLS, action.node_pool)

    @_act.register
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

    @_act.register
    async def _(self, action: DeleteWorker, owner: Slice) -> None:
        await self._writer.delete(PODS, action.pod, grace_seconds=0 if action.force else None)

    @_act.register
    async def _(self, action: StopTask, owner: Slice) -> None:
        try:
            await self._writer.metadata(TASKS, action.task, {}, {"binding": {"stopReason": action.reason}})
        except (ConflictError, NotFoundError):
            log.debug("task %s changed meanwhile; told to stop in the next round", action.task.key)


def _words(action: SliceAction) -> str:
    for name in ("node_pool", "pod", "task"):
        target = getattr(action, name, None)
        if target is not None:
            return f"{type(action).__name__} {target.metadata.name}"
    return type(action).__name__
