"""Whether the agent on a node can take Tasks, and how it is ended when its node is no more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from iris_operator.api.core import Lease, Pod
from iris_operator.api.names import ANNOTATION_AGENT_PROBLEM
from iris_operator.plan.actions import DeleteWorker
from iris_operator.plan.slices.snapshot import SliceView
from iris_operator.plan.text import clock

# Kubernetes' own word for a node that nobody has heard of for too long.
NODE_STATUS_UNKNOWN = "NodeStatusUnknown"


@dataclass(frozen=True)
class WorkerProblem:
    """Why a worker can't take Tasks."""

    reason: str
    message: str


def worker_problem(pod: Pod, lease: Lease | None, lease_seconds: int, now: datetime) -> WorkerProblem | None:
    """What is wrong with a worker; None when it can take Tasks."""
    name = pod.metadata.name
    renewed = lease.spec.renew_time if lease is not None and lease.spec.holder_identity == pod.metadata.uid else None
    if lease is not None and renewed is not None and (now - renewed).total_seconds() > lease_seconds:
        # before the Pod's own words: a kubelet that is dead leaves the last good ones standing
        words = f"the agent in {name} has been silent since {clock(renewed)} (limit {lease_seconds}s)"
        return WorkerProblem(NODE_STATUS_UNKNOWN, words)
    problem = lease.metadata.annotations.get(ANNOTATION_AGENT_PROBLEM, "") if lease is not None and renewed else ""
    if problem:  # it knows more than its Pod, which only isn't ready
        return WorkerProblem("AgentProblem", problem)
    if not pod.ready:
        return WorkerProblem("WorkerNotReady", f"worker Pod {name}: {pod.why_not_ready}")
    if renewed is None:
        return WorkerProblem("AgentNotRegistered", f"the agent in {name} has not registered yet")
    return None


def end_by_force(pod: Pod) -> DeleteWorker | None:
    """To end a worker whose node is gone, so that no kubelet will; None when that was asked for already."""
    asked = pod.deleting and pod.metadata.deletion_grace_period_seconds == 0
    return None if asked else DeleteWorker(pod, force=True)


def lease_expires_in(view: SliceView, lease_seconds: int, now: datetime) -> float | None:
    """Seconds until the first Lease of the slice that is still fresh would be stale; None when there is none."""
    ages = [
        (now - lease.spec.renew_time).total_seconds()
        for lease in view.leases.values()
        if lease.spec.renew_time is not None
    ]
    left = [lease_seconds - age for age in ages if age <= lease_seconds]
    return min(left) + 1 if left else None
