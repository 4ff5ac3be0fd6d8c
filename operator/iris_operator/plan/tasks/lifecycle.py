"""What the operator does for a Task: says why it waits, that its time or its worker is lost, unbinds it for another
attempt, lets it go.

All else the agent says. What makes another attempt safe is in `retry`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from iris_operator.api.life import Cause
from iris_operator.api.names import FINALIZER_TASK
from iris_operator.api.task import Binding, Task, TaskPhase, TaskStatus
from iris_operator.plan.actions import Note
from iris_operator.plan.conditions import ConditionStatus, set_condition
from iris_operator.plan.tasks.retry import (
    MOVES,
    SPOT_RECLAIMED,
    WORKER_LOST,
    AttemptEnd,
    attempt_is_over,
    attempt_over,
    last_attempt,
    of_attempt,
)
from iris_operator.plan.text import duration

SCHEDULED = "Scheduled"
FAILED = "Failed"
ASSIGNED = "Assigned"
SCHEDULING_TIMEOUT = "SchedulingTimeout"

_MAX_MESSAGE = 1024
# A Task that is placed and started sooner than this needs no word of ours: that saves a write per Task.
QUIET_SECONDS = 1.5
# A placed Task is the agent's to speak of; in a burst it may wait for its turn there. Only a silent agent needs our word.
ASSIGNED_QUIET_SECONDS = 10
# How often the message of a waiting Task may change while its reason stays: within the first second of every ten since
# the reason is given. When it was last written is nowhere to be read (a transition's time stays with the status).
REFRESH_SECONDS = 10
_REFRESH_WINDOW_SECONDS = 1


@dataclass(frozen=True)
class TaskPlan:
    """A status to write (None: leave it), whether the binding or just our finalizer goes, and when to look again.

    `lost`: the status says that the worker is gone. Only to be written after asking the API itself for that Pod.
    """

    status: TaskStatus | None = None
    lost: bool = False
    unbind: bool = False
    release: bool = False
    note: Note | None = None
    recheck_seconds: float | None = None


def plan_task(task: Task, worker_exists: bool, now: datetime, *, spot: bool = False) -> TaskPlan:
    """The plan of one Task. `worker_exists`: the worker Pod with the binding's UID is in the API. `spot`: its slice is one
    whose nodes may be taken back at any time."""
    if task.spec.replicas > 1:
        return TaskPlan()  # it stands for its members: see plan/tasks/replicas
    held = task.deleting and FINALIZER_TASK in task.metadata.finalizers
    if task.spec.binding is None:
        return TaskPlan(release=held)  # between two attempts nothing runs
    if attempt_is_over(task):
        return TaskPlan(unbind=True, note=_note_of_move(task))
    if worker_exists:
        return _plan_silent(task, task.spec.binding, now)
    if task.ended:
        return TaskPlan(release=held)
    status = _lost(task, task.spec.binding, now, spot)
    ends = status.phase is not None and status.phase.ended
    note = Note("Warning", status.reason, status.message) if ends else None
    return TaskPlan(status, lost=True, release=held and ends, note=note)


def _plan_silent(task: Task, binding: Binding, now: datetime) -> TaskPlan:
    """Its agent has the word; should that say nothing for long, we do."""
    if task.ended or task.deleting or task.status.phase not in (None, TaskPhase.PENDING, TaskPhase.ASSIGNED):
        return TaskPlan()
    quiet_until = binding.bound_at + timedelta(seconds=ASSIGNED_QUIET_SECONDS)
    if now < quiet_until:
        return TaskPlan(recheck_seconds=(quiet_until - now).total_seconds())
    message = f"placed on node {binding.node_name} of slice {binding.slice_name}; waits for its agent"
    if task.status.phase is TaskPhase.ASSIGNED and task.status.message == message:
        return TaskPlan()
    status = of_attempt(task.status, binding.attempt).model_copy(
        update={"attempt": binding.attempt, "node_name": binding.node_name}
    )
    return TaskPlan(_said(task, status, TaskPhase.ASSIGNED, ASSIGNED, message, "True", now))


def plan_waiting(task: Task, reason: str, message: str, now: datetime) -> TaskPlan:
    """Say why a Task isn't placed: soon after it came, and then not more often than people read. In the end, that it
    waited for too long."""
    deadline = _scheduling_deadline(task)
    if deadline is not None and now >= deadline:
        waited = duration(task.spec.timeouts.scheduling_seconds or 0)
        words = f"was not placed within {waited} (timeouts.schedulingSeconds). It waited for: {reason}: {message}"
        return never_placed(task, SCHEDULING_TIMEOUT, words, now)
    plan = _plan_words(task, reason, message, now)
    if deadline is None:
        return plan
    left = (deadline - now).total_seconds()
    return replace(plan, recheck_seconds=min(left, left if plan.recheck_seconds is None else plan.recheck_seconds))


def never_placed(task: Task, reason: str, message: str, now: datetime) -> TaskPlan:
    """The end of a Task that is not bound and never will be."""
    message = message[:_MAX_MESSAGE]
    status = _said(task, task.status, TaskPhase.FAILED, reason, message, "False", now)
    generation = task.metadata.generation
    conditions = set_condition(status.conditions, FAILED, "True", reason, message, generation=generation, now=now)
    ended = status.model_copy(update={"conditions": conditions, "finish_time": now, "retry_after": None})
    return TaskPlan(ended, note=Note("Warning", reason, message))


def _scheduling_deadline(task: Task) -> datetime | None:
    """When its placing counts as failed: from its creation, or from the end of its last attempt and the rest after it."""
    seconds = task.spec.timeouts.scheduling_seconds
    last = last_attempt(task)
    moments = (task.metadata.creation_timestamp, last.finish_time if last else None, task.status.retry_after)
    since = max((one for one in moments if one is not None), default=None)
    return since + timedelta(seconds=seconds) if seconds is not None and since is not None else None


def _plan_words(task: Task, reason: str, message: str, now: datetime) -> TaskPlan:
    created = task.metadata.creation_timestamp or now
    young = QUIET_SECONDS - (now - created).total_seconds()
    if young > 0:
        return TaskPlan(recheck_seconds=young)
    said = next((one for one in task.status.conditions if one.type == SCHEDULED), None)
    if said is not None and said.reason == reason:
        if said.message == message:
            return TaskPlan()
        age = (now - said.last_transition_time).total_seconds()
        into = age % REFRESH_SECONDS
        if age < REFRESH_SECONDS or into >= _REFRESH_WINDOW_SECONDS:
            return TaskPlan(recheck_seconds=REFRESH_SECONDS - into)
    return TaskPlan(_said(task, task.status, TaskPhase.PENDING, reason, message, "False", now))


def _said(
    task: Task,
    status: TaskStatus,
    phase: TaskPhase,
    reason: str,
    message: str,
    scheduled: ConditionStatus,
    now: datetime,
) -> TaskStatus:
    """The status with these words, and the same in condition Scheduled."""
    generation = task.metadata.generation
    return status.model_copy(
        update={
            "phase": phase,
            "reason": reason,
            "message": message,
            "observed_generation": generation,
            "conditions": set_condition(
                status.conditions, SCHEDULED, scheduled, reason, message, generation=generation, now=now
            ),
        }
    )


def _note_of_move(task: Task) -> Note | None:
    last = last_attempt(task)
    if last is None:
        return None
    return Note("Warning" if last.cause is not None else "Normal", last.reason, task.status.message)


def _lost(task: Task, binding: Binding, now: datetime, spot: bool) -> TaskStatus:
    words = (
        f"worker {binding.worker_pod} on node {binding.node_name} is gone, and the command with it: "
        "not the command's fault"
    )
    if task.deleting or (binding.stop_reason and binding.stop_reason not in MOVES):
        return _ended_with_worker(task, binding, words, now)
    # A worker that went while the Task was told to leave it is the same move: its agent was just not quick enough.
    if binding.stop_reason:
        return attempt_over(task, AttemptEnd(binding.stop_reason, words, now, MOVES[binding.stop_reason]))
    if spot:
        words += f"; slice {binding.slice_name} is spot, whose nodes are taken back at any time"
        return attempt_over(task, AttemptEnd(SPOT_RECLAIMED, words, now, Cause.PREEMPTION))
    return attempt_over(task, AttemptEnd(WORKER_LOST, words, now, Cause.INFRASTRUCTURE))


def _ended_with_worker(task: Task, binding: Binding, message: str, now: datetime) -> TaskStatus:
    generation, reason = task.metadata.generation, binding.stop_reason or WORKER_LOST
    conditions = set_condition(
        task.status.conditions, "Running", "False", reason, message, generation=generation, now=now
    )
    return task.status.model_copy(
        update={
            "phase": TaskPhase.KILLED if binding.stop_reason else TaskPhase.WORKER_LOST,
            "reason": reason,
            "message": message,
            "attempt": binding.attempt,
            "node_name": binding.node_name,
            "finish_time": now,
            "observed_generation": generation,
            "conditions": set_condition(conditions, FAILED, "True", reason, message, generation=generation, now=now),
        }
    )
