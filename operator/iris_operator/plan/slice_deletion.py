"""Giving a slice back: stop its Tasks, end its workers, delete its NodePool, and only then let the Slice go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from iris_operator.api.core import Pod
from iris_operator.api.names import FINALIZER_SLICE
from iris_operator.api.slice import SlicePhase
from iris_operator.plan.actions import DeleteNodePool, DeleteWorker, Note, RemoveFinalizer, SliceAction, StopTask
from iris_operator.plan.conditions import set_condition
from iris_operator.plan.node_pool_state import is_ours
from iris_operator.plan.slice_lifecycle import READY, SlicePlan
from iris_operator.plan.snapshot import SliceView
from iris_operator.plan.text import count, names_text

# Beyond its own grace period, how long a Task or a Pod may take to be reported gone before we stop waiting for it.
_SLACK_SECONDS = 30
STOP_REASON = "SliceDeleted"


@dataclass(frozen=True)
class _Step:
    actions: tuple[SliceAction, ...]
    reason: str
    message: str
    recheck_seconds: float | None = None


def plan_deletion(view: SliceView, now: datetime) -> SlicePlan:
    """The plan of a Slice with a deletionTimestamp."""
    step = _next_step(view, now)
    before = view.slice.status
    first = before.phase is not SlicePhase.DELETING
    status = before.model_copy(
        update={
            "phase": SlicePhase.DELETING,
            "phase_since": now.replace(microsecond=0) if first else before.phase_since,
            "message": step.message,
            "tasks": len(view.tasks),
            "idle_since": None,
            "observed_generation": view.slice.metadata.generation,
            "conditions": set_condition(
                before.conditions,
                READY,
                "False",
                step.reason,
                step.message,
                generation=view.slice.metadata.generation,
                now=now,
            ),
        }
    )
    notes = (Note("Normal", "Deleting", step.message),) if first else ()
    return SlicePlan(step.actions, status, notes, step.recheck_seconds)


def _next_step(view: SliceView, now: datetime) -> _Step:
    stopping = _stop_tasks(view, now)
    if stopping is not None:
        return stopping
    pool = view.node_pool if view.node_pool is not None and is_ours(view.node_pool, view.slice) else None
    if view.pods:
        ending = _end_workers(view, now, pool_gone=pool is None)
        if ending is not None:
            return ending
    if pool is not None:
        left = count(pool.status.current_nodes, "node")
        actions = () if pool.deleting else (DeleteNodePool(pool),)
        return _Step(actions, "DeletingNodePool", f"waits until NodePool {pool.metadata.name} is gone ({left} left)")
    if FINALIZER_SLICE in view.slice.metadata.finalizers:
        return _Step((RemoveFinalizer(),), "Deleted", "nothing is left of it")
    return _Step((), "Deleted", "nothing is left of it")


def _stop_tasks(view: SliceView, now: datetime) -> _Step | None:
    """Wait for Tasks that a worker still runs, each as long as its grace period allows."""
    since = view.slice.metadata.deletion_timestamp or now
    waiting: list[tuple[float, StopTask]] = []
    for task in view.tasks:
        binding = task.spec.binding
        pod = view.pods.get(binding.worker_pod) if binding else None
        if binding is None or pod is None or pod.metadata.uid != binding.worker_uid:
            continue
        deadline = since + timedelta(seconds=task.spec.termination_grace_period_seconds + _SLACK_SECONDS)
        left = (deadline - now).total_seconds()
        if left > 0:
            waiting.append((left, StopTask(task, STOP_REASON)))
    if not waiting:
        return None
    told = tuple(one for _, one in waiting if one.task.spec.binding and not one.task.spec.binding.stop_reason)
    names = names_text(sorted(one.task.metadata.name for _, one in waiting))
    message = f"waits for {count(len(waiting), 'Task')} to stop: {names}"
    return _Step(told, "StoppingTasks", message, min(left for left, _ in waiting) + 0.5)


def _end_workers(view: SliceView, now: datetime, *, pool_gone: bool) -> _Step | None:
    """End the worker Pods. None: what is left of them hangs on a dead node, and goes with the NodePool."""
    standing = {node.metadata.name for node in view.nodes}
    actions: list[SliceAction] = []
    hanging = 0
    for pod in view.pods.values():
        on_dead_node = bool(pod.spec.node_name) and pod.spec.node_name not in standing
        if on_dead_node and pool_gone:
            actions.append(DeleteWorker(pod, force=True))
        elif not pod.deleting:
            actions.append(DeleteWorker(pod))
        elif _hangs(pod, now):
            hanging += 1
    if hanging == len(view.pods) and not pool_gone:
        return None
    message = f"waits until {count(len(view.pods), 'worker Pod')} are gone: {names_text(sorted(view.pods))}"
    return _Step(tuple(actions), "EndingWorkers", message, 5.0)


def _hangs(pod: Pod, now: datetime) -> bool:
    # deletionTimestamp already includes the grace period
    deleted = pod.metadata.deletion_timestamp
    return deleted is not None and now > deleted + timedelta(seconds=_SLACK_SECONDS)
