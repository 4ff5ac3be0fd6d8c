"""What is done for a Task of several replicas, by what its members do."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from iris_operator.api.life import Cause, Retries
from iris_operator.api.names import FINALIZER_TASK
from iris_operator.plan.conditions import find_condition
from iris_operator.plan.tasks.gang import gang_of
from iris_operator.plan.tasks.replicas import ReplicasPlan, plan_replicas
from iris_operator.plan.tasks.retry import AttemptEnd, attempt_is_over, attempt_over
from iris_operator.plan.tasks.verdict import after_exit
from tests.builders import NOW, TaskBuilder, at, member, task

_HELD = {"finalizers": [FINALIZER_TASK]}


def _parent(**spec: Any) -> TaskBuilder:
    return task("t", replicas=3, **spec).meta(**_HELD)


def _live(rank: int, phase: str = "Running", attempt: int = 1, stop: str = "", **status: Any) -> TaskBuilder:
    peers = {"rank": rank, "peers": [{"nodeName": f"s-n{one}"} for one in range(3)]}
    bound = member("t", rank).bound("s", rank, attempt=attempt, stopReason=stop, member=peers)
    told = {"phase": phase, "attempt": attempt, "startTime": at(30 + rank), **status} if phase else {}
    return bound.status(**told)


def _done(rank: int, attempt: int = 1) -> TaskBuilder:
    return _live(rank, "Succeeded", attempt, exitCode=0, finishTime=at(5 + rank), reason="Completed").condition(
        "Complete", "True"
    )


def _failed(rank: int, ago: float = 5, **status: Any) -> TaskBuilder:
    told = {"reason": "Error", "message": "exit code 3", "exitCode": 3, "finishTime": at(ago), **status}
    return _live(rank, **{"phase": "Failed", **told})


def _over(rank: int, attempt: int = 1, bound: bool = True, **entry: Any) -> TaskBuilder:
    """Its attempt is over, and another is to follow."""
    told = {"attempt": attempt, "reason": "WorkerLost", "message": "its node died", "cause": "Infrastructure"}
    row = {**told, "finishTime": at(5), **entry}
    status = {"phase": "Pending", "attempt": attempt, "endedAttempt": attempt, "attempts": [row]}
    if row["cause"]:
        status["retries"] = {row["cause"].lower(): 1}
    return (_live(rank, attempt=attempt) if bound else member("t", rank)).status(**{**status, "startTime": None})


_FREE = [member("t", rank) for rank in range(3)]


def _plan(parent: TaskBuilder, members: list[TaskBuilder], now: Any = NOW) -> ReplicasPlan:
    there = {one.metadata.name: one for one in (each.build() for each in members)}
    return plan_replicas(gang_of(parent.build(), there.get), now)


@dataclass(frozen=True)
class Case:
    """Names of what is created, stopped, deleted and told; the reason of stops; the Task's phase and reason."""

    members: list[TaskBuilder]
    parent: TaskBuilder = field(default_factory=_parent)
    create: list[int] = field(default_factory=list)
    stop: list[str] = field(default_factory=list)
    why: str = ""
    say: list[tuple[str, str]] = field(default_factory=list)
    delete: list[str] = field(default_factory=list)
    phase: str = ""
    reason: str = ""
    release: bool = False


_RUNS = _parent().status(phase="Running", reason="Started", attempt=1)
_KILLED = [_failed(0, phase="Killed", reason="MemberFailed"), _failed(1, phase="Killed", reason="MemberFailed")]
CASES = {
    "new: all are made": Case([], create=[0, 1, 2]),
    "one is missing": Case([_FREE[0], _FREE[2]], create=[1]),
    "all wait: placement speaks": Case(_FREE),
    "one being deleted is waited for": Case([*_FREE[:2], _FREE[2].deleting()]),
    "bound a moment ago: quiet": Case([_live(0, ""), _live(1, ""), _live(2, "")], phase="Assigned", reason="Assigned"),
    "one builds": Case(
        [_live(0), _live(1), _live(2, "Building", reason="Pulling", message="pulling x")],
        phase="Building", reason="Pulling",
    ),
    "all run": Case([_live(0), _live(1), _live(2)], phase="Running", reason="Started"),
    "one is done, the others run": Case([_done(0), _live(1), _live(2)], _RUNS, phase="Running", reason="Started"),
    "all are done": Case([_done(0), _done(1), _done(2)], _RUNS, phase="Succeeded", reason="Completed"),
    "one failed": Case(
        [_live(0), _failed(1), _live(2)], _RUNS, stop=["t-0", "t-2"], why="MemberFailed", phase="Running", reason="Error"
    ),
    "one failed, the others were told": Case(
        [_live(0, stop="MemberFailed"), _failed(1), _live(2, stop="SliceDrained")], _RUNS, phase="Running", reason="Error"
    ),
    "one failed, one is done, one waits": Case(
        [_done(0), _failed(1), _over(2, bound=False)], _RUNS,
        say=[("t-2", "Killed")], phase="Running", reason="Error",
    ),
    "one failed, all have ended": Case([*_KILLED, _failed(2, 60)], _RUNS, phase="Failed", reason="Error"),
    "its worker was lost too often": Case(
        [*_KILLED, _failed(2, phase="WorkerLost", reason="WorkerLost")], _RUNS, phase="WorkerLost", reason="WorkerLost"
    ),
    "of two failures the first is blamed": Case(
        [_failed(0, 5, reason="OOMKilled"), _failed(1, 9), _done(2)], _RUNS, phase="Failed", reason="Error"
    ),
    "one is to be repeated": Case(
        [_live(0), _over(1), _live(2)], _RUNS, stop=["t-0", "t-2"], why="MembersRestart", phase="Pending",
        reason="WorkerLost",
    ),
    "one is to be repeated, one was told, one is done": Case(
        [_live(0, stop="SliceDrained"), _over(1), _done(2)], _RUNS, say=[("t-2", "Pending")], phase="Pending",
        reason="WorkerLost",
    ),
    "all are out of it": Case(
        [_over(0, cause=None, reason="MembersRestart"), _over(1), _over(2, bound=False, cause=None)], _RUNS,
        phase="Pending", reason="WorkerLost",
    ),
    "one was deleted in the middle": Case(
        [_live(0), _live(1).deleting(), _live(2)], _RUNS, stop=["t-0", "t-2"], why="MembersRestart", phase="Pending",
        reason="MemberDeleted",
    ),
    "one is gone in the middle": Case(
        [_live(0), _live(2)], _RUNS, create=[1], stop=["t-0", "t-2"], why="MembersRestart", phase="Pending",
        reason="MemberDeleted",
    ),
    "one was made anew in the middle": Case(
        [_live(0), _FREE[1].made(1), _live(2)], _RUNS, stop=["t-0", "t-2"], why="MembersRestart", phase="Pending",
        reason="MembersRestart",
    ),
    "one was never bound, and never will be": Case(
        [_live(0), _FREE[1], _live(2)], _RUNS, stop=["t-0", "t-2"], why="MembersRestart",
        phase="Building", reason="Assigned",
    ),
    "the Task is deleted": Case(
        [_live(0), _FREE[1], _live(2).deleting()], _RUNS.deleting(), delete=["t-0", "t-1"]
    ),
    "the Task is deleted, the members are gone": Case([], _RUNS.deleting(), release=True),
    "the Task has ended before its members": Case(
        [_live(0), _FREE[1], _done(2)], _RUNS.status(phase="Failed", reason="SchedulingTimeout"),
        stop=["t-0"], why="MemberFailed", say=[("t-1", "Killed")],
    ),
    "all has ended": Case([_done(0), *_KILLED], _RUNS.status(phase="Failed")),
    "a name is another's": Case(
        [_FREE[0], task("t-1"), _FREE[2]], phase="Pending", reason="MemberNameTaken"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_done(case: Case) -> None:
    plan = _plan(case.parent, case.members)
    assert list(plan.create) == case.create
    assert [one.task.metadata.name for one in plan.stop] == case.stop
    assert {one.reason for one in plan.stop} == ({case.why} if case.why else set())
    assert [(one.metadata.name, str(status.phase)) for one, status in plan.say] == case.say
    assert [one.metadata.name for one in plan.delete] == case.delete
    assert (plan.release, plan.hold) == (case.release, False)
    if case.phase:
        assert plan.status is not None
        assert (plan.status.phase, plan.status.reason) == (case.phase, case.reason)
    else:
        assert plan.status in (None, case.parent.build().status)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_it_says_that_once(case: Case) -> None:
    """What was written is what would be written again, by whoever looks next."""
    plan = _plan(case.parent, case.members)
    if plan.status is None:
        return
    told = case.parent.status(**plan.status.stated())
    again = _plan(told, case.members, NOW + timedelta(seconds=3))
    if plan.status.phase and plan.status.phase.ended:
        assert again.status is None
    else:
        assert again.status == told.build().status
    assert again.note is None


def test_the_finalizer_comes_before_the_members() -> None:
    plan = _plan(task("t", replicas=3), [])
    assert plan.hold and plan.create == (0, 1, 2)


SAID = {
    "one builds": "on slice s; 2 of 3 members run; t-2: pulling x",
    "one is done, the others run": "on slice s; 1 of 3 members are done",
    "one failed": "member t-1: exit code 3; 2 other members of 3 still to stop",
    "one failed, all have ended": "member t-2: exit code 3",
    "one is to be repeated": "attempt 1 is over: member t-1: its node died; all 3 members are placed again "
    "(retry 1 of 10 for infrastructure failures)",
    "one was deleted in the middle": "attempt 1 is over: member 1 was deleted; all 3 members are placed again "
    "(costs no retry)",
    "all are done": "all 3 members succeeded",
}


@pytest.mark.parametrize("name", SAID)
def test_the_words(name: str) -> None:
    plan = _plan(CASES[name].parent, CASES[name].members)
    assert plan.status is not None
    assert plan.status.message == SAID[name]


READY = {
    "all run": "3/3",
    "one builds": "2/3",
    "one is done, the others run": "3/3",
    "one is to be repeated": "2/3",
    "all are out of it": "0/3",
}


@pytest.mark.parametrize("name", READY)
def test_how_many_are_ready(name: str) -> None:
    plan = _plan(CASES[name].parent, CASES[name].members)
    assert plan.status is not None
    assert plan.status.members_ready == READY[name]


def test_a_readiness_probe_counts() -> None:
    probe = {"readinessProbe": {"tcpSocket": {"port": 80}}}
    two = [_live(0).condition("Ready", "True"), _live(1).condition("Ready", "True")]
    waits = _plan(_parent(**probe), [*two, _live(2).condition("Ready", "False")]).status
    goes = _plan(_parent(**probe), [*two, _live(2).condition("Ready", "True")]).status
    assert waits is not None and goes is not None
    found = [find_condition(one.conditions, "Ready") for one in (waits, goes)]
    assert [one.status for one in found if one] == ["False", "True"]
    assert (waits.members_ready, goes.members_ready) == ("2/3", "3/3")


def test_the_end_has_times_and_an_exit_code() -> None:
    good = _plan(_RUNS, [_done(0), _done(1), _done(2)])
    bad = _plan(_RUNS, CASES["one failed, all have ended"].members)
    assert good.status is not None and bad.status is not None
    assert (good.status.exit_code, bad.status.exit_code) == (0, 3)
    assert good.status.start_time == NOW - timedelta(seconds=30)
    assert good.status.finish_time == NOW - timedelta(seconds=5)
    assert [find_condition(one.conditions, kind) is not None
            for one, kind in ((good.status, "Complete"), (bad.status, "Failed"))] == [True, True]  # fmt: skip
    assert (good.note and good.note.type, bad.note and bad.note.type) == ("Normal", "Warning")


def test_attempts_are_those_of_all_members() -> None:
    """Of each attempt one is kept: that of the member whose fault its end was."""
    plan = _plan(_RUNS, CASES["all are out of it"].members)
    assert plan.status is not None
    (one,) = plan.status.attempts
    assert (one.attempt, one.reason, one.cause, one.message) == (
        1, "WorkerLost", "Infrastructure", "member t-1: its node died",
    )  # fmt: skip
    assert plan.status.retries == Retries(infrastructure=1)
    assert (plan.status.attempt, plan.status.ended_attempt) == (1, 1)
    # The member that knew of it is gone; the Task knows still.
    told = _RUNS.status(**plan.status.stated())
    later = _plan(told, [_live(0, attempt=2), _live(1, attempt=2), _live(2, attempt=2)])
    assert later.status is not None
    assert [each.reason for each in later.status.attempts] == ["WorkerLost"]
    assert later.status.retries == Retries(infrastructure=1)


def test_who_was_done_begins_anew_as_if_it_had_been_moved() -> None:
    plan = _plan(_RUNS, CASES["one is to be repeated, one was told, one is done"].members)
    ((done, status),) = plan.say
    after = done.model_copy(update={"status": status})
    assert attempt_is_over(after) and not after.ended
    assert find_condition(status.conditions, "Complete") is None
    assert status.attempts[0].exit_code == 0 and status.attempts[0].cause is None


def test_a_changed_priority_is_the_members_too() -> None:
    parent = _parent(priority=5)
    members = [_live(0), member("t", 1, priority=5), _done(2)]
    assert [one.metadata.name for one in _plan(parent, members).rank] == ["t-0"]


def test_a_budget_is_that_of_all_members() -> None:
    """A member whose own command failed for the first time has no retry left when others have used them up."""
    used = {"rank": 0, "peers": [], "retries": {"user": 2, "infrastructure": 1}}
    bound = member("t", 0, retryPolicy={"user": 2, "infrastructure": 2}).bound(member=used).phase("Running").build()
    assert after_exit(bound, 3).phase == "Failed"
    once = attempt_over(bound, AttemptEnd("WorkerLost", "gone", NOW, cause=Cause.INFRASTRUCTURE))
    assert (once.phase, once.retries.infrastructure) == ("Pending", 2)
    spent = {**used, "retries": {"infrastructure": 2}}
    last = member("t", 0, retryPolicy={"infrastructure": 2}).bound(member=spent).phase("Running").build()
    assert attempt_over(last, AttemptEnd("WorkerLost", "gone", NOW, cause=Cause.INFRASTRUCTURE)).phase == "WorkerLost"


def test_what_was_bound_just_now_is_told_a_little_later() -> None:
    bound = [
        _live(rank, "").spec(binding={**_live(rank).body()["spec"]["binding"], "boundAt": at(0.5)}) for rank in range(3)
    ]
    plan = _plan(_parent(), bound)
    assert plan.recheck_seconds == pytest.approx(1.0)
    assert plan.status == _parent().build().status


def test_one_that_is_not_bound_yet_is_waited_for() -> None:
    def soon(rank: int) -> TaskBuilder:
        return _live(rank).spec(binding={**_live(rank).body()["spec"]["binding"], "boundAt": at(4)})

    plan = _plan(_RUNS, [soon(0), _FREE[1], soon(2)])
    assert plan.stop == ()
    assert plan.recheck_seconds == pytest.approx(6.0)
