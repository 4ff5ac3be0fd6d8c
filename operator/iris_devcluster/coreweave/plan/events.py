"""The vendor's Events, told from what changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from iris_devcluster.coreweave.model import Machine, Pool
from iris_devcluster.coreweave.plan.actions import PoolEvent

_ON_REASON = {
    ("Validated", "Invalid"): "CWInvalidNodePool",
    ("Quota", "Over"): "CWOverQuota",
    ("Quota", "NotSet"): "CWOverQuota",
    ("Capacity", "QueuedAwaitingCapacity"): "CWInsufficientCapacity",
}


def scaling(pool: Pool, held: int, assigned: Iterable[Machine], released: Iterable[Machine]) -> Iterator[PoolEvent]:
    """Machines that come and go; `held` is before either."""
    new, gone = list(assigned), list(released)
    if new:
        yield _normal(pool, "CWNodePoolScaledUp", f"scaled up from {held} to {held + len(new)} nodes")
    for machine in new:
        yield _normal(pool, "CWNodeAssigned", f"node {machine.name} assigned")
    if gone:
        yield _normal(pool, "CWNodePoolScaledDown", f"scaled down from {held} to {held - len(gone)} nodes")


def registered(pool: Pool, machine: Machine) -> PoolEvent:
    """A machine joined the cluster."""
    return _normal(pool, "CWNodeRegistered", f"node {machine.name} registered")


def transitions(pool: Pool, status: Mapping[str, Any]) -> Iterator[PoolEvent]:
    """Conditions that turned bad, and a configuration that was staged."""
    before = {row["type"]: row.get("reason") for row in pool.status.get("conditions") or []}
    for row in status["conditions"]:
        reason = _ON_REASON.get((row["type"], row["reason"]))
        if reason and before.get(row["type"]) != row["reason"]:
            yield PoolEvent(pool.name, pool.uid, reason, row["message"], warning=True)
    pending = status.get("pendingNodeConfiguration")
    if pending and pending != pool.status.get("pendingNodeConfiguration"):
        yield _normal(pool, "CWNodeConfigStaged", f"{pending['nodeProfile']} waits for a reboot of the nodes")


def _normal(pool: Pool, reason: str, message: str) -> PoolEvent:
    return PoolEvent(pool.name, pool.uid, reason, message)
