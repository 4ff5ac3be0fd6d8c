"""The nodes of a slice, rank by rank: what each waits for, and the worker Pods to make or end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from iris_operator.api.cluster import IrisClusterSpec
from iris_operator.api.core import Node, Pod
from iris_operator.api.names import ANNOTATION_AGENT_VERSION, ANNOTATION_DISK_PRESSURE, worker_pod_name
from iris_operator.api.quantity import to_quantities
from iris_operator.api.slice import SliceNode
from iris_operator.plan.actions import CreateWorker, DeleteWorker
from iris_operator.plan.slices.node_fitness import NodeProblem, node_problem
from iris_operator.plan.slices.ranks import assign_ranks
from iris_operator.plan.slices.snapshot import SliceView
from iris_operator.plan.slices.topology import topology
from iris_operator.plan.slices.worker_health import end_by_force, worker_problem
from iris_operator.plan.slices.worker_size import task_capacity

_SHOWN = 5


@dataclass(frozen=True)
class NodeReport:
    """One rank: its status, whether its node (not yet its agent) is fit, and what to do about its worker.

    `reason`: why it isn't ready, as one word; empty when it is. `unfit_since`: since when at the earliest its node has
    been Ready without what was ordered.
    """

    status: SliceNode
    node_fit: bool
    reason: str = ""
    unfit: bool = False
    unfit_since: datetime | None = None
    action: CreateWorker | DeleteWorker | None = None


def report_nodes(view: SliceView, settings: IrisClusterSpec, now: datetime) -> list[NodeReport]:
    """A report per rank, 0 to nodeCount - 1."""
    ranks = assign_ranks(view.nodes, _known_ranks(view), view.slice.spec.node_count)
    before = {node.rank: node for node in view.slice.status.nodes}
    return [
        _with_loss(_report(view, settings, rank, ranks.get(rank), now), before.get(rank), now)
        for rank in range(view.slice.spec.node_count)
    ]


def _with_loss(report: NodeReport, before: SliceNode | None, now: datetime) -> NodeReport:
    """Since when a node that was ready is not; until it, or another in its place, is ready again."""
    if report.status.ready or before is None:
        return report
    since = before.lost_since or (now.replace(microsecond=0) if before.ready else None)
    # the name of a lost node is kept: should it come back, it gets its own rank back, not the lowest that is free
    status = report.status.model_copy(update={"lost_since": since}) if since else report.status
    if before.name and not status.name:
        gone = f"node {before.name} is gone, waits for it or another"
        status = status.model_copy(update={"name": before.name, "message": gone})
    return replace(report, status=status)


def waiting_text(messages: Iterable[str]) -> str:
    """What nodes wait for, one line; of many only the first, as a condition's message is bounded."""
    said = [message for message in messages if message]
    more = f" and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return "; ".join(said[:_SHOWN]) + more


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
        orphaned = pod is not None and pod.spec.node_name and pod.spec.node_name not in view.node_names
        gone = end_by_force(pod) if pod is not None and orphaned else None
        return NodeReport(SliceNode(rank=rank, message="waits for its node"), False, "NodeMissing", action=gone)
    problem = node_problem(node, view.slice.spec.gpus_per_node, view.slice.spec.infiniband)
    if pod is None:
        return _without_worker(settings, rank, node, problem)
    if pod.deleting or pod.ended or (pod.spec.node_name and pod.spec.node_name != node.metadata.name):
        return _worker_leaves(view, rank, node, pod, problem)
    return _with_worker(view, settings, rank, node, pod, problem, now)


def _without_worker(settings: IrisClusterSpec, rank: int, node: Node, problem: NodeProblem | None) -> NodeReport:
    if problem:
        return _node_report(node, _status(rank, node, message=problem.message), problem)
    if not settings.images.agent:
        status = _status(rank, node, message="IrisCluster names no spec.images.agent")
        return NodeReport(status, True, "AgentImageMissing")
    status = _status(rank, node, message="its worker Pod is being made")
    return NodeReport(status, True, "CreatingWorker", action=CreateWorker(rank, node))


def _worker_leaves(view: SliceView, rank: int, node: Node, pod: Pod, problem: NodeProblem | None) -> NodeReport:
    dead = bool(pod.spec.node_name) and pod.spec.node_name not in view.node_names
    end = None if pod.deleting else DeleteWorker(pod)
    action = end_by_force(pod) if dead else end
    message = "its worker Pod is being replaced"
    status = _status(rank, node, worker_pod=pod.metadata.name, message=message)
    return _node_report(node, status, problem, reason="ReplacingWorker", action=action)


def _with_worker(
    view: SliceView,
    settings: IrisClusterSpec,
    rank: int,
    node: Node,
    pod: Pod,
    problem: NodeProblem | None,
    now: datetime,
) -> NodeReport:
    lease = view.leases.get(pod.metadata.name)
    found = problem or worker_problem(pod, lease, settings.timeouts.agent_lease_seconds, now)
    status = _status(
        rank,
        node,
        ready=found is None,
        worker_pod=pod.metadata.name,
        worker_uid=pod.metadata.uid,
        agent_version=lease.metadata.annotations.get(ANNOTATION_AGENT_VERSION, "") if lease else "",
        message=found.message if found else "",
        refuses=lease.metadata.annotations.get(ANNOTATION_DISK_PRESSURE, "") if lease and not found else "",
        allocatable=to_quantities(task_capacity(pod, settings.worker)),
        **({"address": pod.status.address} if pod.status.address else {}),
    )
    return _node_report(node, status, problem, reason=found.reason if found else "")


def _node_report(
    node: Node,
    status: SliceNode,
    problem: NodeProblem | None,
    *,
    reason: str = "",
    action: CreateWorker | DeleteWorker | None = None,
) -> NodeReport:
    unfit = problem is not None and problem.unfit
    since = (node.ready_since or node.metadata.creation_timestamp) if unfit else None
    return NodeReport(status, problem is None, reason or (problem.reason if problem else ""), unfit, since, action)


def _status(rank: int, node: Node, **fields: object) -> SliceNode:
    found = topology(node)
    # only what is there is set: what is not set is not written
    more = {**fields, **({"topology": found} if found else {})}
    return SliceNode.model_validate({"rank": rank, "name": node.metadata.name, **more})
