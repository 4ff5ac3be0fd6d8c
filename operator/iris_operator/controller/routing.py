"""Which reconcilers a change concerns. Pure: (kind, object, before, cache) -> keys with delays in seconds."""

from __future__ import annotations

from collections.abc import Iterator

from iris_operator.api.base import Resource
from iris_operator.api.core import CertificateSigningRequest, EndpointSlice, Lease, Node, Pod
from iris_operator.api.machine import is_machine
from iris_operator.api.names import (
    ANNOTATION_AGENT_PROBLEM,
    ANNOTATION_DISK_PRESSURE,
    ANNOTATION_MACHINE,
    ANNOTATION_ORPHANED_SINCE,
    ANNOTATION_SLICE,
    GPU_RESOURCE,
    LABEL_SLICE,
    LABEL_SLICE_ID,
    RDMA_RESOURCE,
)
from iris_operator.api.nodepool import NodePool
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.controller.cache import Cache, owner_task
from iris_operator.controller.workqueue import Key
from iris_operator.plan.slices.node_pool_state import is_ours
from iris_operator.ports.kube import IRIS_CLUSTERS, SCALE_GROUPS, Kind

# PLACE is a namespace's one pass over Tasks and groups: so nothing is bound in the middle of a scale-down.
SLICE, TASK, CLUSTER, PLACE = "slice", "task", "cluster", "place"
WORKER, ORPHANS, ENDPOINT = "worker", "orphans", "endpoint"
# AUTHORITY is the one pass over the authority, the gateway's certificate and its APIService.
REQUEST, AUTHORITY = "request", "authority"
# REPLICAS is a Task of several replicas, with all its members.
REPLICAS = "replicas"

# Counts on a Slice and an IrisCluster follow many Tasks: one write for all changes of so long.
_SLICE_COUNTS_SECONDS = 1.0
_CLUSTER_COUNTS_SECONDS = 3.0
# A vendor, a kubelet and a scheduler tell of each small step: what is no news for the phase waits for the next that is.
_SMALL_STEPS_SECONDS = 1.0
# Members do most things at about the same time: their Task looks once.
_MEMBERS_SECONDS = 0.1

Routed = tuple[Key, float]


def route(kind: Kind, found: Resource, before: Resource | None, cache: Cache) -> Iterator[Routed]:
    """Keys to reconcile after `found` (new, changed or gone) took the place of `before`."""
    if isinstance(found, Task):
        yield from _route_task(found, before)
    elif isinstance(found, Slice):
        yield from _route_slice(found, before, cache)
    elif isinstance(found, NodePool):
        yield from _route_pool(found, before, cache)
    elif isinstance(found, Node):
        yield from _route_node(found, before, cache)
    elif isinstance(found, Pod):
        yield from _route_pod(found, before, cache)
    else:
        yield from _route_others(kind, found, before, cache)


def _route_others(kind: Kind, found: Resource, before: Resource | None, cache: Cache) -> Iterator[Routed]:
    namespace = found.metadata.namespace
    if isinstance(found, Lease):
        owner = found.metadata.labels.get(LABEL_SLICE)
        gone = is_machine(found) and found.key not in cache.leases
        if owner and (gone or _lease_changed(found, before)):
            yield Key(SLICE, f"{namespace}/{owner}"), 0
            yield from _route_machine(found, cache)
    elif isinstance(found, EndpointSlice):
        if owner_task(found):
            yield Key(ENDPOINT, owner_task(found)), 0
    elif isinstance(found, CertificateSigningRequest):
        if found.key in cache.requests and not found.status.certificate:
            yield Key(REQUEST, found.key), 0
    elif kind is SCALE_GROUPS:
        if _group_changed(found, before, cache):
            yield Key(PLACE, namespace), 0
    elif kind is IRIS_CLUSTERS:
        yield from _route_cluster(found, before, cache)


def _route_slice(found: Slice, before: Resource | None, cache: Cache) -> Iterator[Routed]:
    namespace = found.metadata.namespace
    gone = cache.slices.get(found.key) is None
    if gone and found.status.node_pool_name:
        yield Key(ORPHANS, ""), _SMALL_STEPS_SECONDS
    yield Key(SLICE, found.key), 0
    yield Key(PLACE, namespace), 0
    # Most of a busy slice's changes are its counts of Tasks.
    news = gone or not isinstance(before, Slice) or before.status.phase is not found.status.phase
    yield Key(CLUSTER, namespace), _CLUSTER_COUNTS_SECONDS / 6 if news else _CLUSTER_COUNTS_SECONDS


def _group_changed(found: Resource, before: Resource | None, cache: Cache) -> bool:
    """Not by our own status."""
    if before is None or cache.groups.get(found.key) is None:
        return True
    return before.metadata.generation != found.metadata.generation or before.deleting != found.deleting


def _route_task(task: Task, before: Resource | None) -> Iterator[Routed]:
    namespace = task.metadata.namespace
    yield Key(CLUSTER, namespace), _CLUSTER_COUNTS_SECONDS
    if task.spec.service_name:
        yield Key(ENDPOINT, task.key), 0
    ended = task.ended
    if task.metadata.owner_references or task.spec.replicas > 1:
        yield from _route_replicas(task)
    if task.spec.binding is None:
        if isinstance(before, Task) and before.spec.binding is not None:  # it has left that slice
            yield Key(SLICE, f"{namespace}/{before.spec.binding.slice_name}"), 0
        if task.deleting and task.metadata.finalizers:
            yield Key(TASK, task.key), 0
        if not ended:
            yield Key(PLACE, namespace), 0
        return
    yield Key(TASK, task.key), 0
    yield Key(SLICE, f"{namespace}/{task.spec.binding.slice_name}"), _SLICE_COUNTS_SECONDS
    ranked = isinstance(before, Task) and before.spec.priority != task.spec.priority
    if ended or task.deleting or ranked:
        yield Key(PLACE, namespace), 0


def _route_replicas(task: Task) -> Iterator[Routed]:
    """The Task of several replicas that it is, or is a member of."""
    namespace = task.metadata.namespace
    if task.spec.replicas > 1:
        yield Key(REPLICAS, task.key), 0
    for owner in task.metadata.owner_references:
        if owner.controller and owner.kind == Task.KIND:
            yield Key(REPLICAS, f"{namespace}/{owner.name}"), 0 if task.deleting else _MEMBERS_SECONDS


def _route_node(node: Node, before: Resource | None, cache: Cache) -> Iterator[Routed]:
    identity = node.metadata.labels.get(LABEL_SLICE_ID)
    if not identity:
        return
    if cache.nodes.get(node.key) is None:
        for pod in cache.pods.values():
            if pod.deleting and pod.spec.node_name == node.metadata.name:
                yield Key(WORKER, pod.key), 0
    elif isinstance(before, Node) and before.status == node.status and before.spec == node.spec:
        return
    owner = cache.slice_by_id(identity)
    if owner:
        here = cache.nodes.get(node.key) is not None
        small = here and isinstance(before, Node) and _node_stage(before) == _node_stage(node)
        yield Key(SLICE, owner), _SMALL_STEPS_SECONDS if small else 0


def _node_stage(node: Node) -> tuple[object, ...]:
    devices = (node.status.allocatable.get(name) for name in (GPU_RESOURCE, RDMA_RESOURCE))
    return node.ready, node.deleting, *devices


def _route_pool(pool: NodePool, before: Resource | None, cache: Cache) -> Iterator[Routed]:
    owner = pool.metadata.annotations.get(ANNOTATION_SLICE)
    if not owner:
        return
    here = cache.node_pools.get(pool.key) is not None
    small = here and isinstance(before, NodePool) and not pool.deleting and not _refused(pool) and not _refused(before)
    yield Key(SLICE, owner), _SMALL_STEPS_SECONDS if small else 0
    found = cache.slices.get(owner)
    if here and (found is None or not is_ours(pool, found) or ANNOTATION_ORPHANED_SINCE in pool.metadata.annotations):
        yield Key(ORPHANS, ""), 0


def _refused(pool: NodePool) -> bool:
    return any(one.status == "False" and one.type != "AtTarget" for one in pool.status.conditions)


def _route_pod(pod: Pod, before: Resource | None, cache: Cache) -> Iterator[Routed]:
    owner = pod.metadata.labels.get(LABEL_SLICE)
    if not owner:
        return
    here = cache.pods.get(pod.key) is not None
    small = here and isinstance(before, Pod) and _pod_stage(before) == _pod_stage(pod)
    yield Key(SLICE, f"{pod.metadata.namespace}/{owner}"), _SMALL_STEPS_SECONDS if small else 0
    if pod.deleting:
        yield Key(WORKER, pod.key), 0
    if cache.pods.get(pod.key) is None:  # gone: its Tasks are lost
        for task in cache.tasks.values():
            binding = task.spec.binding
            if binding is not None and binding.worker_uid == pod.metadata.uid:
                yield Key(TASK, task.key), 0


def _route_machine(lease: Lease, cache: Cache) -> Iterator[Routed]:
    """A machine that is gone, or another in its place: its Tasks are lost."""
    if is_machine(lease):
        for task in cache.tasks_on(lease.metadata.namespace, lease.metadata.labels.get(LABEL_SLICE, "")):
            yield Key(TASK, task.key), 0


def _pod_stage(pod: Pod) -> tuple[object, ...]:
    return pod.ready, pod.ended, pod.deleting


_TOLD = (ANNOTATION_AGENT_PROBLEM, ANNOTATION_DISK_PRESSURE, ANNOTATION_MACHINE)


def _lease_changed(found: Lease, before: Resource | None) -> bool:
    """A mere renewal is no news; the slice looks again when the Lease would be stale."""
    if not isinstance(before, Lease) or before.spec.renew_time is None or found.spec.renew_time is None:
        return True
    late = (found.spec.renew_time - before.spec.renew_time).total_seconds() > 15
    said, told = found.metadata.annotations, before.metadata.annotations
    return (
        late
        or before.spec.holder_identity != found.spec.holder_identity
        or any(said.get(one) != told.get(one) for one in _TOLD)
    )


def _route_cluster(found: Resource, before: Resource | None, cache: Cache) -> Iterator[Routed]:
    namespace = found.metadata.namespace
    yield Key(CLUSTER, namespace), 0
    if before is not None and before.metadata.generation == found.metadata.generation:
        return
    yield Key(PLACE, namespace), 0
    for owner in cache.slices.values():
        if owner.metadata.namespace == namespace:
            yield Key(SLICE, owner.key), 0
