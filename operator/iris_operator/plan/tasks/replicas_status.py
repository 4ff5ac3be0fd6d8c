"""What a Task of several replicas says of itself: what its members do, as one. While they wait for a place, placement speaks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from iris_operator.api.life import Cause
from iris_operator.api.task import Attempt, Task, TaskPhase, TaskStatus
from iris_operator.plan.conditions import ConditionStatus, find_condition, is_true, set_condition
from iris_operator.plan.tasks.gang import MEMBER_FAILED, MEMBERS_RESTART, Gang, Standing
from iris_operator.plan.text import count, duration

_MAX_ATTEMPTS = 10
_MAX_MESSAGE = 1024
# Members that run within this are told of once, when all do.
_QUIET_SECONDS = 1.5
_RUNNING, _READY, _SCHEDULED = "Running", "Ready", "Scheduled"


def status_of(gang: Gang, now: datetime) -> tuple[TaskStatus, float | None]:
    """The status, and in how many seconds more may be said though nothing changes."""
    before = gang.parent.status
    if gang.taken:
        return _taken(gang, now), None
    if not gang.attempt:
        return before, None
    if gang.blamed is not None:
        return _failed(gang, gang.blamed, now), None
    if gang.count(Standing.DONE) == len(gang.members):
        words = f"all {len(gang.members)} members succeeded"
        return _ended(gang, TaskPhase.SUCCEEDED, "Completed", words, 0, now), None
    if gang.repeats or not gang.count(Standing.LIVE):
        return _over(gang, now), None
    return _under_way(gang, now)


def _taken(gang: Gang, now: datetime) -> TaskStatus:
    words = (
        f"Task {gang.taken[0]} is there already and is no member of this one: delete it, or make this one anew under "
        "another name"
    )
    return _say(gang, TaskPhase.PENDING, "MemberNameTaken", words, now, {_SCHEDULED: "False"})


def _failed(gang: Gang, blamed: Task, now: datetime) -> TaskStatus:
    status = blamed.status
    words = f"member {blamed.metadata.name}: {status.message}"
    left = len(gang.there) - gang.count(Standing.FAILED) - gang.count(Standing.DONE)
    if not left:
        return _ended(gang, status.phase or TaskPhase.FAILED, status.reason, words, status.exit_code, now)
    before = gang.parent.status.phase
    words += f"; {count(left, 'other member')} of {len(gang.members)} still to stop"
    return _say(gang, before or TaskPhase.RUNNING, status.reason, words, now, {})


def _ended(gang: Gang, phase: TaskPhase, reason: str, words: str, exit_code: int | None, now: datetime) -> TaskStatus:
    kind = "Complete" if phase is TaskPhase.SUCCEEDED else "Failed"
    told: dict[str, ConditionStatus] = {_RUNNING: "False", kind: "True"}
    if find_condition(gang.parent.status.conditions, _READY) is not None:
        told[_READY] = "False"
    finish = max((one.status.finish_time for one in gang.there if one.status.finish_time is not None), default=now)
    return _say(
        gang, phase, reason, words, now, told, finish_time=finish, exit_code=exit_code, start_time=_start(gang),
        retry_after=None,
    )  # fmt: skip


def _over(gang: Gang, now: datetime) -> TaskStatus:
    """Their attempt is over, and another follows; nobody was blamed for good."""
    before, rests = gang.parent.status, [one.status.retry_after for one in gang.there]
    until = max((one for one in rests if one is not None), default=None)
    if before.phase is TaskPhase.PENDING and before.attempt == gang.attempt:
        return _with_counts(gang, before)  # told before; since then placement speaks
    reason, why = _why_over(gang)
    when = f" in {duration((until - now).total_seconds())} at the earliest" if until is not None and until > now else ""
    words = f"attempt {gang.attempt} is over: {why}; all {len(gang.members)} members are placed again{when}"
    words += _cost(gang)
    told: dict[str, ConditionStatus] = {_SCHEDULED: "False", _RUNNING: "False"}
    if find_condition(before.conditions, _READY) is not None:
        told[_READY] = "False"
    return _say(gang, TaskPhase.PENDING, reason, words, now, told, retry_after=until, start_time=None)


def _why_over(gang: Gang) -> tuple[str, str]:
    entry = next((one for one in _attempts(gang) if one.attempt == gang.attempt), None)
    if entry is not None and (entry.cause is not None or entry.reason != MEMBERS_RESTART):
        return entry.reason, entry.message
    if gang.count(Standing.MISSING):
        rank = gang.standings.index(Standing.MISSING)
        return "MemberDeleted", f"member {rank} was deleted"
    return MEMBERS_RESTART, "not all members could be placed for it"


def _cost(gang: Gang) -> str:
    """`(retry 1 of 3 for user failures)`, for what has grown."""
    policy, before = gang.parent.spec.retry_policy, gang.parent.status.retries
    said = [
        f"retry {gang.retries.of(cause)} of {policy.budget(cause)} for {cause.value.lower()} failures"
        for cause in Cause
        if gang.retries.of(cause) > before.of(cause)
    ]
    return f" ({', '.join(said)})" if said else " (costs no retry)"


def _under_way(gang: Gang, now: datetime) -> tuple[TaskStatus, float | None]:
    live = gang.of(Standing.LIVE)
    slow = [one for one in live if _phase(gang, one) is not TaskPhase.RUNNING]
    late = gang.count(Standing.LATE)
    place = next((one.spec.binding.slice_name for one in live if one.spec.binding is not None), "")
    if not slow and not late:
        done = gang.count(Standing.DONE)
        words = f"on slice {place}" + (f"; {done} of {len(gang.members)} members are done" if done else "")
        told: dict[str, ConditionStatus] = {_SCHEDULED: "True", _RUNNING: "True"}
        if gang.parent.spec.readiness_probe is not None:
            told[_READY] = "True" if _ready(gang) == len(gang.members) else "False"
        return _say(
            gang, TaskPhase.RUNNING, "Started", words, now, told, start_time=_start(gang), retry_after=None
        ), None
    begun = [one.spec.binding.bound_at for one in live if one.spec.binding is not None]
    wait = (max(begun) + timedelta(seconds=_QUIET_SECONDS) - now).total_seconds()
    if wait > 0:
        return gang.parent.status, wait
    phases = {_phase(gang, one) for one in live}
    building = bool(phases & {TaskPhase.RUNNING, TaskPhase.BUILDING}) or gang.count(Standing.DONE)
    phase, reason, words = TaskPhase.BUILDING if building else TaskPhase.ASSIGNED, "Assigned", "waits for its agent"
    if slow and _phase(gang, slow[0]) is not TaskPhase.ASSIGNED:
        reason, words = slow[0].status.reason, slow[0].status.message
    first = f"; {slow[0].metadata.name}: {words}" if slow else f"; {count(late, 'member')} not placed yet"
    words = f"on slice {place}; {len(live) - len(slow)} of {len(gang.members)} members run{first}"
    told = {_SCHEDULED: "True"}
    return _say(gang, phase, reason, words, now, told, start_time=None, retry_after=None), None


def _phase(gang: Gang, one: Task) -> TaskPhase:
    """As far as it is of the present attempt."""
    status = one.status
    return status.phase or TaskPhase.ASSIGNED if status.attempt == gang.attempt else TaskPhase.ASSIGNED


def _start(gang: Gang) -> datetime | None:
    """When the last of them began to run; None when not all did."""
    found = [one.status.start_time for one in gang.there if one.status.attempt == gang.attempt]
    starts = [one for one in found if one is not None]
    return max(starts) if len(starts) == len(gang.members) else None


def _ready(gang: Gang) -> int:
    probed = gang.parent.spec.readiness_probe is not None
    running = [one for one in gang.of(Standing.LIVE) if _phase(gang, one) is TaskPhase.RUNNING]
    well = [one for one in running if not probed or is_true(one.status.conditions, _READY)]
    return gang.count(Standing.DONE) + len(well)


def _attempts(gang: Gang) -> list[Attempt]:
    """Of all members, newest first; of each the member's that ended it."""
    found: dict[int, tuple[Task, Attempt]] = {}
    for task in gang.there:
        for one in task.status.attempts:
            other = found.get(one.attempt)
            if other is None or _weight(one) < _weight(other[1]):
                found[one.attempt] = task, one
    known = {one.attempt: one for one in gang.parent.status.attempts}  # also of members that are gone
    for number, (task, one) in found.items():
        kept = known.get(number)
        if kept is None or kept.cause is None:
            known[number] = one.model_copy(update={"message": f"member {task.metadata.name}: {one.message}"})
    return [known[number] for number in sorted(known, reverse=True)][:_MAX_ATTEMPTS]


def _weight(one: Attempt) -> tuple[object, ...]:
    """Whose fault it was comes first; then who ended first."""
    return one.cause is None, one.reason in (MEMBERS_RESTART, MEMBER_FAILED), one.finish_time is None, one.finish_time


def _with_counts(gang: Gang, status: TaskStatus, **more: Any) -> TaskStatus:
    ended = max((one.status.ended_attempt or 0 for one in gang.there), default=0)
    facts: dict[str, Any] = {
        "attempt": gang.attempt or None,
        "ended_attempt": ended or None,
        "members_ready": f"{_ready(gang)}/{len(gang.members)}",
        "observed_generation": gang.parent.metadata.generation,
        **more,
    }
    attempts = _attempts(gang)
    if attempts:
        facts["attempts"] = attempts
    if gang.retries != status.retries:
        facts["retries"] = gang.retries
    return status.model_copy(update=facts)


def _say(
    gang: Gang,
    phase: TaskPhase,
    reason: str,
    words: str,
    now: datetime,
    told: dict[str, ConditionStatus],
    **more: Any,
) -> TaskStatus:
    """`told`: conditions, each with this reason and these words."""
    words = words[:_MAX_MESSAGE]
    conditions = gang.parent.status.conditions
    generation = gang.parent.metadata.generation
    for kind, status in told.items():
        conditions = set_condition(conditions, kind, status, reason, words, generation=generation, now=now)
    facts = {"phase": phase, "reason": reason, "message": words, "conditions": conditions, **more}
    return _with_counts(gang, gang.parent.status, **facts)
