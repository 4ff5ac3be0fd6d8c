"""Each action of a Slice's plan as writes, as controller/handlers/slice_actions.py has them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import singledispatchmethod

from iris_operator.api.core import Pod
from iris_operator.api.names import FINALIZER_SLICE, slice_id
from iris_operator.api.nodepool import NodePool
from iris_operator.api.slice import Slice
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
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.slices.node_pool_state import is_ours
from iris_operator.plan.slices.obstacles import Held, deletion_refused, launch_refused, rate_limited
from iris_operator.plan.slices.worker_size import worker_size
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.simulation.process import Operator

Labels = Callable[[str, dict[str, str]], None]


class SliceActions:
    """`order_labels` hands a NodePool's node labels to the vendor. Raises Held, or ApiError."""

    def __init__(self, order_labels: Labels) -> None:
        self._order_labels = order_labels

    @singledispatchmethod
    def do(self, action: SliceAction | DeleteSlice, owner: Slice, operator: Operator) -> None:
        """Do it."""
        raise TypeError(f"no way to do {action}")

    @do.register
    def _(self, action: AddFinalizer, owner: Slice, operator: Operator) -> None:
        operator.change(owner, metadata={"finalizers": [*owner.metadata.finalizers, FINALIZER_SLICE]})

    @do.register
    def _(self, action: RemoveFinalizer, owner: Slice, operator: Operator) -> None:
        current = operator.memory.get(Slice, owner.key) or owner
        left = [one for one in current.metadata.finalizers if one != FINALIZER_SLICE]
        try:
            operator.change(current, metadata={"finalizers": left})
        except NotFoundError:
            return

    @do.register
    def _(self, action: DeleteSlice, owner: Slice, operator: Operator) -> None:
        operator.delete(operator.memory.get(Slice, owner.key) or owner)

    @do.register
    def _(self, action: ApplyNodePool, owner: Slice, operator: Operator) -> None:
        if not nothing_left(operator, owner, whoever=True):
            return
        _await_turn(operator, owner)
        body = node_pool(owner)
        name = body["metadata"]["name"]
        self._order_labels(name, body["spec"].get("nodeLabels", {}))
        try:
            operator.create(NodePool.parse(body))
        except ApiError as error:
            obstacle = launch_refused(name, error)
            if obstacle is None:
                raise
            raise Held(obstacle, error=error) from error

    @do.register
    def _(self, action: DeleteNodePool, owner: Slice, operator: Operator) -> None:
        try:
            operator.delete(action.node_pool)
        except ApiError as error:
            obstacle = deletion_refused(action.node_pool.metadata.name, error)
            if obstacle is None:
                raise
            raise Held(obstacle, error=error) from error

    @do.register
    def _(self, action: CreateWorker, owner: Slice, operator: Operator) -> None:
        cluster = operator.memory.cluster_of(owner.metadata.namespace, owner.spec.cluster_name)
        if isinstance(cluster, NoCluster):
            return
        size = worker_size(action.node, (), cluster.spec.worker)
        body = worker_pod(owner, action.rank, action.node, size, cluster.spec)
        # The scheduler places it at once: its affinity leaves it no choice.
        body["spec"]["nodeName"] = action.node.metadata.name
        try:
            operator.create(Pod.parse(body))
        except ConflictError:
            return

    @do.register
    def _(self, action: DeleteWorker, owner: Slice, operator: Operator) -> None:
        operator.delete(action.pod, grace_seconds=0 if action.force else None)

    @do.register
    def _(self, action: StopTask, owner: Slice, operator: Operator) -> None:
        stop_task(operator, action)


def stop_task(operator: Operator, action: StopTask) -> bool:
    """Whether it was told; no: it changed meanwhile."""
    task = action.task
    if task.spec.binding is None:
        return False
    told = task.spec.binding.model_copy(update={"stop_reason": action.reason, "stop_for": action.stop_for})
    try:
        operator.change(task, spec=task.spec.model_copy(update={"binding": told}))
    except (ConflictError, NotFoundError):
        return False
    return True


def nothing_left(operator: Operator, owner: Slice, *, whoever: bool = False) -> bool:
    """Whether the slice's NodePool (or, of that name, whoever's) is certainly not there: the API itself is asked."""
    found = operator.store.get(NodePool, f"/{slice_id(owner.metadata.namespace, owner.metadata.name)}")
    if found is None or (not whoever and not is_ours(found, owner)):
        return True
    operator.observe(None, found)
    return False


def _await_turn(operator: Operator, owner: Slice) -> None:
    cluster = operator.memory.cluster_of(owner.metadata.namespace, owner.spec.cluster_name)
    if isinstance(cluster, NoCluster):
        return
    per_minute = cluster.spec.autoscaler.launches_per_minute
    since = operator.now - timedelta(seconds=60)
    lately = sum(
        one.metadata.creation_timestamp is not None and one.metadata.creation_timestamp > since
        for one in (operator.memory.all(NodePool).values() if operator.launches.fresh else ())
    )
    wait = operator.launches.take(owner.metadata.uid, per_minute, lately)
    if wait > 0:
        raise Held(rate_limited(per_minute), wait_seconds=wait)
