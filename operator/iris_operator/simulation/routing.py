"""Which keys a change concerns, and how soon: as controller/routing.py routes them."""

from __future__ import annotations

from collections.abc import Iterator

from iris_operator.api.base import Resource
from iris_operator.api.cluster import IrisCluster
from iris_operator.api.core import Lease, Node, Pod
from iris_operator.api.names import ANNOTATION_ORPHANED_SINCE, ANNOTATION_SLICE, LABEL_SLICE
from iris_operator.api.nodepool import NodePool
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.plan.slices.node_pool_state import is_ours
from iris_operator.simulation.memory import Memory
from iris_operator.simulation.pace import Pace

SLICE, TASK, PLACE, WORKER, ORPHANS = "slice", "task", "place", "worker", "orphans"

Routed = tuple[str, str, float]


def route(
    found: Resource, before: Resource | None, after: Resource | None, memory: Memory, pace: Pace
) -> Iterator[Routed]:
    """(kind, name, delay in seconds) to reconcile after `before` became `after`; `found` is whichever there is."""
    if isinstance(found, Task):
        yield from _task(found, before, pace)
    elif isinstance(found, Slice):
        yield from _slice(found, before, after, pace)
    elif isinstance(found, NodePool):
        yield from _pool(found, after, memory)
    elif isinstance(found, Node):
        if not isinstance(before, Node) or after is None or before.status != found.status:
            yield from _node(found, after, memory)
    elif isinstance(found, Pod):
        yield from _pod(found, after, memory)
    elif isinstance(found, Lease):
        yield SLICE, f"{found.metadata.namespace}/{found.metadata.labels.get(LABEL_SLICE, '')}", 0
    elif isinstance(found, ScaleGroup | IrisCluster):
        yield PLACE, found.metadata.namespace, 0


def _slice(found: Slice, before: Resource | None, after: Resource | None, pace: Pace) -> Iterator[Routed]:
    counted = isinstance(before, Slice) and after is not None and _room(before) == _room(found)
    if not counted or not pace.fleet_seconds:  # our own count of Tasks needs no second look
        yield SLICE, found.key, 0
    yield PLACE, found.metadata.namespace, pace.fleet_seconds if counted else 0
    if after is None and found.status.node_pool_name:
        yield ORPHANS, "", 1.0


def _room(found: Slice) -> tuple[object, ...]:
    """What placement looks at: a mere count of Tasks changes nothing for it."""
    return found.status.phase, found.status.nodes_ready, found.spec.availability, found.deleting


def _pool(pool: NodePool, after: Resource | None, memory: Memory) -> Iterator[Routed]:
    owner = pool.metadata.annotations.get(ANNOTATION_SLICE)
    if not owner:
        return
    yield SLICE, owner, 0
    found = memory.get(Slice, owner)
    marked = ANNOTATION_ORPHANED_SINCE in pool.metadata.annotations
    if after is not None and (found is None or not is_ours(pool, found) or marked):
        yield ORPHANS, "", 0


def _task(task: Task, before: Resource | None, pace: Pace) -> Iterator[Routed]:
    namespace = task.metadata.namespace
    ended = task.ended
    if isinstance(before, Task) and before.spec.binding is not None:
        yield SLICE, f"{namespace}/{before.spec.binding.slice_name}", pace.counts_seconds
    if task.spec.binding is None:
        if task.deleting and task.metadata.finalizers:
            yield TASK, task.key, 0
        if not ended:
            yield PLACE, namespace, 0
        return
    yield TASK, task.key, 0
    yield SLICE, f"{namespace}/{task.spec.binding.slice_name}", pace.counts_seconds
    if ended or task.deleting:
        yield PLACE, namespace, 0


def _node(node: Node, after: Resource | None, memory: Memory) -> Iterator[Routed]:
    """Its slice, and when it is gone the worker Pods that it held."""
    owner = memory.owner_of(node)
    if owner is None:
        return
    yield SLICE, owner.key, 0
    if after is None:
        for pod in memory.workers_of(owner).values():
            if pod.deleting and pod.spec.node_name == node.metadata.name:
                yield WORKER, pod.key, 0


def _pod(pod: Pod, after: Resource | None, memory: Memory) -> Iterator[Routed]:
    owner = f"{pod.metadata.namespace}/{pod.metadata.labels.get(LABEL_SLICE, '')}"
    yield SLICE, owner, 0
    if pod.deleting:
        yield WORKER, pod.key, 0
    if after is None:  # gone: its Tasks are lost
        found = memory.get(Slice, owner)
        for task in memory.tasks_on(found) if found is not None else memory.open_tasks():
            if task.spec.binding is not None and task.spec.binding.worker_uid == pod.metadata.uid:
                yield TASK, task.key, 0
