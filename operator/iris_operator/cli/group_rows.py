"""ScaleGroups as `iris group` and `iris why` show them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.cli.output import age
from iris_operator.plan.text import clock, duration

COLUMNS = ("NAME", "READY", "BOOTING", "FAILED", "IDLE", "BOUNDS", "DEMAND", "BLOCKED", "LAST DECISION")
DECISION_COLUMNS = ("WHEN", "ACTION", "REASON", "MESSAGE")

_ADVICE = {
    "OverQuota": "Ask CoreWeave for more quota of this instance type, or lower other groups' maxSlices.",
    "NoCapacity": "CoreWeave has no such node free: nothing to do but wait, or add a group of another instance type.",
    "InvalidRequest": "CoreWeave refuses the template as it stands: correct spec.template; it is tried again then.",
    "Internal": "CoreWeave reports a fault of its own: when it lasts, tell its support.",
    "Slow": "Nodes are not Ready in time: kubectl describe nodepools; timeouts.bootSeconds of the IrisCluster is the bound.",
    "SlicesDieYoung": "Slices are lost soon after they became Ready: look at the nodes, or at the node image.",
}


def row(group: ScaleGroup, now: datetime) -> list[str]:
    """One line of `iris group list`."""
    status = group.status
    last = status.decisions[0] if status.decisions else None
    return [
        group.metadata.name,
        str(status.ready),
        str(status.booting),
        str(status.failed),
        str(status.idle),
        bounds(group),
        str(status.demand),
        blocked(group),
        f"{last.action} {age(last.time, now)} ago: {last.message}" if last else status.message,
    ]


def bounds(group: ScaleGroup) -> str:
    """minSlices and maxSlices as they are wanted now, and the spares."""
    spec = group.spec
    return f"{spec.min_slices}-{spec.max_slices}" + (f" +{spec.buffer_slices}" if spec.buffer_slices else "")


def blocked(group: ScaleGroup) -> str:
    """Why launches are held back, and until when; empty when they are not."""
    backoff = group.status.backoff
    if backoff is None:
        return ""
    if backoff.until is None:
        return f"{backoff.reason} until its spec changes" if backoff.reason == "InvalidRequest" else str(backoff.reason)
    return f"{backoff.reason} until {clock(backoff.until)}"


def boots(group: ScaleGroup) -> str:
    """What its last boots took: `5 boots: 17 min to 22 min, the last 18 min`; empty when there was none."""
    seconds = [one.seconds for one in group.status.recent_boots]
    if not seconds:
        return ""
    if len(seconds) == 1:
        return f"1 boot: {duration(seconds[0])}"
    span = f"{duration(min(seconds))} to {duration(max(seconds))}"
    return f"{len(seconds)} boots: {span}, the last {duration(seconds[0])}"


def facts(group: ScaleGroup) -> list[tuple[str, str]]:
    """Name and value, for people."""
    spec, status = group.spec, group.status
    found = [
        ("instance type", spec.template.spec.instance_type),
        (
            "slices",
            f"{status.ready} ready, {status.idle} of them idle, {status.booting} booting, {status.failed} failed",
        ),
        ("bounds", f"{bounds(group)} (minSlices-maxSlices{', and spares' if spec.buffer_slices else ''})"),
        ("demand", f"{status.demand} more slices for waiting Tasks"),
        ("boots", boots(group)),
        ("losses", f"{status.losses}, and {status.spot_losses} spot" if status.losses or status.spot_losses else ""),
    ]
    if status.backoff is not None:
        words = f"{blocked(group)}, after {status.backoff.failures} in a row"
        found.append(("blocked", f"{words}: {status.backoff.message}" if status.backoff.message else words))
    if status.decisions:
        last = status.decisions[0]
        found.append(("last decision", f"{last.action}, {last.reason}: {last.message}"))
    return [(name, value) for name, value in found if value]


def advice(group: ScaleGroup) -> list[str]:
    """What a person may do next."""
    lines = []
    backoff = group.status.backoff
    if backoff is not None and str(backoff.reason) in _ADVICE:
        lines.append(_ADVICE[str(backoff.reason)])
    if group.status.demand and group.status.slices >= group.spec.max_slices:
        lines.append(f"It is at its bound: iris group scale {group.metadata.name} --max {group.spec.max_slices + 1}")
    if group.status.decisions:
        lines.append(f"iris group decisions {group.metadata.name}")
    return lines


def decision_rows(group: ScaleGroup, now: datetime) -> list[Sequence[str]]:
    """The last decisions, newest first."""
    return [
        (f"{age(one.time, now)} ago", one.action, one.reason, one.message.replace("\n", " "))
        for one in group.status.decisions
    ]


def data(group: ScaleGroup) -> dict[str, Any]:
    """For programs; names as in the API."""
    spec, status = group.spec, group.status.wire()
    names = ("slices", "ready", "booting", "failed", "idle", "demand", "losses", "spotLosses", "message")
    return {
        "name": group.metadata.name,
        "namespace": group.metadata.namespace,
        "minSlices": spec.min_slices,
        "maxSlices": spec.max_slices,
        "bufferSlices": spec.buffer_slices,
        "priority": spec.priority,
        **{name: status.get(name) for name in names},
        "backoff": status.get("backoff"),
        "recentBoots": status.get("recentBoots", []),
        "decisions": status.get("decisions", []),
    }
