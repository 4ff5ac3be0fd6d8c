"""What `iris why` says of a Slice beyond its Ready condition. Pure."""

from __future__ import annotations

from iris_operator.api.base import Condition
from iris_operator.api.slice import Availability, FailureKind, Slice
from iris_operator.plan.text import clock, duration

_ADVICE = {
    FailureKind.OVER_QUOTA: "Ask CoreWeave for more quota of this instance type, or delete slices you don't need.",
    FailureKind.NO_CAPACITY: "CoreWeave has no such node free: make a slice of another instance type, or wait.",
    FailureKind.INVALID_REQUEST: "CoreWeave refuses it as it stands: delete it and make another with a correct spec.",
    FailureKind.INTERNAL: "CoreWeave reports a fault of its own: when it lasts, tell its support.",
    FailureKind.SLOW: "It was not ready in time; timeouts.bootSeconds and initSeconds of the IrisCluster are the bounds.",
    FailureKind.NODE_UNFIT: "A node came without what was ordered: tell CoreWeave's support its name.",
    FailureKind.NODE_LOST: "A node was lost for longer than spec.repair.delaySeconds; its Tasks run elsewhere.",
}


def facts(found: Slice) -> list[tuple[str, str]]:
    """Name and value, for people."""
    spec, status = found.spec, found.status
    rows = [("instance type", spec.instance_type), ("nodes ready", status.nodes_ready or "0")]
    if spec.scale_group_name:
        rows.append(("group", spec.scale_group_name))
    if status.node_pool_name:
        rows.append(("node pool", status.node_pool_name))
    rows.append(("tasks", str(status.tasks)))
    if spec.availability is not Availability.SCHEDULABLE:
        rows.append(("takes tasks", f"no: spec.availability is {spec.availability.value}"))
    if spec.hold_until is not None:
        rows.append(("held until", f"{spec.hold_until:%Y-%m-%d} {clock(spec.hold_until)}"))
    if status.boot_seconds is not None:
        rows.append(("booted in", duration(status.boot_seconds)))
    if status.failure is not None:
        rows.append(("failure", status.failure.value))
    for node in status.nodes:
        words = "ready" if node.ready else node.message or "not ready"
        lost = f", lost since {clock(node.lost_since)}" if node.lost_since else ""
        rows.append((f"rank {node.rank}", f"{node.name or 'no node yet'}: {words}{lost}"))
    return rows


def advice(found: Slice, ready: Condition | None) -> list[str]:
    """What a person may do next."""
    name, status = found.metadata.name, found.status
    lines = [_ADVICE[status.failure]] if status.failure is not None else []
    if status.node_pool_name and (ready is None or ready.status != "True"):
        lines.append(f"kubectl describe nodepool {status.node_pool_name}")
    if found.spec.availability is not Availability.SCHEDULABLE and not found.deleting:
        lines.append(f"iris slice uncordon {name}   (to have it take Tasks again)")
    if found.deleting and any(one.type == "Deleted" and one.status == "False" for one in status.conditions):
        lines.append("Its NodePool does not go; Iris tries on. CoreWeave's support can delete it by hand.")
    return lines
