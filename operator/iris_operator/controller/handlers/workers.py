"""Reconcile one worker Pod that was deleted: let it go once nothing below it can run any more."""

from __future__ import annotations

from iris_operator.api.core import Pod
from iris_operator.api.names import FINALIZER_WORKER
from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.plan.slices.worker_fence import may_leave
from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import NODES, PODS


class WorkerReconciler:
    """Takes the finalizer off worker Pods."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)

    async def reconcile(self, key: Key) -> None:
        """One patch, or none."""
        pod = self._controller.cache.pods.get(key.name)
        if pod is None or not pod.deleting:
            return
        if may_leave(pod, await self._node_stands(pod)):
            await self._writer.remove_finalizer(PODS, pod, FINALIZER_WORKER)

    async def _node_stands(self, pod: Pod) -> bool:
        """Asked of the API when we don't see the node: a node that lost our label is not gone."""
        name = pod.spec.node_name
        if not name or f"/{name}" in self._controller.cache.nodes:
            return bool(name)
        try:
            await self._controller.api.get(NODES, name)
        except NotFoundError:
            return False
        return True
