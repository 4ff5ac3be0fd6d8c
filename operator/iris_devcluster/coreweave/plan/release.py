"""Which machines go back: those of vanished NodePools at once, surplus ones by the scale-down strategy."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from iris_devcluster.coreweave.model import REMOVE_LABEL, Machine, Pool, Snapshot
from iris_devcluster.coreweave.plan.allocation import Grant


def orphans(snapshot: Snapshot) -> list[Machine]:
    """Machines whose NodePool is gone, or was replaced by a namesake."""
    uids = {pool.uid for pool in snapshot.pools}
    return [
        replace(machine, releasing=True)
        for machine in snapshot.machines.values()
        if machine.pool_uid not in uids and not machine.releasing
    ]


def surplus(pool: Pool, grant: Grant, snapshot: Snapshot) -> list[Machine]:
    """Machines of the NodePool to give back, best first; fewer than the surplus while the others are in use."""
    held = [machine for machine in snapshot.machines.values() if machine.pool_uid == pool.uid and not machine.releasing]
    if pool.deleting:
        chosen = held
    else:
        allowed = [machine for machine in held if pool.prefer_idle or machine.name not in snapshot.in_use]
        chosen = sorted(allowed, key=lambda machine: _cost(machine, snapshot))[: grant.surplus]
    return [replace(machine, releasing=True) for machine in chosen]


def exchange(snapshot: Snapshot, now: datetime) -> list[Machine]:
    """Machines without power for longer than `replaceSeconds`: the vendor's repair takes them out."""
    limit = snapshot.settings.replace_seconds
    if limit is None:
        return []
    return [
        replace(machine, releasing=True)
        for machine in snapshot.machines.values()
        if machine.dead_since is not None
        and not machine.releasing
        and (now - machine.dead_since).total_seconds() >= limit
    ]


def _cost(machine: Machine, snapshot: Snapshot) -> tuple[bool, bool, bool, float, str]:
    node = snapshot.nodes.get(machine.name)
    marked = node is not None and REMOVE_LABEL in {*node.labels, *node.annotations}
    # Least to lose first: asked for, not there yet, idle, and then the youngest.
    return (
        not marked,
        machine.registered,
        machine.name in snapshot.in_use,
        -machine.assigned_at.timestamp(),
        machine.name,
    )
