"""Desired x observed -> the next action, as a table by the case's name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from iris_operator.agent.actions import (
    Action,
    CancelPull,
    Forget,
    Nothing,
    Pull,
    Release,
    Remove,
    Report,
    Signal,
    Start,
)
from iris_operator.agent.diff import View, Worker, decide, diff
from iris_operator.agent.memory import Memory, Pulling, StartFailure, Trouble
from iris_operator.api.task import Task, TaskPhase
from iris_runtimes.protocol import Exit, Sandbox
from tests.unit.iris_operator.agent.build import NODE, NOW, POD, POD_UID, binding, sandbox, task

ME = Worker(POD_UID, POD, NODE)
DRAINING = replace(ME, drain_deadline=NOW + timedelta(seconds=5))
PULLED = Memory(attempt=1, image_digest="sha256:1")
RUNNING = {"phase": "Running", "reason": "Started", "attempt": 1, "startTime": "2026-11-21T12:00:00Z"}
DONE = {**RUNNING, "phase": "Succeeded"}
STOP = binding(stopReason="Stopped")
MOVE = binding(stopReason="SliceDeleted")
OVER = {"phase": "Pending", "reason": "SliceDeleted", "attempt": 1, "endedAttempt": 1}


def ago(seconds: float) -> Memory:
    """SIGTERM was sent so long ago."""
    return replace(PULLED, term_sent=NOW - timedelta(seconds=seconds))


@dataclass(frozen=True)
class Case:
    """What is seen, and what shall be done: an action, or (for Report) the phase and reason.

    A Report of an attempt's end is `Pending REASON`; `Remove REASON`: the sandbox goes, then that is told.
    """

    task: Task | None
    sandbox: Sandbox | None = None
    memory: Memory = PULLED
    worker: Worker = ME
    does: type[Action] | str = Nothing
    again_seconds: float | None = None


CASES = {
    "bound, image unknown": Case(task(), memory=Memory(), does=Pull),
    "bound, image pulled": Case(task(), does=Start),
    "bound, this worker is not ready": Case(task(), worker=replace(ME, ready=False)),
    "bound, this worker drains": Case(task(), worker=DRAINING, does="Pending WorkerDeleted"),
    "bound to an earlier worker": Case(task(bound=binding(workerUid="other"))),
    "pull under way, young": Case(
        task(), memory=Memory(1, pulling=Pulling(NOW)), again_seconds=1.5
    ),
    "pull under way, long": Case(
        task(), memory=Memory(1, pulling=Pulling(NOW - timedelta(seconds=9))), does="Building Pulling", again_seconds=5
    ),
    "pull under way, told just now": Case(
        task(),
        memory=Memory(1, pulling=Pulling(NOW - timedelta(seconds=9)), told_at=NOW - timedelta(seconds=1)),
        again_seconds=4,
    ),
    "pull under way, deleted": Case(task(deleting=True), memory=Memory(1, pulling=Pulling(NOW)), does=CancelPull),
    "pull under way, stopped": Case(task(bound=STOP), memory=Memory(1, pulling=Pulling(NOW)), does=CancelPull),
    "start failed for good": Case(
        task(), memory=replace(PULLED, failure=StartFailure("CommandNotFound", "x", NOW, 127)),
        does="Failed CommandNotFound",
    ),
    "start failed once": Case(
        task(), memory=replace(PULLED, trouble=Trouble.after(None, "NodeFault", "x", NOW)), again_seconds=1
    ),
    "start failed twice": Case(
        task(),
        memory=replace(PULLED, trouble=Trouble("NodeFault", "x", 2, NOW + timedelta(seconds=2))),
        does="Building NodeFault",
        again_seconds=2,
    ),
    "start failed, pause over": Case(
        task(), memory=replace(PULLED, trouble=Trouble("NodeFault", "x", 2, NOW)), does=Start
    ),
    "runs, not told": Case(task(), sandbox(), does="Running Started"),
    "runs, told": Case(task(RUNNING), sandbox()),
    "half made": Case(task(), sandbox("created"), does=Start),
    "half made, failed for good": Case(
        task(), sandbox("created"), replace(PULLED, failure=StartFailure("InvalidSpec", "x", NOW)), does=Remove
    ),
    "half made, deleted": Case(task(deleting=True), sandbox("created"), does=Remove),
    "exited 0": Case(task(RUNNING), sandbox(code=0), does="Succeeded Completed"),
    "exited 3": Case(task(), sandbox(code=3), does="Failed Error"),
    "exited, out of memory": Case(task(), sandbox(code=137, oom=True), does="Failed OOMKilled"),
    "exited 143 by itself": Case(task(), sandbox(code=143), does="Failed Error"),
    "exited before the deletion": Case(task(deleting=True), sandbox(code=0), does="Succeeded Completed"),
    "exited by our SIGTERM": Case(task(deleting=True), sandbox(code=0), ago(1), does="Killed TaskDeleted"),
    "exited by a SIGTERM of before our restart": Case(
        task(bound=STOP), sandbox(code=143), does="Killed Stopped"
    ),
    "done while its worker goes": Case(task(), sandbox(code=0), ago(1), DRAINING, does="Succeeded Completed"),
    "stopped as its worker goes": Case(task(), sandbox(code=1), ago(1), DRAINING, does="Remove WorkerDeleted"),
    "done within its grace": Case(task(bound=MOVE), sandbox(code=0), ago(1), does="Succeeded Completed"),
    "stopped to move": Case(task(RUNNING, bound=MOVE), sandbox(code=3), ago(1), does="Remove SliceDeleted"),
    "killed to move": Case(task(RUNNING, bound=MOVE), sandbox(code=137), ago(31), does="Remove SliceDeleted"),
    "stopped to move, before our restart": Case(task(RUNNING, bound=MOVE), sandbox(code=143), does="Remove SliceDeleted"),
    "failed before it was told to move": Case(task(RUNNING, bound=MOVE), sandbox(code=3), does="Failed Error"),
    "ended before our restart, told to move": Case(
        task(RUNNING, bound=MOVE), sandbox(code=3), worker=replace(ME, since=NOW + timedelta(seconds=1)),
        does="Remove SliceDeleted",
    ),
    "done before our restart, told to move": Case(
        task(RUNNING, bound=MOVE), sandbox(code=0), worker=replace(ME, since=NOW + timedelta(seconds=1)),
        does="Succeeded Completed",
    ),
    "failed before our restart, not told to move": Case(
        task(RUNNING), sandbox(code=3), worker=replace(ME, since=NOW + timedelta(seconds=1)), does="Failed Error"
    ),
    "stopped to move, and deleted": Case(
        task(RUNNING, bound=MOVE, deleting=True), sandbox(code=143), ago(1), does="Killed SliceDeleted"
    ),
    "stopped to move, removed, restarted since": Case(
        task(RUNNING, bound=MOVE), memory=Memory(), does="Pending SliceDeleted"
    ),
    "stopped to move, never started": Case(task(bound=MOVE), memory=Memory(), does="Pending SliceDeleted"),
    "stopped to move, half made": Case(task(bound=MOVE), sandbox("created"), does=Remove),
    "stopped to move, pull under way": Case(
        task(bound=MOVE), memory=Memory(1, pulling=Pulling(NOW)), does=CancelPull
    ),
    "told to move, runs": Case(task(RUNNING, bound=MOVE), sandbox(), does=Signal),
    "moved, told": Case(task(OVER, bound=MOVE)),
    "moved, told, restarted since": Case(task(OVER, bound=MOVE), memory=Memory()),
    "moved, told, no stop asked for any more": Case(task(OVER), memory=Memory()),
    "moved, told, and something of it is there": Case(task(OVER, bound=MOVE), sandbox(), does=Remove),
    "moved, told, worker not ready": Case(task(OVER), worker=DRAINING),
    "moved, told, deleted": Case(task(OVER, bound=MOVE, deleting=True), does=Release),
    "moved, here again": Case(task(OVER, bound=binding(attempt=2)), memory=Memory(), does=Pull),
    "moved, here again, with the first one's end in mind": Case(
        task(OVER, bound=binding(attempt=2)), memory=replace(ago(9), final=task(OVER).status), does=Pull
    ),
    "an end that no one saw": Case(
        task(RUNNING), replace(sandbox(code=255), exit=Exit(255, NOW, lost=True)), does="Remove SandboxLost"
    ),
    "an end that no one saw, no retry left": Case(
        task({**RUNNING, "retries": {"infrastructure": 10}}), replace(sandbox(code=255), exit=Exit(255, NOW, lost=True)),
        does="WorkerLost SandboxLost",
    ),
    "ended, told": Case(task(DONE), sandbox(code=0), does=Remove),
    "ended, told, removed": Case(task(DONE)),
    "ended, told, runs all the same": Case(task(DONE), sandbox(), does=Remove),
    "zombie: told to run, nothing there": Case(task(RUNNING), does="Pending SandboxLost"),
    "zombie, no retry left": Case(task({**RUNNING, "retries": {"infrastructure": 10}}), does="WorkerLost SandboxLost"),
    "an earlier attempt's status": Case(task(DONE, bound=binding(attempt=2)), memory=Memory(), does=Pull),
    "an earlier attempt's sandbox": Case(task(bound=binding(attempt=2)), sandbox(), does=Remove),
    "an earlier worker's sandbox": Case(task(), sandbox(worker="other"), does=Remove),
    "a sandbox without a Task": Case(None, sandbox(), does=Remove),
    "nothing is left": Case(None, does=Forget),
    "deleted, runs": Case(task(RUNNING, deleting=True), sandbox(), does=Signal),
    "deleted, within its grace": Case(task(RUNNING, deleting=True), sandbox(), ago(10), again_seconds=20),
    "deleted, grace over": Case(task(RUNNING, deleting=True), sandbox(), ago(31), does="SIGKILL"),
    "deleted, killed just now": Case(
        task(RUNNING, deleting=True), sandbox(), replace(ago(31), kill_sent=NOW), again_seconds=10
    ),
    "deleted, killed long ago": Case(
        task(RUNNING, deleting=True), sandbox(), replace(ago(60), kill_sent=NOW - timedelta(seconds=11)), does="SIGKILL"
    ),
    "deleted, ended, removed": Case(task(DONE, deleting=True), does=Release),
    "deleted, never started": Case(task(deleting=True), memory=Memory(), does=Release),
    "stopped, never started": Case(task(bound=STOP), memory=Memory(), does="Killed Stopped"),
    "stopped, ended unseen": Case(task(RUNNING, bound=STOP), memory=Memory(), does="Killed Stopped"),
    "stopped, runs": Case(task(RUNNING, bound=STOP), sandbox(), does=Signal),
    "draining, runs": Case(task(RUNNING), sandbox(), worker=DRAINING, does=Signal),
    "draining, the Pod's end is nearer than the grace": Case(
        task(RUNNING), sandbox(), ago(0), DRAINING, again_seconds=5
    ),
    "its end was written over": Case(
        task({**RUNNING, "phase": "Pending"}),
        memory=replace(PULLED, final=task(DONE).status.model_copy(update={"reason": "Completed"})),
        does="Succeeded Completed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_decide(name: str) -> None:
    case = CASES[name]
    view = View("uid-t", case.task, (case.sandbox,) if case.sandbox else (), case.memory)
    decision = decide(view, case.worker, NOW)
    if case.does == "SIGKILL":
        assert decision.action == Signal("task-uid-t-1", kill=True)
    elif isinstance(case.does, str) and case.does.startswith("Remove "):
        # Told only when it is gone: another attempt may start at that word.
        assert isinstance(decision.action, Remove) and decision.action.then is not None
        assert f"Remove {decision.action.then.reason}" == case.does
        assert decision.action.then.ended_attempt == 1
        told = replace(case.memory, attempt=1, final=decision.action.then)
        after = decide(replace(view, sandboxes=(), memory=told), case.worker, NOW)
        assert after.action == Report(decision.action.then, verify="task-uid-t-1")
    elif isinstance(case.does, str):
        assert isinstance(decision.action, Report)
        assert f"{decision.action.status.phase} {decision.action.status.reason}" == case.does
    else:
        assert type(decision.action) is case.does
    wanted = None if case.again_seconds is None else NOW + timedelta(seconds=case.again_seconds)
    assert decision.look_again == wanted


def test_deletion_grace_of_the_metadata_counts_for_nothing() -> None:
    body = task(RUNNING, deleting=True, terminationGracePeriodSeconds=7)
    decision = decide(View("uid-t", body, (sandbox(),), ago(0)), ME, NOW)
    assert decision.look_again == NOW + timedelta(seconds=7)


def test_diff_covers_both_sides() -> None:
    decisions = diff([task()], [sandbox(uid="orphan")], {}, ME, NOW)
    assert {uid: type(decision.action) for uid, decision in decisions.items()} == {"uid-t": Pull, "orphan": Remove}


def test_every_end_is_reported_the_same_whenever_asked() -> None:
    view = View("uid-t", task(), (sandbox(code=1),), PULLED)
    first, later = decide(view, ME, NOW), decide(view, ME, NOW + timedelta(hours=1))
    assert first == later
    assert isinstance(first.action, Report)
    assert first.action.status.phase is TaskPhase.FAILED


NEVER_AGAIN = [
    {"phase": phase, "attempt": 1, "endedAttempt": 1} for phase in (None, "Pending", "Building", "Running", "Succeeded")
]


@pytest.mark.parametrize("status", NEVER_AGAIN)
@pytest.mark.parametrize("memory", [Memory(), PULLED])
def test_an_attempt_that_is_over_is_never_started(status: dict[str, object], memory: Memory) -> None:
    built = task({name: value for name, value in status.items() if value})
    assert type(decide(View("uid-t", built, (), memory), ME, NOW).action) is Nothing
    assert type(decide(View("uid-t", built, (sandbox("created"),), memory), ME, NOW).action) is Remove
