"""What an IrisCluster tells of its installation, and whether it may be deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from iris_operator.api.cluster import AgentVersion, IrisCluster, IrisClusterStatus, PhaseCounts, SliceCounts
from iris_operator.api.quantity import plus, to_quantities
from iris_operator.api.slice import Slice, SlicePhase
from iris_operator.api.task import Task, TaskPhase
from iris_operator.plan.conditions import set_condition, status_of
from iris_operator.plan.placement.placement import Slot
from iris_operator.plan.text import count, names_text


@dataclass(frozen=True)
class NodePoolAccess:
    """Whether the NodePool API answers and may be used."""

    usable: bool
    reason: str
    message: str


def plan_cluster_status(
    cluster: IrisCluster,
    slices: list[Slice],
    tasks: Iterable[Task],
    slots: Iterable[Slot],
    access: NodePoolAccess,
    version: str,
    now: datetime,
) -> IrisClusterStatus:
    """The status of one IrisCluster; `slices`, `tasks` and `slots` are those under it."""
    generation = cluster.metadata.generation
    capacity: dict[str, int] = {}
    free: dict[str, int] = {}
    for slot in slots:
        capacity = plus(capacity, slot.capacity)
        free = plus(free, slot.free)
    conditions = set_condition(
        cluster.status.conditions,
        "NodePoolAPI",
        status_of(access.usable),
        access.reason,
        access.message,
        generation=generation,
        now=now,
    )
    ready, reason, message = _readiness(cluster, slices, access)
    conditions = set_condition(conditions, "Ready", status_of(ready), reason, message, generation=generation, now=now)
    changed = cluster.status.observed_generation != generation
    agents = Counter(node.agent_version for one in slices for node in one.status.nodes if node.agent_version)
    return IrisClusterStatus(
        observed_generation=generation,
        conditions=conditions,
        slices=SliceCounts(
            total=len(slices),
            ready=sum(one.status.phase is SlicePhase.READY for one in slices),
            failed=sum(one.status.phase is SlicePhase.FAILED for one in slices),
        ),
        tasks=_phases(tasks),
        capacity=to_quantities(capacity),
        free=to_quantities(free),
        agents=[AgentVersion(version=name, count=number) for name, number in sorted(agents.items())],
        operator_version=version,
        last_settings_change=now.replace(microsecond=0) if changed else cluster.status.last_settings_change,
    )


def _readiness(cluster: IrisCluster, slices: list[Slice], access: NodePoolAccess) -> tuple[bool, str, str]:
    if cluster.deleting:
        if slices:
            names = names_text(sorted(one.metadata.name for one in slices))
            return (
                False,
                "WaitingForSlices",
                f"is being deleted; waits for {count(len(slices), 'slice')}: {names}: delete them",
            )
        return False, "Deleted", "is being deleted"
    if not access.usable:
        return False, access.reason, access.message
    if not cluster.spec.images.agent:
        return False, "AgentImageMissing", "spec.images.agent is empty: slices can't get workers"
    return True, "Ready", "slices can be made"


def _phases(tasks: Iterable[Task]) -> PhaseCounts:
    counts = Counter(_bucket(task) for task in tasks if task.spec.replicas == 1)  # the others stand for their members
    return PhaseCounts(
        pending=counts["pending"], running=counts["running"], succeeded=counts["succeeded"], failed=counts["failed"]
    )


def _bucket(task: Task) -> str:
    if task.status.phase is TaskPhase.SUCCEEDED:
        return "succeeded"
    if task.ended:
        return "failed"
    return "pending" if task.spec.binding is None else "running"
