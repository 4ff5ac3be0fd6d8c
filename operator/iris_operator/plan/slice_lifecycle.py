"""A Slice's life: NodePool, nodes, worker Pods, agents, Ready. Deletion is in slice_deletion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from iris_operator.api.cluster import IrisClusterSpec
from iris_operator.api.names import FINALIZER_SLICE, slice_id
from iris_operator.api.nodepool import NodePool
from iris_operator.api.slice import SlicePhase, SliceStatus
from iris_operator.plan.actions import (
    AddFinalizer,
    ApplyNodePool,
    DeleteNodePool,
    DeleteWorker,
    Note,
    SliceAction,
)
from iris_operator.plan.conditions import find_condition, is_true, set_condition, status_of
from iris_operator.plan.node_pool_state import PoolState, is_ours, pool_state
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.slice_nodes import NodeReport, lease_expires_in, report_nodes, stray_workers
from iris_operator.plan.snapshot import SliceView
from iris_operator.plan.text import clock, count

_USUAL = "bare metal usually takes 20 to 30 min"
READY = "Ready"
NODES_READY = "NodesReady"
AGENTS_READY = "AgentsReady"
NODE_POOL_ACCEPTED = "NodePoolAccepted"


@dataclass(frozen=True)
class SlicePlan:
    """What to do for one Slice, in order; then its status; and when to look again though nothing changes."""

    actions: tuple[SliceAction, ...]
    status: SliceStatus
    notes: tuple[Note, ...] = ()
    recheck_seconds: float | None = None


@dataclass(frozen=True)
class _Verdict:
    phase: SlicePhase
    reason: str
    message: str
    deadline: datetime | None = None


def plan_live_slice(view: SliceView, now: datetime) -> SlicePlan:
    """The plan of a Slice that is not being deleted."""
    if view.slice.status.phase is SlicePhase.FAILED:
        return _plan_failed(view, now)
    if isinstance(view.settings, NoCluster):
        verdict = _Verdict(SlicePhase.PENDING, view.settings.reason, view.settings.message)
        return _finish(view, verdict, (), view.slice.status, now)
    if view.node_pool is not None and not is_ours(view.node_pool, view.slice):
        message = (
            f"NodePool {view.node_pool.metadata.name} exists and is not this Slice's: delete it, or rename the Slice"
        )
        return _finish(view, _Verdict(SlicePhase.PENDING, "NodePoolNameTaken", message), (), view.slice.status, now)
    return _plan(view, view.settings, now)


def _plan(view: SliceView, settings: IrisClusterSpec, now: datetime) -> SlicePlan:
    actions: list[SliceAction] = []
    if FINALIZER_SLICE not in view.slice.metadata.finalizers:
        actions.append(AddFinalizer())
    if view.node_pool is None:
        actions.append(ApplyNodePool())
    pool = pool_state(view.node_pool)
    reports = report_nodes(view, settings, now)
    actions += [report.action for report in reports if report.action is not None]
    actions += stray_workers(view)
    status = _observe(view, pool, reports, now)
    verdict = _judge(view, settings, status, pool, reports, now)
    plan = _finish(view, verdict, tuple(actions), status, now)
    waits = [plan.recheck_seconds, lease_expires_in(view, settings.timeouts.agent_lease_seconds, now)]
    return replace(plan, recheck_seconds=min((one for one in waits if one is not None), default=None))


def _observe(view: SliceView, pool: PoolState, reports: list[NodeReport], now: datetime) -> SliceStatus:
    """The status with nodes and the conditions on them, before the phase is judged."""
    generation = view.slice.metadata.generation
    size = len(reports)
    fit = sum(report.node_fit for report in reports)
    ready = sum(report.status.ready for report in reports)
    waiting = "; ".join(report.status.message for report in reports if report.status.message)
    conditions = set_condition(
        view.slice.status.conditions,
        NODE_POOL_ACCEPTED,
        pool.accepted,
        pool.reason,
        pool.message,
        generation=generation,
        now=now,
    )
    conditions = set_condition(
        conditions,
        NODES_READY,
        status_of(fit == size),
        "NodesReady" if fit == size else "WaitingForNodes",
        f"{fit} of {count(size, 'node')} Ready" + (f": {waiting}" if fit < size and waiting else ""),
        generation=generation,
        now=now,
    )
    conditions = set_condition(
        conditions,
        AGENTS_READY,
        status_of(ready == size),
        "AgentsReady" if ready == size else "WaitingForAgents",
        f"{ready} of {count(size, 'agent')} registered" + (f": {waiting}" if ready < size and waiting else ""),
        generation=generation,
        now=now,
    )
    tasks = len(view.tasks)
    ready_since = view.slice.status.ready_since or (now if ready == size else None)
    idle_since = None if tasks or ready_since is None else view.slice.status.idle_since or now
    return view.slice.status.model_copy(
        update={
            "conditions": conditions,
            "node_pool_name": slice_id(view.slice.metadata.namespace, view.slice.metadata.name),
            "nodes": [report.status for report in reports],
            "nodes_ready": f"{ready}/{size}",
            "tasks": tasks,
            "idle_since": idle_since,
            "ready_since": ready_since,
        }
    )


def _judge(
    view: SliceView,
    settings: IrisClusterSpec,
    status: SliceStatus,
    pool: PoolState,
    reports: list[NodeReport],
    now: datetime,
) -> _Verdict:
    if is_true(status.conditions, AGENTS_READY):
        return _Verdict(SlicePhase.READY, "AgentsReady", f"{count(len(reports), 'agent')} registered")
    waiting = "; ".join(report.status.message for report in reports if report.status.message)
    if view.slice.status.ready_since is not None:
        return _Verdict(SlicePhase.DEGRADED, "NodeLost", waiting)
    if pool.rejected:
        return _Verdict(SlicePhase.FAILED, pool.reason, pool.message)
    if view.node_pool is None:
        return _Verdict(SlicePhase.PENDING, "CreatingNodePool", "its NodePool is being made")
    nodes = find_condition(status.conditions, NODES_READY)
    if nodes is not None and nodes.status == "True":
        return _judge_init(settings, nodes.last_transition_time, waiting, now)
    return _judge_boot(settings, view.node_pool, pool, reports, waiting, now)


def _judge_init(settings: IrisClusterSpec, since: datetime, waiting: str, now: datetime) -> _Verdict:
    limit = settings.timeouts.init_seconds
    deadline = since + timedelta(seconds=limit)
    if now >= deadline:
        return _Verdict(
            SlicePhase.FAILED, "InitTimeout", f"no agent on every node after {limit}s (initSeconds): {waiting}"
        )
    message = f"{waiting}; fails at {clock(deadline)} (initSeconds)"
    return _Verdict(SlicePhase.INITIALIZING, "WaitingForAgents", message, deadline)


def _judge_boot(
    settings: IrisClusterSpec,
    node_pool: NodePool,
    pool: PoolState,
    reports: list[NodeReport],
    waiting: str,
    now: datetime,
) -> _Verdict:
    limit = settings.timeouts.boot_seconds
    deadline = (node_pool.metadata.creation_timestamp or now) + timedelta(seconds=limit)
    fit = sum(report.node_fit for report in reports)
    where = f"{fit} of {count(len(reports), 'node')} Ready" + (f"; {pool.message}" if pool.message else "")
    if now >= deadline:
        return _Verdict(SlicePhase.FAILED, "BootTimeout", f"{where} after {limit}s (bootSeconds): {waiting}")
    reason = pool.reason if pool.accepted == "False" else "WaitingForNodes"
    return _Verdict(
        SlicePhase.BOOTING, reason, f"{where}; {_USUAL}, fails at {clock(deadline)} (bootSeconds)", deadline
    )


def _plan_failed(view: SliceView, now: datetime) -> SlicePlan:
    """Failed is final: give the nodes back, keep the reason."""
    actions: list[SliceAction] = [DeleteWorker(pod) for pod in view.pods.values() if not pod.deleting]
    pool = view.node_pool
    ours = pool is not None and is_ours(pool, view.slice)
    if pool is not None and ours and not pool.deleting:
        actions.append(DeleteNodePool(pool))
    status = view.slice.status.model_copy(
        update={
            "nodes": [] if not view.pods else view.slice.status.nodes,
            "nodes_ready": f"0/{view.slice.spec.node_count}",
            "tasks": len(view.tasks),
            "idle_since": None,
            "conditions": set_condition(
                view.slice.status.conditions,
                NODE_POOL_ACCEPTED,
                "False",
                "Deleting" if ours else "Deleted",
                "its NodePool is being deleted" if ours else "its NodePool is deleted: nothing bills",
                generation=view.slice.metadata.generation,
                now=now,
            ),
        }
    )
    return SlicePlan(tuple(actions), status)


def _finish(
    view: SliceView, verdict: _Verdict, actions: tuple[SliceAction, ...], status: SliceStatus, now: datetime
) -> SlicePlan:
    """Phase, Ready condition and the Event of a change of phase."""
    before = view.slice.status
    changed = before.phase is not verdict.phase
    generation = view.slice.metadata.generation
    status = status.model_copy(
        update={
            "phase": verdict.phase,
            "phase_since": now.replace(microsecond=0) if changed else before.phase_since,
            "message": verdict.message,
            "observed_generation": generation,
            "conditions": set_condition(
                status.conditions,
                READY,
                status_of(verdict.phase is SlicePhase.READY),
                verdict.reason,
                verdict.message,
                generation=generation,
                now=now,
            ),
        }
    )
    bad = verdict.phase in (SlicePhase.FAILED, SlicePhase.DEGRADED)
    notes = (Note("Warning" if bad else "Normal", str(verdict.phase), verdict.message),) if changed else ()
    recheck = max(1.0, (verdict.deadline - now).total_seconds()) if verdict.deadline else None
    return SlicePlan(actions, status, notes, recheck)
