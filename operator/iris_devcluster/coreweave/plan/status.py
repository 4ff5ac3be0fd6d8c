"""A NodePool's status as the vendor writes it. Names and their sources: docs/coreweave-nodepool.md."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from iris_devcluster.coreweave.model import Pool
from iris_devcluster.coreweave.plan.allocation import Grant


@dataclass(frozen=True)
class Counts:
    """Machines of a NodePool, after the plan's own assignments."""

    current: int
    in_progress: int
    going: int = 0
    per_rack: int = 0


@dataclass(frozen=True)
class Verdict:
    """One condition without its time."""

    type: str
    status: str
    reason: str
    message: str


def status_of(pool: Pool, grant: Grant, counts: Counts, now: datetime) -> dict[str, Any]:
    """The whole status; times of conditions that did not change are kept."""
    profile, pending = _profile(pool, holds=counts.current + counts.in_progress > 0)
    status: dict[str, Any] = {
        "currentNodes": counts.current,
        "inProgress": counts.in_progress,
        "queuedNodes": max(0, grant.target - counts.current - counts.in_progress),
        "nodeProfile": profile,
        "pendingNodeConfiguration": pending,
        "rackStatus": _racks(grant, counts) if pool.target_racks is not None else None,
        "conditions": _conditions(pool, verdicts(pool, grant, counts), now),
    }
    return status


def verdicts(pool: Pool, grant: Grant, counts: Counts) -> list[Verdict]:
    """What holds now."""
    if grant.invalid:
        unknown = "Node Pool is not valid"
        return [
            Verdict("Validated", "False", "Invalid", grant.invalid),
            Verdict("Quota", "Unknown", "QuotaUnknown", unknown),
            Verdict("Capacity", "Unknown", "CapacityUnknown", unknown),
            _at_target(grant, counts),
        ]
    found = [
        Verdict("Validated", "True", "Valid", "Node Pool configuration is valid"),
        _quota(pool, grant),
        _capacity(pool, grant),
        _at_target(grant, counts),
    ]
    if pool.deleting:
        left = counts.going
        text = f"{left} nodes are being removed" if left else "all nodes are removed"
        found.append(Verdict("NodesRemoved", "False" if left else "True", "Pending" if left else "Complete", text))
    return found


def _quota(pool: Pool, grant: Grant) -> Verdict:
    if grant.over_quota and grant.quota == 0:
        return Verdict("Quota", "False", "NotSet", f"quota limit is 0 for instance type {pool.instance_type}")
    if grant.over_quota:
        text = f"nodePool is over quota for instance type {pool.instance_type}: quota limit is {grant.quota}"
        return Verdict("Quota", "False", "Over", text)
    return Verdict("Quota", "True", "Under", f"nodePool is under quota for instance type {pool.instance_type}")


def _capacity(pool: Pool, grant: Grant) -> Verdict:
    if grant.waiting:
        text = f"{grant.waiting} of {grant.target} nodes wait for capacity of instance type {pool.instance_type}"
        return Verdict("Capacity", "False", "QueuedAwaitingCapacity", text)
    if grant.over_quota:
        return Verdict("Capacity", "Unknown", "CapacityUnknown", "capacity is not looked at beyond the quota")
    return Verdict("Capacity", "True", "Sufficient", "there is capacity for the target")


def _at_target(grant: Grant, counts: Counts) -> Verdict:
    text = f"{counts.current} of {grant.target} nodes"
    if counts.current == grant.target and not counts.in_progress:
        return Verdict("AtTarget", "True", "TargetMet", text)
    over = counts.current > grant.target
    return Verdict("AtTarget", "False", "OverTarget" if over else "UnderTarget", text)


def _conditions(pool: Pool, found: list[Verdict], now: datetime) -> list[dict[str, Any]]:
    old = {row["type"]: row for row in pool.status.get("conditions") or []}
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    rows = []
    for verdict in found:
        before = old.get(verdict.type)
        changed = before is None or before.get("status") != verdict.status
        rows.append({
            "type": verdict.type,
            "status": verdict.status,
            "reason": verdict.reason,
            "message": verdict.message,
            "lastTransitionTime": stamp if changed or before is None else before["lastTransitionTime"],
            "observedGeneration": pool.generation,
        })  # fmt: skip
    return rows


def _profile(pool: Pool, *, holds: bool) -> tuple[str, dict[str, Any] | None]:
    """The profile that the nodes run, and the one that waits for their reboot; the simulator never reboots."""
    config: Mapping[str, Any] = {"image": dict(pool.image)} if pool.image else {"gpu": pool.gpu_version}
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:8]
    wanted = f"{pool.instance_type}-{digest}"
    running = pool.status.get("nodeProfile") or wanted
    if not holds or running == wanted:
        return wanted, None
    summary = [f"{key}: {json.dumps(value)}" for key, value in config.items()]
    return running, {"nodeProfile": wanted, "summary": summary}


def _racks(grant: Grant, counts: Counts) -> dict[str, int]:
    per_rack = max(1, counts.per_rack)
    target, current = grant.target // per_rack, counts.current // per_rack
    return {"target": target, "current": current, "queued": max(0, target - current)}
