"""An attempt of a Task that is over though the Task is not: what is written of it, and when another may follow.

Whether one follows, when the command or its user was at fault, is said in `verdict`.

A Task never runs twice at the same time. The chain of reasons, each link checked where it is named:

1. An attempt runs only below the cgroup of the one worker Pod whose UID its binding names, started by that Pod's agent
   (agent/diff). That agent starts no attempt that is `endedAttempt` or earlier.
2. `endedAttempt` is written by two only. The agent, after the runtime told it that the sandbox is removed: nothing of
   it runs, and by 1 nobody starts it again. The operator, when the worker Pod is no more in the API: asked there, not
   of a cache; and of a member that has succeeded (plan/tasks/replicas), whose command the agent saw end.
3. A worker Pod leaves the API only when the operator takes its finalizer off (plan/slices/worker_fence): the kubelet has
   reported the end of the Pod's containers and asked for the Pod's removal, which it does after it has killed
   everything in the Pod's cgroup and removed that; or the Node object is gone. A forced deletion, on a node that
   stands and is silent, takes nothing away: the kubelet may still run it, so the Task waits.
   Of a machine outside of Kubernetes the Lease stands for the worker Pod. Nothing but a person deletes it, who thereby says
   that the machine will not come back; or another machine takes its name over.
4. `spec.binding` is cleared only when `endedAttempt` covers it, and only the version of the Task that says so
   (resourceVersion). Before that no placement looks at the Task, after it the attempt's number is a higher one.

So a crash after any write leaves a state from which the same next write follows: over and still bound -> unbind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from iris_operator.api.base import Condition
from iris_operator.api.life import Cause, Retries, RetryPolicy
from iris_operator.api.task import Attempt, Task, TaskPhase, TaskStatus
from iris_operator.plan.conditions import find_condition, set_condition
from iris_operator.plan.tasks.verdict import retries_of, wait_before
from iris_operator.plan.text import count, duration

# Why Iris itself ends attempts (binding.stopReason), to run the Task elsewhere, and which budget that costs.
MOVES: Mapping[str, Cause | None] = MappingProxyType(
    {
        "SliceDrained": None,
        "SliceDeleted": None,
        "SliceFailed": None,
        "MembersRestart": None,
        "Preempted": Cause.PREEMPTION,
    }
)
WORKER_LOST = "WorkerLost"
READY = "Ready"
"""Condition of a Task with a readiness probe; nothing that has ended is ready."""
SPOT_RECLAIMED = "SpotReclaimed"
BACK_OFF = "BackOff"

_MAX_ATTEMPTS = 10
_MAX_MESSAGE = 1024
_OF_THE_TASK = ("conditions", "retries", "ended_attempt", "attempts")


@dataclass(frozen=True)
class AttemptEnd:
    """How an attempt ended. `words`: why, for people. `cause`: whose fault it was; None: nobody's, it costs no retry."""

    reason: str
    words: str
    at: datetime
    cause: Cause | None
    exit_code: int | None = None
    start_time: datetime | None = None
    log_path: str = ""


def of_attempt(status: TaskStatus, attempt: int) -> TaskStatus:
    """The status as far as it is of this attempt: an earlier one's facts are dropped, the Task's own are kept."""
    return status if status.attempt in (None, attempt) else TaskStatus(**_of_the_task(status))


def attempt_is_over(task: Task) -> bool:
    """Whether the attempt that the Task is bound for has ended, and another is to follow."""
    binding = task.spec.binding
    return binding is not None and not task.ended and (task.status.ended_attempt or 0) >= binding.attempt


def attempt_over(task: Task, end: AttemptEnd) -> TaskStatus:
    """The status of a bound Task after its attempt: Pending again, or ended when that cause's retries are used up.

    Only to be written once nothing of the attempt can run any more.
    """
    before, policy = task.status, task.spec.retry_policy
    so_far = retries_of(task)
    if end.cause is not None and so_far.of(end.cause) >= policy.budget(end.cause):
        return _used_up(task, end, end.cause)
    attempt, where = _attempt(task), _place(task)
    retries = so_far if end.cause is None else so_far.one_more(end.cause)
    cost = "costs no retry" if end.cause is None else _cost(retries, policy, end.cause)
    wait = timedelta() if end.cause is None else wait_before(policy, end.cause, retries.of(end.cause))
    when = f" in {duration(wait.total_seconds())}" if wait else ""
    message = f"attempt {attempt} on {where} is over: {end.words}; the Task is placed again{when} ({cost})"
    message = message[:_MAX_MESSAGE]
    why = BACK_OFF if wait else end.reason
    conditions = _condition(task, before.conditions, "Scheduled", "False", why, message, end.at)
    for kind in ("Running", READY):
        if find_condition(conditions, kind) is not None:
            conditions = _condition(task, conditions, kind, "False", end.reason, message, end.at)
    return TaskStatus(
        observed_generation=task.metadata.generation,
        phase=TaskPhase.PENDING,
        reason=why,
        message=message,
        conditions=conditions,
        attempt=attempt,
        retries=retries,
        retry_after=_whole_seconds(end.at + wait) if wait else None,
        ended_attempt=attempt,
        attempts=_history(task, end),
    )


def last_attempt(task: Task) -> Attempt | None:
    """The newest attempt that was followed by another, or will be."""
    return task.status.attempts[0] if task.status.attempts else None


def _cost(retries: Retries, policy: RetryPolicy, cause: Cause) -> str:
    kind = "" if cause is Cause.INFRASTRUCTURE else f" for {cause.value.lower()} failures"
    return f"retry {retries.of(cause)} of {policy.budget(cause)}{kind}"


_USED_UP = {
    Cause.USER: TaskPhase.FAILED,
    Cause.INFRASTRUCTURE: TaskPhase.WORKER_LOST,
    Cause.PREEMPTION: TaskPhase.PREEMPTED,
}


def _whole_seconds(moment: datetime) -> datetime:
    """Rounded up: the API keeps whole seconds, and a wait is not cut short."""
    return moment.replace(microsecond=0) + timedelta(seconds=1 if moment.microsecond else 0)


def _used_up(task: Task, end: AttemptEnd, cause: Cause) -> TaskStatus:
    attempt, limit = _attempt(task), task.spec.retry_policy.budget(cause)
    field = f"retryPolicy.{cause.budget}"
    tries = f"{field} is 0" if not limit else f"retried {count(limit, 'time')} before, and no more"
    message = f"{end.words} ({tries})"[:_MAX_MESSAGE]
    conditions = _condition(task, task.status.conditions, "Running", "False", end.reason, message, end.at)
    if find_condition(conditions, READY) is not None:
        conditions = _condition(task, conditions, READY, "False", end.reason, message, end.at)
    conditions = _condition(task, conditions, "Failed", "True", end.reason, message, end.at)
    assert task.spec.binding is not None
    return of_attempt(task.status, attempt).model_copy(
        update={
            "observed_generation": task.metadata.generation,
            "phase": _USED_UP[cause],
            "reason": end.reason,
            "message": message,
            "conditions": conditions,
            "attempt": attempt,
            "ended_attempt": attempt,
            "node_name": task.spec.binding.node_name,
            "finish_time": end.at,
            **({} if end.exit_code is None else {"exit_code": end.exit_code}),
        }
    )


def _history(task: Task, end: AttemptEnd) -> list[Attempt]:
    """Newest first; as many as the schema takes."""
    binding, status = task.spec.binding, of_attempt(task.status, _attempt(task))
    assert binding is not None
    entry = Attempt(
        attempt=binding.attempt,
        reason=end.reason,
        message=end.words,
        cause=end.cause,
        slice_name=binding.slice_name,
        node_name=binding.node_name,
        log_path=end.log_path or status.log_path,
        start_time=end.start_time or status.start_time,
        finish_time=end.at,
        exit_code=end.exit_code,
    )
    earlier = [one for one in status.attempts if one.attempt != entry.attempt]
    return [entry, *earlier][:_MAX_ATTEMPTS]


def _condition(
    task: Task, before: list[Condition], kind: str, status: Any, reason: str, message: str, now: datetime
) -> list[Condition]:
    return set_condition(before, kind, status, reason, message, generation=task.metadata.generation, now=now)


def _of_the_task(status: TaskStatus) -> dict[str, Any]:
    return {name: getattr(status, name) for name in _OF_THE_TASK if name in status.model_fields_set}


def _attempt(task: Task) -> int:
    assert task.spec.binding is not None
    return task.spec.binding.attempt


def _place(task: Task) -> str:
    assert task.spec.binding is not None
    return f"node {task.spec.binding.node_name} of slice {task.spec.binding.slice_name}"
