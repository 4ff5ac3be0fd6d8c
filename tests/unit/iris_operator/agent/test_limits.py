"""Timeouts, illness, preStop, stop signals, set-up and retries -> the next action, as a table by the case's name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from iris_operator.agent import actions
from iris_operator.agent.causes import next_limit, stop_signal
from iris_operator.agent.diff import View, Worker, decide
from iris_operator.agent.memory import Hook, Illness, Memory, Pulling, StartFailure, Trouble
from iris_operator.agent.sandbox.stages import AT, COMMAND, FAILED, MISSING, Stage, parse
from iris_operator.agent.status import is_move
from iris_operator.api.task import Task, TaskStatus
from iris_runtimes.errors import InvalidSpec
from iris_runtimes.protocol import Exit, Sandbox, SandboxState
from tests.unit.iris_operator.agent.build import NODE, NOW, POD, POD_UID, binding, sandbox, task

ME = Worker(POD_UID, POD, NODE)
PULLED = Memory(attempt=1, image_digest="sha256:1")
RUNNING: dict[str, Any] = {"phase": "Running", "reason": "Started", "attempt": 1, "startTime": "2026-11-21T12:00:00Z"}
LIMITED: dict[str, Any] = {"timeouts": {"runningSeconds": 60, "buildingSeconds": 30}}
SETUP: dict[str, Any] = {"setup": [{"command": ["one"], "name": "first"}, {"command": ["two"]}]}
SCRIPTED: dict[str, Any] = {"containerLifetime": {"setupScript": {"inline": "true"}, "startTimeoutSeconds": 20}}
HOOKED: dict[str, Any] = {"lifecycle": {"preStop": {"exec": {"command": ["bye"]}}, "stopSignal": "SIGINT"}}
TWICE: dict[str, Any] = {"retryPolicy": {"user": 2}}


def later(seconds: float) -> datetime:
    """So long after the sandbox's start; the Task was bound a second before that."""
    return NOW + timedelta(seconds=seconds)


def ended(code: int, after: float, **more: Any) -> Sandbox:
    """Exited so long after its start."""
    return replace(sandbox(), state=SandboxState.EXITED, exit=Exit(code, later(after), **more))


def at(
    kind: str, number: int = 0, code: int | None = None, since: float = 0, final: bool = False, last: str = ""
) -> Memory:
    """Set-up is there."""
    return replace(PULLED, stage=Stage(kind, later(since), number, code, final, last))


@dataclass(frozen=True)
class Case:
    """What is seen `after` seconds, and what is done: `Action`, `Report PHASE REASON`, `Remove REASON`; when to look again."""

    task: Task
    sandbox: Sandbox | None = None
    memory: Memory = PULLED
    after: float = 0
    does: str = "Nothing"
    again: float | None = None
    says: str = ""


CASES = {
    "runs, its limit is told to the clock": Case(task(RUNNING, **LIMITED), sandbox(), again=60),
    "runs, at its limit": Case(task(RUNNING, **LIMITED), sandbox(), after=60, does="Signal"),
    "stopped at its limit": Case(
        task(RUNNING, **LIMITED), ended(143, 61), replace(PULLED, term_sent=later(60)), 61,
        "Report Failed RunningTimeout", says="it ran for 60s",
    ),
    "stopped at its limit, and it ended well": Case(
        task(RUNNING, **LIMITED), ended(0, 61), replace(PULLED, term_sent=later(60)), 61, "Report Failed RunningTimeout"
    ),
    "stopped at its limit by an agent that is gone": Case(
        task(RUNNING, **LIMITED), ended(143, 61), after=70, does="Report Failed RunningTimeout"
    ),
    "ended before its limit, seen after it": Case(
        task(RUNNING, **LIMITED), ended(0, 59), after=70, does="Report Succeeded Completed"
    ),
    "killed by itself before its limit, seen after it": Case(
        task(RUNNING, **LIMITED), ended(137, 59), after=70, does="Report Failed Error"
    ),
    "stopped at its limit, lost": Case(
        task(RUNNING, **LIMITED), ended(255, 61, lost=True), replace(PULLED, term_sent=later(60)), 61,
        "Report Failed RunningTimeout", says="nobody saw how it ended",
    ),
    "deleted at its limit": Case(
        task(RUNNING, deleting=True, **LIMITED), ended(143, 61), replace(PULLED, term_sent=later(60)), 61,
        "Report Killed TaskDeleted",
    ),
    "out of time, retried": Case(
        task(RUNNING, **LIMITED, **TWICE), ended(143, 61), replace(PULLED, term_sent=later(60)), 61,
        "Remove RunningTimeout", says="retry 1 of 2 for user failures",
    ),
    "pull under way, its limit is told to the clock": Case(
        task(**LIMITED), memory=Memory(1, pulling=Pulling(later(28))), after=28.5, again=29
    ),
    "building, at its limit, pull under way": Case(
        task(**LIMITED), memory=Memory(1, pulling=Pulling(NOW)), after=29, does="CancelPull"
    ),
    "building, at its limit": Case(
        task(**LIMITED), memory=Memory(), after=29, does="Report Failed BuildingTimeout", says="its inputs were being brought"
    ),
    "building, at its limit, in trouble": Case(
        task(**LIMITED), memory=replace(PULLED, trouble=Trouble("GPUsBusy", "needs 2 GPUs", 3, later(99))), after=29,
        does="Report Failed BuildingTimeout", says="needs 2 GPUs",
    ),
    "building, at its limit, retried": Case(
        task(**LIMITED, **TWICE), memory=Memory(), after=29, does="Report Pending BuildingTimeout"
    ),
    "waits out its trouble, but not beyond its limit": Case(
        task(**LIMITED), memory=replace(PULLED, trouble=Trouble("X", "x", 1, later(99))), again=29
    ),
    "runs, so building is over": Case(task(RUNNING, **LIMITED), sandbox(), after=40, again=60),
    "ran, and its sandbox is lost at its limit": Case(
        task(RUNNING, **LIMITED), memory=Memory(), after=61, does="Report Pending SandboxLost"
    ),
    "not startable, retried": Case(
        task(**TWICE), memory=replace(PULLED, failure=StartFailure("CommandNotFound", "x", NOW, 127)),
        does="Report Pending CommandNotFound",
    ),
    "exited 3, retried": Case(task(RUNNING, **TWICE), ended(3, 1), after=1, does="Remove Error"),
    "exited 3, budget used up": Case(
        task({**RUNNING, "retries": {"user": 2}}, **TWICE), ended(3, 1), after=1, does="Report Failed Error",
        says="retried 2 times before, and no more",
    ),
    "out of memory, retried": Case(task(RUNNING, **TWICE), ended(137, 1, oom_killed=True), after=1, does="Remove OOMKilled"),
    "exited 3, a success by rule": Case(
        task(RUNNING, retryPolicy={"onExitCodes": [{"exitCodes": [3], "action": "Succeed"}]}), ended(3, 1),
        does="Report Succeeded Completed",
    ),
    "preempted, retried on that budget": Case(
        task(RUNNING, bound=binding(stopReason="Preempted")), ended(143, 1), replace(PULLED, term_sent=NOW),
        does="Remove Preempted", says="retry 1 of 100",
    ),
    "ill": Case(task(RUNNING), sandbox(), replace(PULLED, ill=Illness("VolumeFull", "v is full")), does="Signal"),
    "stopped for its illness": Case(
        task(RUNNING), ended(137, 9), replace(PULLED, ill=Illness("VolumeFull", "v is full"), term_sent=NOW),
        does="Report Failed VolumeFull", says="stopped because v is full (exit code 137, by SIGKILL)",
    ),
    "ill, and it ended by itself": Case(
        task(RUNNING), ended(3, 9), replace(PULLED, ill=Illness("VolumeFull", "v is full")), does="Report Failed Error"
    ),
    "preStop goes first": Case(task(RUNNING, deleting=True, **HOOKED), sandbox(), does="Hook"),
    "preStop of what never ran": Case(task(deleting=True, **HOOKED, **SETUP), sandbox(), at(AT, 1), does="Signal"),
    "preStop runs": Case(
        task(RUNNING, deleting=True, **HOOKED), sandbox(), replace(PULLED, hook=Hook(NOW)), 5, again=30
    ),
    "preStop is over": Case(
        task(RUNNING, deleting=True, **HOOKED), sandbox(), replace(PULLED, hook=Hook(NOW, over=True)), 5, "Signal"
    ),
    "preStop is over, signalled": Case(
        task(RUNNING, deleting=True, **HOOKED), sandbox(),
        replace(PULLED, hook=Hook(NOW, over=True), term_sent=later(5)), 6, again=30,
    ),
    "preStop hangs to the end of the grace": Case(
        task(RUNNING, deleting=True, **HOOKED), sandbox(), replace(PULLED, hook=Hook(NOW)), 30, "Signal"
    ),
    "ended while preStop ran": Case(
        task(RUNNING, deleting=True, **HOOKED), ended(0, 3), replace(PULLED, hook=Hook(NOW, True, "preStop failed: x")), 3,
        "Report Killed TaskDeleted", says="the Task was deleted; preStop failed: x (exit code 0)",
    ),
    "ended by its own stop signal, told by an agent that is gone": Case(
        task(RUNNING, deleting=True, **HOOKED), ended(130, 3), after=3, does="Report Killed TaskDeleted"
    ),
    "set-up not looked at": Case(task(**SETUP), sandbox(), does="Look"),
    "set-up, young": Case(task(**SETUP), sandbox(), at(AT, 1), after=1, again=1.5),
    "set-up, long": Case(
        task(**SETUP), sandbox(), at(AT, 1), 2, "Report Building SettingUp", says="set-up command 1 of 2 (first) runs"
    ),
    "set-up is over": Case(task(**SETUP), sandbox(), at(COMMAND, since=7), 7, "Report Running Started"),
    "set-up, at its limit": Case(task(**SETUP, **LIMITED), sandbox(), at(AT, 1), 29, "Signal"),
    "stopped in set-up": Case(
        task(**SETUP, **LIMITED), ended(143, 30), replace(at(AT, 2, final=True), term_sent=later(29)), 30,
        "Report Failed BuildingTimeout", says="set-up command 2 of 2 ran",
    ),
    "ended, set-up's end not read": Case(task(**SETUP), ended(3, 9), at(AT, 1), 9, "Look"),
    "set-up failed": Case(
        task(**SETUP), ended(3, 9), at(FAILED, 1, 3, final=True, last="no such host"), 9, "Report Failed SetupFailed",
        says="set-up command 1 of 2 (first) failed: exit code 3; its last line: no such host",
    ),
    "set-up killed": Case(
        task(**SETUP), ended(137, 9), at(AT, 2, final=True), 9, "Report Failed SetupFailed",
        says="set-up command 2 of 2 failed: exit code 137, by SIGKILL",
    ),
    "set-up failed, retried": Case(task(**SETUP, **TWICE), ended(3, 9), at(FAILED, 1, 3, final=True), 9, "Remove SetupFailed"),
    "the command behind set-up is missing": Case(
        task(**SETUP), ended(127, 9), at(MISSING, code=127, final=True, last="x: not found"), 9,
        "Report Failed CommandNotFound", says="x: not found",
    ),
    "the command behind set-up ended": Case(
        task(**SETUP), ended(0, 9), at(COMMAND, since=5, final=True), 9, "Report Succeeded Completed"
    ),
    "the command's time begins after set-up": Case(
        task(RUNNING, **SETUP, **LIMITED), sandbox(), at(COMMAND, since=7), 30, again=67
    ),
    "set-up script, its container's limit": Case(task(**SCRIPTED), sandbox(), at(AT), 19, "Signal"),
    "runs in a container that outlives it, which its script has set up": Case(
        task(RUNNING, containerLifetime={**SCRIPTED["containerLifetime"], "policy": "Persistent", "name": "c"}),
        sandbox(), after=19,
    ),
    "set-up script is over, so is its container's limit": Case(
        task(RUNNING, **SCRIPTED), sandbox(), at(COMMAND), 19
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_decide(name: str) -> None:
    case = CASES[name]
    view = View("uid-t", case.task, (case.sandbox,) if case.sandbox else (), case.memory)
    decision = decide(view, ME, later(case.after))
    action, words, status = decision.action, type(decision.action).__name__, None
    if isinstance(action, actions.Report):
        status = action.status
        words += f" {status.phase} {_reason(action.status)}"
    elif isinstance(action, actions.Remove) and action.then is not None:
        status = action.then
        words += f" {_reason(action.then)}"
    assert words == case.does
    assert decision.look_again == (None if case.again is None else later(case.again))
    assert case.says in (status.message if status is not None else "")


def _reason(status: TaskStatus) -> str:
    """Of the attempt's end, when another follows."""
    return status.attempts[0].reason if is_move(status) else status.reason


def test_the_signal_is_the_one_asked_for() -> None:
    over = replace(PULLED, hook=Hook(NOW, over=True))
    told = decide(View("uid-t", task(RUNNING, deleting=True, **HOOKED), (sandbox(),), over), ME, later(1))
    assert told.action == actions.Signal("task-uid-t-1", 2)
    hung = decide(
        View("uid-t", task(RUNNING, deleting=True, **HOOKED), (sandbox(),), replace(PULLED, hook=Hook(NOW))),
        ME,
        later(30),
    )
    assert isinstance(hung.action, actions.Signal) and hung.action.kill


def test_pre_stop_has_what_is_left_of_the_grace() -> None:
    body = task(RUNNING, deleting=True, terminationGracePeriodSeconds=20, **HOOKED)
    drains = replace(ME, drain_deadline=later(6))
    for worker, seconds in ((ME, 20), (drains, 6)):
        assert decide(View("uid-t", body, (sandbox(),), PULLED), worker, NOW).action == actions.Hook(
            body, "task-uid-t-1", seconds
        )


def test_a_start_that_took_part_of_the_time() -> None:
    told = decide(View("uid-t", task(**SETUP), (ended(0, 9),), at(COMMAND, since=5, final=True)), ME, later(9)).action
    assert isinstance(told, actions.Report) and told.status.start_time == later(5)
    unstarted = decide(View("uid-t", task(**SETUP), (ended(3, 9),), at(FAILED, 1, 3, final=True)), ME, later(9)).action
    assert isinstance(unstarted, actions.Report) and unstarted.status.start_time is None
    assert unstarted.status.exit_code == 3


@pytest.mark.parametrize(
    ("name", "number"), [("SIGTERM", 15), ("SIGUSR1", 10), ("SIGRTMIN+3", 37), ("SIGRTMAX", 64), ("SIGRTMIN", 34)]
)
def test_signals_by_name(name: str, number: int) -> None:
    assert stop_signal(task(lifecycle={"stopSignal": name})) == number


@pytest.mark.parametrize("name", ["SIGNOT", "SIGRTMAX+1", "SIGRTMIN+60", "SIGTERM+1"])
def test_signals_that_are_none(name: str) -> None:
    with pytest.raises(InvalidSpec, match="is no signal of Linux"):
        stop_signal(task(lifecycle={"stopSignal": name}))


def test_no_limits_no_clock() -> None:
    assert next_limit(task(), PULLED, None) is None
    assert next_limit(task(containerLifetime={"startTimeoutSeconds": 5}), PULLED, None) is None


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("", Stage(AT, NOW)),
        ("at 2\n", Stage(AT, NOW, 2)),
        ("failed 1 255\n", Stage(FAILED, NOW, 1, 255)),
        ("missing 127\n", Stage(MISSING, NOW, exit_code=127)),
        ("command\n", Stage(COMMAND, NOW)),
        ("failed 1", Stage(AT, NOW)),
        ("at 99999999999 \0 \u2028", Stage(AT, NOW)),
        ("at ²", Stage(AT, NOW)),
    ],
)
def test_what_the_file_of_the_stage_says(text: str, stage: Stage) -> None:
    assert parse(text, NOW) == stage
