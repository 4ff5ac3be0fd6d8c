"""A Slice's status as far as it is mere observation: nodes, conditions, times; the phase is judged from it."""

from __future__ import annotations

from datetime import datetime

from iris_operator.api.slice import SliceStatus
from iris_operator.plan.conditions import ConditionStatus, find_condition, set_condition, status_of
from iris_operator.plan.slices.node_pool_state import PoolState
from iris_operator.plan.slices.nodes import NodeReport, waiting_text
from iris_operator.plan.slices.plan import AGENTS_READY, DISK_PRESSURE, NODE_POOL_ACCEPTED, NODES_FIT, NODES_READY
from iris_operator.plan.slices.snapshot import SliceView
from iris_operator.plan.slices.worker_health import NODE_STATUS_UNKNOWN
from iris_operator.plan.text import count

_Row = tuple[str, ConditionStatus, str, str]


def observe(view: SliceView, pool: PoolState, reports: list[NodeReport], now: datetime) -> SliceStatus:
    """The status with nodes, conditions and times; phase and message are still those from before."""
    before, node_pool = view.slice.status, view.node_pool
    size, ready = len(reports), sum(report.status.ready for report in reports)
    conditions = before.conditions
    for kind, holds, reason, message in _conditions(view, pool, reports):
        generation = view.slice.metadata.generation
        conditions = set_condition(conditions, kind, holds, reason, message, generation=generation, now=now)
    ready_since = before.ready_since or (now if ready == size else None)
    idle_since = None if view.tasks or ready_since is None else before.idle_since or now
    launched_at = (node_pool.metadata.creation_timestamp if node_pool else None) or before.launched_at
    booted = before.boot_seconds
    if booted is None and launched_at is not None and all(report.node_fit for report in reports):
        booted = max(0, round((now - launched_at).total_seconds()))
    return before.model_copy(
        update={
            "conditions": conditions,
            "node_pool_name": node_pool.metadata.name if node_pool else "",
            "nodes": [report.status for report in reports],
            "nodes_ready": f"{ready}/{size}",
            "tasks": len(view.tasks),
            "idle_since": idle_since,
            "ready_since": ready_since,
            "launched_at": launched_at,
            "boot_seconds": booted,
        }
    )


def _conditions(view: SliceView, pool: PoolState, reports: list[NodeReport]) -> list[_Row]:
    size, fit = len(reports), sum(report.node_fit for report in reports)
    ready = sum(report.status.ready for report in reports)
    waiting = waiting_text(report.status.message for report in reports)
    unfit = [report.status.message for report in reports if report.unfit]
    nodes = "NodeUnfit" if unfit else "WaitingForNodes"
    agents = NODE_STATUS_UNKNOWN if any(one.reason == NODE_STATUS_UNKNOWN for one in reports) else "WaitingForAgents"
    rows: list[_Row] = [
        (NODE_POOL_ACCEPTED, pool.accepted, pool.reason, pool.message),
        (
            NODES_READY,
            status_of(fit == size),
            "NodesReady" if fit == size else nodes,
            f"{fit} of {count(size, 'node')} Ready" + (f": {waiting}" if fit < size and waiting else ""),
        ),
        (
            AGENTS_READY,
            status_of(ready == size),
            "AgentsReady" if ready == size else agents,
            f"{ready} of {count(size, 'agent')} registered" + (f": {waiting}" if ready < size and waiting else ""),
        ),
    ]
    if unfit:
        rows.append((NODES_FIT, "False", "NodeUnfit", waiting_text(unfit)))
    elif find_condition(view.slice.status.conditions, NODES_FIT):
        rows.append((NODES_FIT, "True", "NodesFit", "every node that is Ready has what was ordered"))
    full = [f"{one.status.name}: {one.status.refuses}" for one in reports if one.status.refuses]
    if full:
        rows.append((DISK_PRESSURE, "True", "DiskFull", waiting_text(full)))
    elif find_condition(view.slice.status.conditions, DISK_PRESSURE):
        rows.append((DISK_PRESSURE, "False", "DiskHasRoom", "no node's disk is too full for Tasks"))
    return rows
