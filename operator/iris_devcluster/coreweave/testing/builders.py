"""Builders of snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from iris_devcluster.coreweave import catalogue, settings
from iris_devcluster.coreweave.model import HostSize, Machine, NodeFact, Pool, Power, Snapshot
from iris_devcluster.coreweave.plan import Plan

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
H100 = "gd-8xh100ib-i128"
CPU = "cd-gp-i64-erapids"
GB200 = "gb200-4x"


def ago(seconds: float) -> datetime:
    """So long before NOW."""
    return NOW - timedelta(seconds=seconds)


def pool(name: str = "pool", nodes: int | None = 1, instance_type: str = H100, **values: Any) -> Pool:
    """A NodePool, its finalizer in place."""
    return Pool(name=name, uid=f"uid-{name}", instance_type=instance_type, target_nodes=nodes, **values)


def machine(name: str, of: Pool, **values: Any) -> Machine:
    """A machine of the NodePool: by default one that has been up for a minute."""
    default: dict[str, Any] = {"assigned_at": ago(60), "power": Power.ON, "registered": True}
    return Machine(name, of.name, of.uid, of.instance_type, **{**default, **values})


def snapshot(pools: Sequence[Pool] = (), machines: Sequence[Machine] = (), **values: Any) -> Snapshot:
    """All machines that have power run on the host, those that registered have Nodes, unless said otherwise.

    `settings` may be given as the ConfigMap's YAML, loaded.
    """
    rules = values.pop("settings", {})
    default: dict[str, Any] = {
        "nodes": {one.name: NodeFact(one.name) for one in machines if one.registered},
        "running": frozenset(one.name for one in machines if one.power is not Power.OFF or one.registered),
    }
    return Snapshot(
        pools=tuple(pools),
        machines={one.name: one for one in machines},
        settings=rules if isinstance(rules, settings.Settings) else settings.parse(rules),
        catalogue=catalogue.load(),
        host=HostSize(cpu=8, memory=32 * 2**30),
        **{**default, **values},
    )


def applied(seen: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot once the plan's records and statuses are written."""
    pools = tuple(replace(one, status=plan.statuses.get(one.name, one.status)) for one in seen.pools)
    return replace(seen, pools=pools, machines={**seen.machines, **{one.name: one for one in plan.records}})


def reasons(status: Mapping[str, Any]) -> dict[str, str]:
    """Condition type -> reason."""
    return {row["type"]: row["reason"] for row in status.get("conditions", [])}
