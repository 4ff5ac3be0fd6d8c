"""The nodes of a slice, rank by rank: what each waits for, and the worker Pods to make or end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from iris_operator.api.cluster import IrisClusterSpec
from iris_operator.api.core import Lease, Node, Pod
from iris_operator.api.names import (
    ANNOTATION_AGENT_PROBLEM,
    ANNOTATION_AGENT_VERSION,
    GPU_RESOURCE,
    RDMA_RESOURCE,
    worker_pod_name,
)
from iris_operator.api.quantity import amounts, to_quantities
from iris_operator.api.slice import SliceNode
from iris_operator.plan.actions import CreateWorker, DeleteWorker
from iris_operator.plan.ranks import assign_ranks
from iris_operator.plan.snapshot import SliceView
from iris_operator.plan.text import duration
from iris_operator.plan.worker_size import task_capacity


@dataclass(frozen=True)
class NodeReport:
    """One rank: its status, whether its node (not yet its agent) is fit, and what to do about its worker."""

    status: SliceNode
    node_fit: bool
    action: CreateWorker | DeleteWorker | None = None


def report_nodes(view: SliceView, settings: IrisClusterSpec, now: datetime) -> list[NodeReport]:
    """A report per rank, 0 to nodeCount - 1."""
    ranks = assign_ranks(view.nodes, _known_ranks(view), view.slice.spec.node_count)
    return [_report(view, settings, rank, ranks.get(rank), now) for rank in range(view.slice.spec.node_count)]


def stray_workers(view: SliceView) -> Iterator[DeleteWorker]:
    """Worker Pods of this slice that are no rank's."""
    wanted = {worker_pod_name(view.slice.metadata.name, rank) for rank in range(view.slice.spec.node_count)}
    for name, pod in view.pods.items():
        if name not in wanted and not pod.deleting:
            yield DeleteWorker(pod)


def _known_ranks(view: SliceView) -> dict[str, int]:
    """Node name -> rank, by the status and, over it, by the worker Pods that exist."""
    known = {node.name: node.rank for node in view.slice.status.nodes if node.name}
    for rank in range(view.slice.spec.node_count):
        pod = view.pods.get(worker_pod_name(view.slice.metadata.name, rank))
        if pod is not None and pod.spec.node_name:
            known[pod.spec.node_name] = rank
    return known


def _report(view: SliceView, settings: IrisClusterSpec, rank: int, node: Node | None, now: datetime) -> NodeReport:
    name = worker_pod_name(view.slice.metadata.name, rank)
    pod = view.pods.get(name)
    if node is None:
        gone = (
            DeleteWorker(pod, force=True) if pod is not None and pod.spec.node_name and not _stands(view, pod) else None
        )
        return NodeReport(SliceNode(rank=rank, message="waits for its node"), False, gone)
    problem = node_problem(node, view.slice.spec.gpus_per_node, view.slice.spec.infiniband)
    base = {"rank": rank, "name": node.metadata.name}
    if pod is None:
        if problem:
            return NodeReport(SliceNode(**base, message=problem), False)
        if not settings.images.agent:
            return NodeReport(SliceNode(**base, message="IrisCluster names no spec.images.agent"), True)
        return NodeReport(SliceNode(**base, message="its worker Pod is being made"), True, CreateWorker(rank, node))
    if pod.deleting or pod.ended or (pod.spec.node_name and pod.spec.node_name != node.metadata.name):
        dead = bool(pod.spec.node_name) and not _stands(view, pod)  # no kubelet is left to end it
        action = DeleteWorker(pod, force=dead) if dead or not pod.deleting else None
        return NodeReport(
            SliceNode(**base, worker_pod=name, message="its worker Pod is being replaced"), not problem, action
        )
    lease = view.leases.get(name)
    message = problem or worker_problem(pod, lease, settings.timeouts.agent_lease_seconds, now)
    return NodeReport(
        SliceNode(
            **base,
            ready=not message,
            worker_pod=name,
            worker_uid=pod.metadata.uid,
            agent_version=lease.metadata.annotations.get(ANNOTATION_AGENT_VERSION, "") if lease else "",
            message=message,
            allocatable=to_quantities(task_capacity(pod, settings.worker)),
        ),
        not problem,
    )


def _stands(view: SliceView, pod: Pod) -> bool:
    return any(node.metadata.name == pod.spec.node_name for node in view.nodes)


def node_problem(node: Node, gpus: int, infiniband: bool = False) -> str:
    """Why a node isn't fit for a worker; empty when it is."""
    if not node.ready:
        return f"node {node.metadata.name} is not Ready: {node.why_not_ready}"
    offered = amounts({GPU_RESOURCE: node.status.allocatable.get(GPU_RESOURCE, "0")})[GPU_RESOURCE]
    if offered < gpus:
        return f"node {node.metadata.name} offers {offered} of {gpus} GPUs ({GPU_RESOURCE})"
    if infiniband and not amounts({RDMA_RESOURCE: node.status.allocatable.get(RDMA_RESOURCE, "0")})[RDMA_RESOURCE]:
        return f"node {node.metadata.name} offers no InfiniBand ({RDMA_RESOURCE})"
    return ""


def worker_problem(pod: Pod, lease: Lease | None, lease_seconds: int, now: datetime) -> str:
    """Why a worker can't take Tasks; empty when it can."""
    if not pod.ready:
        return f"worker Pod {pod.metadata.name}: {pod.why_not_ready}"
    if lease is None or lease.spec.renew_time is None or lease.spec.holder_identity != pod.metadata.uid:
        return f"the agent in {pod.metadata.name} has not registered yet"
    silent = (now - lease.spec.renew_time).total_seconds()
    if silent > lease_seconds:
        return f"the agent in {pod.metadata.name} has been silent for {duration(silent)} (limit {lease_seconds}s)"
    return lease.metadata.annotations.get(ANNOTATION_AGENT_PROBLEM, "")


def lease_expires_in(view: SliceView, lease_seconds: int, now: datetime) -> float | None:
    """Seconds until the first Lease of the slice that is still fresh would be stale; None when there is none."""
    ages = [
        (now - lease.spec.renew_time).total_seconds()
        for lease in view.leases.values()
        if lease.spec.renew_time is not None
    ]
    left = [lease_seconds - age for age in ages if age <= lease_seconds]
    return min(left) + 1 if left else None
