"""What the operator says of a Task: why it waits, that its worker is gone; and when it is unbound or let go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from iris_operator.api.task import TaskPhase
from iris_operator.plan.conditions import find_condition
from iris_operator.plan.tasks.lifecycle import TaskPlan, never_placed, plan_task, plan_waiting
from tests.builders import NOW, TaskBuilder, at, task

_ASSIGNED = "placed on node s-n0 of slice s; waits for its agent"


@dataclass(frozen=True)
class Case:
    """A Task; the phase and reason written (empty: nothing is), and whether it is unbound or let go."""

    task: TaskBuilder
    worker_exists: bool
    phase: str = ""
    reason: str = ""
    release: bool = False
    unbind: bool = False


OVER = {"phase": "Pending", "reason": "SliceDeleted", "attempt": 1, "endedAttempt": 1}
STOPPED: dict[str, Any] = {"stopReason": "SliceDeleted"}

CASES = {
    "not bound": Case(task(), False),
    "just bound": Case(task().bound(ago=1), True),
    "bound, its agent is slow": Case(task().bound(ago=11), True, "Assigned", "Assigned"),
    "that is said once": Case(
        task().bound(ago=11).status(phase="Assigned", reason="Assigned", message=_ASSIGNED), True
    ),
    "bound anew, its agent is slow": Case(
        task().bound(attempt=2, ago=11).status(phase="Pending", attempt=1, endedAttempt=1), True, "Assigned", "Assigned"
    ),
    "assigned, its worker is gone": Case(
        task().bound(ago=11).status(phase="Assigned", attempt=1), False, "Pending", "WorkerLost"
    ),
    "the agent has spoken": Case(task().bound().phase("Building"), True),
    "running": Case(task().bound().phase("Running"), True),
    "ended": Case(task().bound().phase("Succeeded"), True),
    "leaving, its agent lives": Case(task().bound().phase("Running").deleting(), True),
    "worker gone before it began": Case(task().bound(), False, "Pending", "WorkerLost"),
    "worker gone while it ran": Case(task().bound().phase("Running"), False, "Pending", "WorkerLost"),
    "worker gone, and no retry left": Case(
        task().bound().phase("Running").status(retries={"infrastructure": 10}), False, "WorkerLost", "WorkerLost"
    ),
    "worker gone after it ended": Case(task().bound().phase("Failed"), False),
    "worker gone, told to leave before": Case(
        task().bound(**STOPPED).phase("Running").status(retries={"infrastructure": 10}),
        False,
        "Pending",
        "SliceDeleted",
    ),
    "worker gone, told to make room before": Case(
        task().bound(stopReason="Preempted").phase("Running"), False, "Pending", "Preempted"
    ),
    "worker gone, told to make room too often": Case(
        task().bound(stopReason="Preempted").phase("Running").status(retries={"preemption": 100}),
        False,
        "Preempted",
        "Preempted",
    ),
    "worker gone, told to end for good before": Case(
        task().bound(stopReason="Stopped").phase("Running"), False, "Killed", "Stopped"
    ),
    "worker gone, leaving": Case(task().bound().phase("Running").deleting(), False, "WorkerLost", "WorkerLost", True),
    "worker gone, told to leave, and leaving for good": Case(
        task().bound(**STOPPED).phase("Running").deleting(), False, "Killed", "SliceDeleted", True
    ),
    "worker gone, ended and leaving": Case(task().bound().phase("Succeeded").deleting(), False, release=True),
    "leaving without our finalizer": Case(task().bound().phase("Succeeded").deleting().meta(finalizers=[]), False),
    "attempt over": Case(task().bound(**STOPPED).status(**OVER), True, unbind=True),
    "attempt over, worker gone": Case(task().bound().status(**OVER), False, unbind=True),
    "attempt over, and the Task leaves": Case(task().bound().status(**OVER).deleting(), True, unbind=True),
    "attempt over, unbound": Case(task().status(**OVER), False),
    "attempt over, unbound, and the Task leaves": Case(
        task().bound().status(**OVER).deleting().spec(binding=None), False, release=True
    ),
    "attempt over, bound for the next": Case(task().bound(attempt=2, ago=1).status(**OVER), True),
    "the next one's worker gone": Case(task().bound(attempt=2).status(**OVER), False, "Pending", "WorkerLost"),
    "no retry left, told": Case(
        task().bound().status(phase="WorkerLost", attempt=1, endedAttempt=1, retries={"infrastructure": 10}), False
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bound(name: str) -> None:
    case = CASES[name]
    plan = plan_task(case.task.build(), case.worker_exists, NOW)
    assert _said(plan) == (case.phase, case.reason)
    assert (plan.release, plan.unbind) == (case.release, case.unbind)
    # The cache may be wrong: that a worker is gone is only to be said after asking.
    assert plan.lost == (plan.status is not None and not case.worker_exists)


@pytest.mark.parametrize("name", CASES)
def test_a_crash_after_any_write_only_repeats_the_next(name: str) -> None:
    """From each case, as often as it takes: a Task comes to rest, and a binding goes only after its attempt."""
    case = CASES[name]
    found = case.task.build()
    for _ in range(4):
        plan = plan_task(found, case.worker_exists, NOW)
        if plan.status is not None:
            found = found.model_copy(update={"status": plan.status})
        elif plan.unbind:
            binding = found.spec.binding
            assert binding is not None and found.status.ended_attempt == binding.attempt
            found = found.model_copy(update={"spec": found.spec.model_copy(update={"binding": None})})
        else:
            return
    raise AssertionError(f"{name} never rests: {found}")


def _said(plan: TaskPlan) -> tuple[str, str]:
    return (str(plan.status.phase), plan.status.reason) if plan.status else ("", "")


def test_a_lost_task_says_whose_fault_it_was() -> None:
    running = task(retryPolicy={"infrastructure": 0}).bound().phase("Running").status(startTime="2026-11-21T11:00:00Z")
    status = plan_task(running.build(), False, NOW).status
    assert status is not None and status.phase is TaskPhase.WORKER_LOST
    assert "worker s-worker-0 on node s-n0 is gone" in status.message
    assert "not the command's fault" in status.message
    assert (status.finish_time, status.attempt, status.node_name, status.exit_code) == (NOW, 1, "s-n0", None)
    failed = find_condition(status.conditions, "Failed")
    assert failed is not None and (failed.status, failed.reason) == ("True", "WorkerLost")


def test_assigned_speaks_of_the_new_attempt() -> None:
    before = (
        task()
        .bound(attempt=2, ago=11)
        .status(phase="Pending", attempt=1, endedAttempt=1, logPath="/1", exitCode=3, retries={"user": 1})
    )
    status = plan_task(before.build(), True, NOW).status
    assert status is not None
    assert (status.attempt, status.node_name, status.log_path, status.exit_code) == (2, "s-n0", "", None)
    assert (status.ended_attempt, status.retries.user) == (1, 1)


class TestSpot:
    """A spot slice's node is taken back: that is not its fault, nor the platform's."""

    def test_costs_a_preemption(self) -> None:
        status = plan_task(task().bound().phase("Running").build(), False, NOW, spot=True).status
        assert status is not None and (status.phase, status.reason) == (TaskPhase.PENDING, "SpotReclaimed")
        assert (status.retries.preemption, status.retries.infrastructure) == (1, 0)
        assert "slice s is spot" in status.message and "retry 1 of 100 for preemption failures" in status.message

    def test_too_often(self) -> None:
        built = task(retryPolicy={"preemption": 2}).bound().phase("Running").status(retries={"preemption": 2})
        status = plan_task(built.build(), False, NOW, spot=True).status
        assert status is not None and (status.phase, status.reason) == (TaskPhase.PREEMPTED, "SpotReclaimed")

    def test_a_move_from_it_is_free_as_ever(self) -> None:
        status = plan_task(task().bound(**STOPPED).phase("Running").build(), False, NOW, spot=True).status
        assert status is not None and (status.reason, status.retries.preemption) == ("SliceDeleted", 0)


class TestSchedulingTimeout:
    _LATE = task(timeouts={"schedulingSeconds": 60})

    def test_ends_with_what_it_waited_for(self) -> None:
        plan = _waiting(self._LATE.made(60), "TooLarge", "needs 9 GPUs")
        status = plan.status
        assert status is not None and (status.phase, status.reason) == (TaskPhase.FAILED, "SchedulingTimeout")
        assert status.message == (
            "was not placed within 60s (timeouts.schedulingSeconds). It waited for: TooLarge: needs 9 GPUs"
        )
        assert status.finish_time == NOW and plan.note is not None and plan.note.reason == "SchedulingTimeout"
        said = {one.type: (one.status, one.reason) for one in status.conditions}
        assert said == {"Scheduled": ("False", "SchedulingTimeout"), "Failed": ("True", "SchedulingTimeout")}

    @pytest.mark.parametrize(
        ("built", "left"),
        [
            (_LATE.made(59), 1),
            (_LATE.made(900).status(attempts=[{"attempt": 1, "reason": "Error", "finishTime": at(20)}]), 40),
            (_LATE.made(900).status(retryAfter=at(5)), 55),
            (_LATE.made(55).condition("Scheduled", "False", "TooLarge", "words", 99), 5),
        ],
        ids=["of its creation", "of its last attempt", "of the rest after it", "nothing new to say"],
    )
    def test_counts_from_the_last(self, built: TaskBuilder, left: float) -> None:
        plan = _waiting(built)
        assert plan.recheck_seconds == pytest.approx(left)
        assert plan.status is None or plan.status.phase is TaskPhase.PENDING

    def test_who_names_none_waits_for_ever(self) -> None:
        status = _waiting(task().made(1e7)).status
        assert status is not None and status.phase is TaskPhase.PENDING


def test_denied_for_good() -> None:
    plan = never_placed(task().made(0).build(), "PolicyDenied", "x" * 2000, NOW)
    assert plan.status is not None and len(plan.status.message) == 1024
    assert (plan.status.phase, plan.status.reason, plan.status.attempt) == (TaskPhase.FAILED, "PolicyDenied", None)


def test_looks_again_when_the_quiet_time_is_over() -> None:
    assert plan_task(task().bound(ago=1).build(), True, NOW).recheck_seconds == pytest.approx(9)


def _waiting(built: TaskBuilder, reason: str = "TooLarge", message: str = "words") -> TaskPlan:
    return plan_waiting(built.build(), reason, message, NOW)


class TestWaiting:
    def test_a_young_task_is_not_spoken_of(self) -> None:
        assert _waiting(task().made(0.5)) == TaskPlan(recheck_seconds=1.0)

    def test_why(self) -> None:
        status = _waiting(task().made(5)).status
        assert status is not None and (status.phase, status.reason, status.message) == ("Pending", "TooLarge", "words")
        scheduled = find_condition(status.conditions, "Scheduled")
        assert scheduled is not None and (scheduled.status, scheduled.reason) == ("False", "TooLarge")

    def test_the_same_words_once(self) -> None:
        assert _waiting(task().condition("Scheduled", "False", "TooLarge", "words", 99)) == TaskPlan()

    def test_new_numbers_not_too_often(self) -> None:
        said = task().condition("Scheduled", "False", "TooLarge", "other words", 4)
        assert _waiting(said) == TaskPlan(recheck_seconds=6.0)

    def test_new_numbers_after_a_while(self) -> None:
        assert _waiting(task().condition("Scheduled", "False", "TooLarge", "other words", 10)).status is not None

    def test_another_reason_at_once(self) -> None:
        assert _waiting(task().condition("Scheduled", "False", "NoSliceReady", "words", 0)).status is not None

    def test_new_numbers_are_bounded_for_as_long_as_it_waits(self) -> None:
        """Not only in the first seconds: a long queue must not cost a write per Task and change."""
        first = _waiting(task().condition("Scheduled", "False", "TooLarge", "1 free", 60), message="2 free").status
        assert first is not None
        again = task().build().model_copy(update={"status": first})
        later = plan_waiting(again, "TooLarge", "3 free", NOW + timedelta(seconds=1))
        assert later.status is None
        assert later.recheck_seconds is not None and later.recheck_seconds > 0
