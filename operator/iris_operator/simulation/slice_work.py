"""Carries out what is planned for one Slice, as controller/handlers/slices.py does."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatchmethod

from iris_operator.api.core import Lease, Pod
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
    DeleteWorker,
    RemoveFinalizer,
    SliceAction,
    StopTask,
)
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.slice_deletion import plan_deletion
from iris_operator.plan.slice_lifecycle import plan_live_slice
from iris_operator.plan.snapshot import SliceView
from iris_operator.plan.worker_size import worker_size
from iris_operator.ports.errors import ConflictError, NotFoundError
from iris_operator.simulation.process import Key, Operator
from iris_operator.simulation.routing import SLICE

Freshen = Callable[[Lease, float], Lease]
Labels = Callable[[str, dict[str, str]], None]


class SliceWork:
    """`freshen` gives a Lease its last renewal; `order_labels` hands a NodePool's node labels to the vendor."""

    def __init__(self, freshen: Freshen, order_labels: Labels) -> None:
        self._freshen, self._order_labels = freshen, order_labels

    def __call__(self, operator: Operator, name: str) -> None:
        """Plan, act, then one status write."""
        owner = operator.memory.get(Slice, name)
        if owner is None:
            return
        view = self.view(operator, owner)
        plan = plan_deletion(view, operator.now) if owner.deleting else plan_live_slice(view, operator.now)
        for action in plan.actions:
            self._act(action, owner, operator)
        if any(isinstance(action, RemoveFinalizer) for action in plan.actions):
            return
        newest = operator.memory.get(Slice, name) or owner
        operator.status(newest, owner.status, plan.status)
        if plan.recheck_seconds is not None:
            operator.add(Key(SLICE, name), plan.recheck_seconds)

    def view(self, operator: Operator, owner: Slice) -> SliceView:
        """All that belongs to one Slice, as the operator knows it."""
        memory = operator.memory
        cluster = memory.cluster_of(owner.metadata.namespace, owner.spec.cluster_name)
        pods = memory.workers_of(owner)
        leases = {pod: memory.get(Lease, f"{owner.metadata.namespace}/{pod}") for pod in pods}
        ahead = operator.pace.lease_ahead_seconds
        return SliceView(
            slice=owner,
            settings=cluster if isinstance(cluster, NoCluster) else cluster.spec,
            node_pool=memory.get(NodePool, f"/{slice_id(owner.metadata.namespace, owner.metadata.name)}"),
            nodes=memory.nodes_of(owner),
            pods=pods,
            leases={pod: self._freshen(lease, ahead) for pod, lease in leases.items() if lease is not None},
            tasks=memory.tasks_on(owner),
        )

    @singledispatchmethod
    def _act(self, action: SliceAction, owner: Slice, operator: Operator) -> None:
        raise TypeError(f"no way to do {action}")

    @_act.register
    def _(self, action: AddFinalizer, owner: Slice, operator: Operator) -> None:
        operator.change(owner, metadata={"finalizers": [*owner.metadata.finalizers, FINALIZER_SLICE]})

    @_act.register
    def _(self, action: RemoveFinalizer, owner: Slice, operator: Operator) -> None:
        current = operator.memory.get(Slice, owner.key) or owner
        left = [one for one in current.metadata.finalizers if one != FINALIZER_SLICE]
        try:
            operator.change(current, metadata={"finalizers": left})
        except NotFoundError:
            return

    @_act.register
    def _(self, action: ApplyNodePool, owner: Slice, operator: Operator) -> None:
        body = node_pool(owner)
        name = body["metadata"]["name"]
        if operator.store.get(NodePool, f"/{name}") is None:
            self._order_labels(name, body["spec"].get("nodeLabels", {}))
            operator.create(NodePool.parse(body))

    @_act.register
    def _(self, action: DeleteNodePool, owner: Slice, operator: Operator) -> None:
        operator.delete(action.node_pool)

    @_act.register
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

    @_act.register
    def _(self, action: DeleteWorker, owner: Slice, operator: Operator) -> None:
        operator.delete(action.pod, grace_seconds=0 if action.force else None)

    @_act.register
    def _(self, action: StopTask, owner: Slice, operator: Operator) -> None:
        task = action.task
        if task.spec.binding is None:
            return
        told = task.spec.binding.model_copy(update={"stop_reason": action.reason})
        try:
            operator.change(task, spec=task.spec.model_copy(update={"binding": told}))
        except (ConflictError, NotFoundError):
            return  # told in the next round
