"""What is written of an attempt that is over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from iris_operator.api.life import Cause
from iris_operator.api.task import TaskPhase, TaskStatus
from iris_operator.plan.conditions import find_condition
from iris_operator.plan.placement.placement import PlacementView, plan_placement
from iris_operator.plan.tasks.retry import AttemptEnd, attempt_is_over, attempt_over, of_attempt
from iris_operator.plan.text import duration
from tests.builders import NAMESPACE, NOW, TaskBuilder, cluster, slice_, task

LOST = AttemptEnd("WorkerLost", "its node died", NOW, cause=Cause.INFRASTRUCTURE)
MOVED = AttemptEnd("SliceDrained", "its slice was drained", NOW, cause=None, exit_code=143)
RAN: dict[str, Any] = {
    "phase": "Running", "attempt": 1, "nodeName": "s-n0", "containerId": "c", "logPath": "/log", "imageDigest": "d",
    "startTime": "2026-11-21T11:00:00Z",
}  # fmt: skip


def _running(**status: Any) -> TaskBuilder:
    return task().bound().status(**RAN, **status).condition("Running", "True", "Started", ago=60)


def test_a_move_costs_nothing_and_keeps_the_record() -> None:
    status = attempt_over(_running().build(), MOVED)
    assert (status.phase, status.reason, status.ended_attempt, status.retries.infrastructure) == (
        TaskPhase.PENDING, "SliceDrained", 1, 0,
    )  # fmt: skip
    assert "attempt 1 on node s-n0 of slice s is over: its slice was drained" in status.message
    assert "costs no retry" in status.message
    (entry,) = status.attempts
    assert (entry.attempt, entry.reason, entry.cause, entry.exit_code) == (1, "SliceDrained", None, 143)
    assert (entry.slice_name, entry.node_name, entry.log_path) == ("s", "s-n0", "/log")
    assert entry.start_time is not None and entry.finish_time == NOW


def test_a_loss_is_charged_with_the_count() -> None:
    status = attempt_over(_running(retries={"infrastructure": 2}).build(), LOST)
    assert (status.phase, status.retries.infrastructure, status.attempts[0].cause) == (
        TaskPhase.PENDING, 3, Cause.INFRASTRUCTURE,
    )  # fmt: skip
    assert "retry 3 of 10" in status.message


def test_facts_of_the_attempt_go() -> None:
    """Nothing may look as if the next attempt had started."""
    status = attempt_over(_running().build(), LOST)
    assert (status.start_time, status.container_id, status.log_path, status.node_name) == (None, "", "", "")
    running, scheduled = (find_condition(status.conditions, kind) for kind in ("Running", "Scheduled"))
    assert running is not None and (running.status, running.reason) == ("False", "WorkerLost")
    assert scheduled is not None and scheduled.status == "False"


@pytest.mark.parametrize(
    ("limit", "before", "words"),
    [
        (0, 0, "retryPolicy.infrastructure is 0"),
        (1, 1, "retried 1 time before, and no more"),
        (3, 3, "retried 3 times before, and no more"),
    ],
)
def test_past_the_limit_it_ends(limit: int, before: int, words: str) -> None:
    built = task(retryPolicy={"infrastructure": limit}).bound().status(**RAN, retries={"infrastructure": before})
    status = attempt_over(built.build(), LOST)
    assert (status.phase, status.reason, status.retries.infrastructure) == (TaskPhase.WORKER_LOST, "WorkerLost", before)
    assert "its node died" in status.message and words in status.message
    assert (status.node_name, status.finish_time, status.log_path) == ("s-n0", NOW, "/log")
    failed = find_condition(status.conditions, "Failed")
    assert failed is not None and failed.status == "True"


@pytest.mark.parametrize(
    ("reason", "cause", "phase"),
    [
        ("Preempted", Cause.PREEMPTION, TaskPhase.PREEMPTED),
        ("SpotReclaimed", Cause.PREEMPTION, TaskPhase.PREEMPTED),
        ("WorkerLost", Cause.INFRASTRUCTURE, TaskPhase.WORKER_LOST),
        ("Error", Cause.USER, TaskPhase.FAILED),
    ],
)
def test_each_cause_has_its_own_budget_and_end(reason: str, cause: Cause, phase: TaskPhase) -> None:
    end = AttemptEnd(reason, "words", NOW, cause)
    others = {one.value.lower(): 9 for one in Cause if one is not cause}
    none = task(retryPolicy={cause.value.lower(): 0}).bound().status(**RAN, retries=others).build()
    one = task(retryPolicy={cause.value.lower(): 1}).bound().status(**RAN, retries=others).build()
    assert (attempt_over(none, end).phase, attempt_over(none, end).reason) == (phase, reason)
    again = attempt_over(one, end)
    assert (again.phase, again.retries.of(cause), again.attempts[0].cause) == (TaskPhase.PENDING, 1, cause)
    assert {name: getattr(again.retries, name) for name in others} == others


@pytest.mark.parametrize(
    ("before", "policy", "seconds"),
    [
        (0, {}, 10), (1, {}, 20), (2, {}, 40), (4, {}, 160), (5, {}, 300), (900, {}, 300),
        (0, {"backoffSeconds": 0}, 0), (3, {"backoffSeconds": 0}, 0),
        (0, {"maxBackoffSeconds": 0}, 0), (0, {"backoffSeconds": 60, "maxBackoffSeconds": 30}, 30),
    ],
)  # fmt: skip
def test_after_a_user_failure_it_rests(before: int, policy: dict[str, int], seconds: int) -> None:
    built = task(retryPolicy={"user": 1000, **policy}).bound().status(**RAN, retries={"user": before})
    status = attempt_over(built.build(), AttemptEnd("Error", "exit code 3", NOW, Cause.USER, exit_code=3))
    assert status.retry_after == (NOW + timedelta(seconds=seconds) if seconds else None)
    scheduled = find_condition(status.conditions, "Scheduled")
    assert scheduled is not None and scheduled.reason == status.reason == ("BackOff" if seconds else "Error")
    assert status.attempts[0].reason == "Error"
    assert (f"placed again in {duration(seconds)} " in status.message) == bool(seconds)
    assert f"(retry {before + 1} of 1000 for user failures)" in status.message


def test_only_a_user_failure_rests() -> None:
    assert attempt_over(_running().build(), LOST).retry_after is None
    assert attempt_over(_running(retryAfter="2026-11-21T12:00:00Z").build(), MOVED).retry_after is None


def test_a_rest_is_not_cut_short_by_the_api_s_whole_seconds() -> None:
    late = NOW + timedelta(milliseconds=1)
    over = attempt_over(task(retryPolicy={"user": 1}).bound().build(), AttemptEnd("Error", "", late, Cause.USER))
    read = TaskStatus.model_validate(over.wire())
    assert read.retry_after == NOW + timedelta(seconds=11)


def test_a_move_is_free_for_ever() -> None:
    built = task(retryPolicy={"infrastructure": 0}).bound().status(**RAN)
    assert attempt_over(built.build(), MOVED).phase is TaskPhase.PENDING


def test_newest_first_and_no_more_than_the_schema_takes() -> None:
    found = _running().build()
    for number in range(1, 15):
        bound = task().bound(attempt=number, ago=0).build()
        found = found.model_copy(update={"spec": bound.spec})
        found = found.model_copy(update={"status": attempt_over(found, MOVED)})
    assert [one.attempt for one in found.status.attempts] == [14, 13, 12, 11, 10, 9, 8, 7, 6, 5]


def test_an_attempt_is_recorded_once() -> None:
    before = _running().build()
    once = attempt_over(before, MOVED)
    again = attempt_over(before.model_copy(update={"status": once}), LOST)
    assert [(one.attempt, one.reason) for one in again.attempts] == [(1, "WorkerLost")]


def test_the_next_attempt_begins_blank_but_for_the_record() -> None:
    over = attempt_over(_running(retries={"infrastructure": 4}).build(), LOST)
    fresh = of_attempt(over, 2)
    assert (fresh.phase, fresh.attempt, fresh.reason) == (None, None, "")
    assert (fresh.retries.infrastructure, fresh.ended_attempt, fresh.attempts) == (5, 1, over.attempts)
    assert of_attempt(over, 1) is over
    assert of_attempt(TaskStatus(), 2) == TaskStatus()


def test_over_only_while_bound_for_it() -> None:
    over = {"phase": "Pending", "attempt": 1, "endedAttempt": 1}
    assert attempt_is_over(task().bound().status(**over).build())
    assert not attempt_is_over(task().bound(attempt=2).status(**over).build())
    assert not attempt_is_over(task().status(**over).build())
    assert not attempt_is_over(task().bound().status(**{**over, "phase": "WorkerLost"}).build())


def test_placed_again_with_a_higher_number() -> None:
    over = attempt_over(_running().build(), LOST)
    free = task().build().model_copy(update={"status": over})
    view = PlacementView(
        NAMESPACE, (cluster().build(),), (slice_("b").ready({"cpu": 4, "memory": "8Gi"}).build(),), (free,)
    )
    (bound,) = plan_placement(view, NOW + timedelta(seconds=1)).bindings
    assert (bound.binding.attempt, bound.binding.slice_name) == (2, "b")
