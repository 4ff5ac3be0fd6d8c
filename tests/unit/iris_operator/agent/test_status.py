"""Messages name the numbers; conditions follow metav1."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from iris_operator.agent import status as say
from iris_operator.agent.causes import asked_to_stop
from iris_operator.agent.memory import Pulling, StartFailure, Trouble
from iris_operator.api.life import Cause
from iris_operator.api.task import TaskPhase
from tests.unit.iris_operator.agent.build import NOW, binding, sandbox, task

LIMITED = task(resources={"limits": {"memory": "64Mi"}})


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exit code 0"), (3, "exit code 3"), (139, "exit code 139, by SIGSEGV"), (255, "exit code 255")],
)
def test_exit_codes(code: int, words: str) -> None:
    assert say.exited(task(), sandbox(code=code), None).message == words


def test_out_of_memory_names_limit_and_peak() -> None:
    told = say.exited(LIMITED, sandbox(code=137, oom=True, peak=64 * 2**20), None)
    assert (told.reason, told.message) == ("OOMKilled", "killed for want of memory: limit 64Mi (peak 64Mi)")
    assert "worker Pod's" in say.exited(task(), sandbox(code=137, oom=True), None).message


def test_a_lost_exit_is_not_the_commands() -> None:
    found = sandbox(code=255)
    assert found.exit is not None
    told = say.exited(task(), replace(found, exit=replace(found.exit, lost=True)), None)
    assert (told.phase, told.reason, told.exit_code) == (TaskPhase.PENDING, "SandboxLost", None)
    assert (told.retries.infrastructure, told.attempts[0].cause, told.attempts[0].exit_code) == (
        1, Cause.INFRASTRUCTURE, None,
    )  # fmt: skip


def test_a_move_tells_of_the_attempt_and_not_of_the_next() -> None:
    told = say.exited(task(), sandbox(code=143), asked_to_stop("SliceDrained"))
    assert say.is_move(told)
    assert (told.phase, told.reason, told.retries.infrastructure, told.start_time, told.exit_code) == (
        TaskPhase.PENDING, "SliceDrained", 0, None, None,
    )  # fmt: skip
    (entry,) = told.attempts
    assert (entry.exit_code, entry.cause, entry.start_time, entry.finish_time) == (143, None, NOW, NOW)
    assert entry.log_path == "/logs/uid-t/1/output.log"
    assert entry.message == "stopped because its slice is drained (exit code 143, by SIGTERM)"
    assert not say.is_move(say.running(task(), sandbox(), NOW))


def test_who_was_preempted_is_told_for_whom() -> None:
    told = say.exited(task(), sandbox(code=143), asked_to_stop("Preempted", "big"))
    assert (told.phase, told.reason, told.retries.preemption) == (TaskPhase.PENDING, "Preempted", 1)
    assert "stopped because its place is for Task big, of higher priority (exit code 143, by SIGTERM)" in told.message


def test_pulling_tells_how_far() -> None:
    told = say.pulling(task(), Pulling(NOW - timedelta(seconds=12), 5 * 2**20, 20 * 2**20), NOW)
    assert told.message == "pulling image registry.test/task:1 for 12s: 5 of 20 MiB"


def test_trouble_tells_how_often() -> None:
    told = say.in_trouble(task(), Trouble("ImagePullFailed", "no route", 4, NOW), NOW)
    assert told.message == "no route (failed 4 times, is tried again)"


def test_conditions_of_an_end() -> None:
    running = say.running(task(), sandbox(), NOW)
    body = task().model_copy(update={"status": running})
    ended = say.exited(body, sandbox(code=1), None)
    assert {one.type: (one.status, one.reason) for one in ended.conditions} == {
        "Running": ("False", "Error"),
        "Failed": ("True", "Error"),
    }
    assert all(one.observed_generation == 2 for one in ended.conditions)


def test_a_new_attempt_forgets_the_old_ones_facts() -> None:
    old = {"attempt": 1, "phase": "Failed", "exitCode": 3, "finishTime": "2026-11-21T11:00:00Z", "imageDigest": "d"}
    told = say.pulling(task(old, bound=binding(attempt=2)), Pulling(NOW), NOW)
    assert (told.attempt, told.exit_code, told.finish_time, told.image_digest) == (2, None, None, "")


def test_messages_are_bounded() -> None:
    told = say.not_startable(task(), StartFailure("InvalidSpec", "x" * 5000, NOW))
    assert len(told.message) == 1024


def test_trouble_waits_longer_each_time() -> None:
    trouble, waits = None, []
    for _ in range(8):
        trouble = Trouble.after(trouble, "NodeFault", "x", NOW)
        waits.append((trouble.retry_at - NOW).total_seconds())
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
