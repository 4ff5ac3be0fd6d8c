"""What the operator does for a Task of several replicas: makes its members, ends or repeats all of them when one can't go on,
says what they do as one.

Each member is an ordinary Task: bound, run, retried and let go as any (`lifecycle`, `retry`, the agent). Here is only
what they do together, and all of it follows from what the API holds: the same plan comes after a crash between any two writes.

- A member's attempt is over and another is to follow: the rest is stopped with `MembersRestart`, which costs nothing, and
  who is done already begins anew. Placement waits until nothing is bound any more (squad), then all have the next attempt.
- A member has failed for good: the rest is stopped with `MemberFailed`, and Killed.
- Retries are those of all together: each binding tells how many there were (`verdict.retries_of`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from iris_operator.api.member import ContainerVerdict
from iris_operator.api.names import FINALIZER_TASK
from iris_operator.api.task import Task, TaskPhase, TaskStatus
from iris_operator.plan.actions import Note, StopTask
from iris_operator.plan.conditions import set_condition
from iris_operator.plan.tasks.container_verdict import container_verdicts
from iris_operator.plan.tasks.gang import MEMBER_FAILED, MEMBERS_RESTART, Gang, Standing
from iris_operator.plan.tasks.replicas_status import status_of
from iris_operator.plan.tasks.retry import AttemptEnd, attempt_over

# Placement binds all members within moments; who is not bound so long after the others never will be in that attempt.
_LATE_SECONDS = 10
_TAKEN_SECONDS = 5.0
_ENDS = ("Complete", "Failed")


@dataclass(frozen=True)
class ReplicasPlan:
    """In this order: our finalizer put on (`hold`), members made (`create`: ranks), stopped, deleted, given a status
    (`say`), told what to do about their container (`tell`), given the Task's priority (`rank`); then the Task's own status,
    its Event, the finalizer off (`release`)."""

    hold: bool = False
    create: tuple[int, ...] = ()
    stop: tuple[StopTask, ...] = ()
    delete: tuple[Task, ...] = ()
    say: tuple[tuple[Task, TaskStatus], ...] = ()
    tell: tuple[tuple[Task, ContainerVerdict], ...] = ()
    rank: tuple[Task, ...] = ()
    status: TaskStatus | None = None
    note: Note | None = None
    release: bool = False
    recheck_seconds: float | None = None


def plan_replicas(gang: Gang, now: datetime) -> ReplicasPlan:
    """The plan of one Task of several replicas."""
    parent = gang.parent
    if parent.deleting:
        held = FINALIZER_TASK in parent.metadata.finalizers
        return ReplicasPlan(
            delete=tuple(one for one in gang.there if not one.deleting), release=held and not gang.there
        )
    if parent.ended:
        return _end(gang, parent.status.reason, f"Task {parent.metadata.name} has ended", now, None)
    status, quiet = status_of(gang, now)
    note = _note(gang, status)
    if gang.blamed is not None:
        blamed = gang.blamed
        words = f"member {blamed.metadata.name} {blamed.status.phase}: {blamed.status.reason}"
        return _end(gang, MEMBER_FAILED, words, now, status, note)
    repeat, late = _repeats(gang, now)
    again = _TAKEN_SECONDS if gang.taken else None  # nobody tells when that Task goes
    return ReplicasPlan(
        hold=FINALIZER_TASK not in parent.metadata.finalizers,
        create=tuple(
            rank
            for rank, one in enumerate(gang.members)
            if one is None and not gang.taken  # all or none: half a gang is no use to anybody
        ),
        stop=tuple(_stop(gang, MEMBERS_RESTART)) if repeat else (),
        say=tuple((one, _anew(one, now)) for one in gang.of(Standing.DONE)) if repeat else (),
        rank=tuple(one for one in gang.there if not one.ended and one.spec.priority != parent.spec.priority),
        tell=() if repeat else tuple(container_verdicts(gang)),
        status=status,
        note=note,
        recheck_seconds=min((one for one in (quiet, late, again) if one is not None), default=None),
    )


def _repeats(gang: Gang, now: datetime) -> tuple[bool, float | None]:
    """Whether those that are in the attempt begin anew; else when to look whether they must."""
    if gang.repeats:
        return True, None
    bindings = [one.spec.binding for one in gang.of(Standing.LIVE)]
    begun = [one.bound_at for one in bindings if one is not None]
    if not gang.count(Standing.LATE) or not begun:
        return False, None
    left = (min(begun) + timedelta(seconds=_LATE_SECONDS) - now).total_seconds()
    return left <= 0, max(left, 0.0) or None


def _end(
    gang: Gang, reason: str, words: str, now: datetime, status: TaskStatus | None, note: Note | None = None
) -> ReplicasPlan:
    waiting = gang.of(Standing.BEHIND, Standing.LATE)
    return ReplicasPlan(
        stop=tuple(_stop(gang, MEMBER_FAILED)),
        say=tuple((one, _killed(one, reason, words, now)) for one in waiting),
        status=status,
        note=note,
    )


def _stop(gang: Gang, reason: str) -> Iterator[StopTask]:
    for one in gang.of(Standing.LIVE):
        if one.spec.binding is not None and not one.spec.binding.stop_reason:
            yield StopTask(one, reason)


def _anew(done: Task, now: datetime) -> TaskStatus:
    """Of a member that succeeded in an attempt that others must repeat. Nothing of it runs: its command has ended."""
    before = done.status
    words = f"it succeeded, but another member's attempt is repeated (exit code {before.exit_code})"
    end = AttemptEnd(
        MEMBERS_RESTART, words, now, None, before.exit_code, start_time=before.start_time, log_path=before.log_path
    )
    after = attempt_over(done, end)
    return after.model_copy(update={"conditions": [one for one in after.conditions if one.type not in _ENDS]})


def _killed(member: Task, reason: str, words: str, now: datetime) -> TaskStatus:
    """Of a member that nothing runs of, and nothing will."""
    generation = member.metadata.generation
    message = f"never placed again: {words}" if member.status.attempt else f"never placed: {words}"
    conditions = set_condition(
        member.status.conditions, "Failed", "True", reason, message, generation=generation, now=now
    )
    return member.status.model_copy(
        update={
            "phase": TaskPhase.KILLED,
            "reason": reason,
            "message": message,
            "conditions": conditions,
            "finish_time": now,
            "retry_after": None,
            "observed_generation": generation,
        }
    )


def _note(gang: Gang, status: TaskStatus) -> Note | None:
    """One Event for each attempt that is over, and for the end."""
    before = gang.parent.status
    if status.phase is not None and status.phase.ended:
        kind = "Normal" if status.phase is TaskPhase.SUCCEEDED else "Warning"
    elif status.phase is TaskPhase.PENDING and before.phase not in (None, TaskPhase.PENDING):
        kind = "Warning"
    else:
        return None
    return Note("Normal" if kind == "Normal" else "Warning", status.reason, status.message)
