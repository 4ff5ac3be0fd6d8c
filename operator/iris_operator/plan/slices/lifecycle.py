"""A Slice's life: NodePool, nodes, worker Pods, agents, Ready. The end of it is in `deletion`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from iris_operator.api.cluster import IrisClusterSpec
from iris_operator.api.names import ANNOTATION_SLICE, FINALIZER_SLICE
from iris_operator.api.nodepool import NodePool
from iris_operator.api.slice import SlicePhase
from iris_operator.plan.actions import AddFinalizer, ApplyNodePool, DeleteSlice, SliceAction
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.slices.deletion import plan_deletion, plan_failed
from iris_operator.plan.slices.drain import drain
from iris_operator.plan.slices.judge import Facts, judge
from iris_operator.plan.slices.node_pool_state import MACHINES, is_ours, pool_state
from iris_operator.plan.slices.nodes import report_nodes, stray_workers
from iris_operator.plan.slices.observe import observe
from iris_operator.plan.slices.plan import SlicePlan, Verdict, finish
from iris_operator.plan.slices.snapshot import SliceView
from iris_operator.plan.slices.worker_health import lease_expires_in
from iris_operator.plan.text import clock, count


def plan_slice(view: SliceView, now: datetime) -> SlicePlan:
    """The plan of a Slice, whether or not it is being deleted."""
    return plan_deletion(view, now) if view.slice.deleting else plan_live_slice(view, now)


def plan_live_slice(view: SliceView, now: datetime) -> SlicePlan:
    """The plan of a Slice that is not being deleted."""
    if view.slice.status.phase is SlicePhase.FAILED:
        return plan_failed(view, now)
    if isinstance(view.settings, NoCluster):
        verdict = Verdict(SlicePhase.PENDING, view.settings.reason, view.settings.message)
        return finish(view, verdict, (), view.slice.status, now)
    if not view.external and view.node_pool is not None and not is_ours(view.node_pool, view.slice):
        verdict = Verdict(SlicePhase.PENDING, "NodePoolNameTaken", _whose(view.node_pool, view))
        return finish(view, verdict, (), view.slice.status, now)
    return _plan(view, view.settings, now)


def _whose(node_pool: NodePool, view: SliceView) -> str:
    name = node_pool.metadata.name
    if node_pool.metadata.annotations.get(ANNOTATION_SLICE) == view.slice.key:
        return f"NodePool {name} is of an earlier Slice of this name: waits until it is given back"
    return f"NodePool {name} exists and is not this Slice's: delete it, or rename the Slice"


def _plan(view: SliceView, settings: IrisClusterSpec, now: datetime) -> SlicePlan:
    actions: list[SliceAction | DeleteSlice] = []
    if FINALIZER_SLICE not in view.slice.metadata.finalizers:
        actions.append(AddFinalizer())
    if view.node_pool is None and not view.external:
        actions.append(ApplyNodePool())
    pool = MACHINES if view.external else pool_state(view.node_pool, view.obstacle)
    reports = report_nodes(view, settings, now)
    actions += [report.action for report in reports if report.action is not None]
    actions += stray_workers(view)
    status = observe(view, pool, reports, now)
    told, conditions = drain(view, status.conditions, now)
    actions += told
    status = status.model_copy(update={"conditions": conditions})
    verdict = judge(Facts(view, settings, status, pool, reports, now))
    expiry, expire = _lifetime(view, verdict, now)
    plan = finish(view, expiry, (*actions, *expire), status, now)
    waits = [plan.recheck_seconds, lease_expires_in(view, settings.timeouts.agent_lease_seconds, now)]
    return replace(plan, recheck_seconds=min((one for one in waits if one is not None), default=None))


def _lifetime(view: SliceView, verdict: Verdict, now: datetime) -> tuple[Verdict, tuple[DeleteSlice, ...]]:
    """A slice without a group that is past its lifetime, and not held, deletes itself; that drains it."""
    spec, since = view.slice.spec, view.slice.status.ready_since
    if view.grouped or spec.max_lifetime_seconds is None or since is None or verdict.phase is SlicePhase.FAILED:
        return verdict, ()
    end = since + timedelta(seconds=spec.max_lifetime_seconds)
    end = max(end, spec.hold_until) if spec.hold_until is not None else end
    if now < end:
        looks = [one for one in (verdict.look_at, end) if one is not None]
        return replace(verdict, look_at=min(looks)), ()
    over = f"its lifetime ended at {clock(end)} (maxLifetimeSeconds)"
    if spec.deletion_protection and view.tasks:
        waits = f"{over}; waits for {count(len(view.tasks), 'Task')} (deletionProtection)"
        return replace(verdict, message=f"{verdict.message}; {waits}"), ()
    return replace(verdict, message=f"{verdict.message}; {over}"), (DeleteSlice(view.slice, "MaxLifetime"),)
