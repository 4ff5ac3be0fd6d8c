"""The status a Task should have, from what the agent sees. Pure. Every message names the numbers."""

from __future__ import annotations

import signal
from dataclasses import replace
from datetime import datetime
from typing import Any

from iris_operator.agent.causes import StopCause
from iris_operator.agent.memory import Pulling, StartFailure, Trouble
from iris_operator.agent.probes.told import not_ready
from iris_operator.agent.sandbox.labels import SandboxFacts, facts
from iris_operator.agent.sandbox.stages import FAILED as SETUP_FAILED
from iris_operator.agent.sandbox.stages import MISSING, Stage, words_of
from iris_operator.api.base import Condition
from iris_operator.api.life import Cause
from iris_operator.api.member import ContainerSeen
from iris_operator.api.names import container_id
from iris_operator.api.quantity import amount, to_quantity
from iris_operator.api.task import Task, TaskPhase, TaskStatus
from iris_operator.plan.conditions import ConditionStatus, find_condition, set_condition
from iris_operator.plan.tasks.retry import AttemptEnd, attempt_over, of_attempt
from iris_operator.plan.tasks.verdict import after_exit, after_failure
from iris_operator.plan.text import clock, duration
from iris_runtimes.protocol import Exit, Sandbox

RUNNING, COMPLETE, FAILED = "Running", "Complete", "Failed"
SANDBOX_LOST = "SandboxLost"
_MAX_MESSAGE = 1024


def container(task: Task) -> str:
    """The sandbox id of a bound Task's attempt."""
    return container_id(task.metadata.uid, _attempt(task))


def was_signalled(sandbox: Sandbox, number: int = signal.SIGTERM) -> bool:
    """Whether it ended as a stop ends it: by its stop signal or SIGKILL, and not by the OOM killer."""
    ended = sandbox.exit
    return ended is not None and not ended.oom_killed and ended.exit_code in (128 + number, 128 + signal.SIGKILL)


def pulling(task: Task, progress: Pulling, now: datetime) -> TaskStatus:
    """Building: the image comes, or after it the bundle."""
    took = duration((now - progress.since).total_seconds())
    what = f"fetching {progress.fetching}" if progress.fetching else f"pulling image {task.spec.image}"
    message = f"{what} for {took}"
    if progress.total_bytes:
        message += f": {_mib(progress.done_bytes)} of {_mib(progress.total_bytes)} MiB"
    return _new(task, TaskPhase.BUILDING, "Fetching" if progress.fetching else "Pulling", message, {})


def in_trouble(task: Task, trouble: Trouble, now: datetime) -> TaskStatus:
    """Building: starting fails for now, and is tried again."""
    message = f"{trouble.message} (failed {trouble.failures} times, is tried again)"
    return _new(task, TaskPhase.BUILDING, trouble.reason, message, {})


def setting_up(task: Task, sandbox: Sandbox, stage: Stage) -> TaskStatus:
    """Building: what comes before its command runs."""
    message = f"{words_of(task, stage)} runs since {clock(stage.at)}"
    return _new(task, TaskPhase.BUILDING, "SettingUp", message, {"log_path": facts(sandbox).log_path})


def container_setting_up(task: Task, log_path: str) -> TaskStatus:
    """Building: the container that it will run in, and that will outlive it, is set up."""
    message = f"container {task.spec.container_lifetime.name} is fresh: its set-up script runs"
    return _new(task, TaskPhase.BUILDING, "SettingUp", message, {"log_path": log_path})


def waits_for_members(task: Task, found: ContainerSeen) -> TaskStatus:
    """Building: what its node has of its container is told, and what all members do about it is waited for."""
    name = task.spec.container_lifetime.name
    there = f"container {name} runs" if found.running else f"container {name} does not run"
    message = f"{there} on node {_node(task)}; waits for what the other members' nodes have"
    return _new(task, TaskPhase.BUILDING, "WaitingForMembers", message, {"container": found})


def running(task: Task, sandbox: Sandbox, since: datetime) -> TaskStatus:
    """Running, since its command's start."""
    more = _where(task, sandbox) | {
        "start_time": since,
        "finish_time": None,
        "exit_code": None,
        "conditions": _conditions(task, since, RUNNING, "True", "Started", facts(sandbox).note),
    }
    return _new(task, TaskPhase.RUNNING, "Started", facts(sandbox).note, more)


def exited(task: Task, sandbox: Sandbox, cause: StopCause | None, stage: Stage | None = None) -> TaskStatus:
    """Ended: as it was stopped (`cause`), or by itself. The same whenever it is asked for.

    `stage`: how far its set-up was, when it has one. When that only ends
    the attempt (`is_move`), it may be written once the sandbox is gone, and not before.
    """
    found = sandbox.exit
    assert found is not None
    started = _start(task, sandbox, found, stage)
    code = None if found.lost else found.exit_code
    end = _end_of_attempt(task, found, cause)
    if end is not None:
        end = replace(end, exit_code=code, start_time=started, log_path=facts(sandbox).log_path)
        return attempt_over(task, end)
    phase, reason, message = _verdict(task, found, cause, stage)
    more = _where(task, sandbox) | {"start_time": started, "finish_time": found.exited_at, "exit_code": code}
    if phase is TaskPhase.PENDING:
        return _again(task, reason, message, more, found.exited_at)
    return _end(task, phase, reason, message, more, found.exited_at)


def is_move(status: TaskStatus) -> bool:
    """Whether it says that an attempt is over, and the Task is not."""
    return status.phase is TaskPhase.PENDING and status.attempt is not None and status.attempt == status.ended_attempt


def lost(task: Task, now: datetime) -> TaskStatus:
    """It ran, and its sandbox is gone without a word: this attempt is never run again."""
    return attempt_over(task, AttemptEnd(SANDBOX_LOST, _lost_words(task), now, cause=Cause.INFRASTRUCTURE))


def moved(task: Task, cause: StopCause, now: datetime) -> TaskStatus:
    """Stopped with nothing of it there, started or not: it runs elsewhere."""
    return attempt_over(task, AttemptEnd(cause.reason, f"stopped because {cause.words}", now, cause=cause.cause))


def not_startable(task: Task, failure: StartFailure) -> TaskStatus:
    """Failed before it ran, by the user's image, command or limits."""
    more = {"finish_time": failure.at, "exit_code": failure.exit_code}
    return _user_failure(task, failure.reason, failure.message, more, failure.at)


def stopped_unseen(task: Task, cause: StopCause, now: datetime) -> TaskStatus:
    """Stopped, not to be moved, and nothing of it there: it was bound and not yet running, or its sandbox was lost meanwhile."""
    if cause.cause is Cause.USER:
        return _user_failure(task, cause.reason, cause.words, {"finish_time": now}, now)
    started = of_attempt(task.status, _attempt(task)).start_time is not None
    when = "and nobody saw how it ended" if started else "before it started"
    message = f"stopped {when}: {cause.words}"
    return _end(task, TaskPhase.KILLED, cause.reason, message, {"finish_time": now}, now)


def _end_of_attempt(task: Task, ended: Exit, cause: StopCause | None) -> AttemptEnd | None:
    """None: what ended is the Task.

    Exit code 0 within the grace period means that the work is done; who wants to be run again exits with another.
    """
    if cause is not None and not cause.moves:
        return None
    if cause is not None and (ended.lost or ended.exit_code != 0):
        words = f"stopped because {cause.words}"
        words += "" if ended.lost else f" ({_exit_words(ended.exit_code)})"
        return AttemptEnd(cause.reason, words, ended.exited_at, cause=cause.cause)
    return (
        AttemptEnd(SANDBOX_LOST, _lost_words(task), ended.exited_at, cause=Cause.INFRASTRUCTURE) if ended.lost else None
    )


def _start(task: Task, sandbox: Sandbox, ended: Exit, stage: Stage | None) -> datetime | None:
    """When its command started; None when its set-up never came to an end."""
    if stage is not None:
        return stage.at if stage.is_command else None
    return facts(sandbox).started_at or task.status.start_time or ended.exited_at


def _verdict(
    task: Task, ended: Exit, cause: StopCause | None, stage: Stage | None = None
) -> tuple[TaskPhase, str, str]:
    words = _exit_words(ended.exit_code)
    if cause is not None and not cause.moves:
        return _stopped_verdict(task, ended, cause)
    verdict = after_exit(task, ended.exit_code)
    if ended.oom_killed:
        return verdict.phase, "OOMKilled", verdict.said(_oom_words(task, ended))
    # Set-up never ends with 0, whatever the file of its stage says: a full disk may have kept it from being written.
    if stage is not None and not stage.is_command and ended.exit_code != 0:
        verdict, (reason, words) = after_failure(task), _setup_words(task, ended, stage)
        return verdict.phase, reason, verdict.said(words)
    return verdict.phase, "Completed" if verdict.phase is TaskPhase.SUCCEEDED else "Error", verdict.said(words)


def _stopped_verdict(task: Task, ended: Exit, cause: StopCause) -> tuple[TaskPhase, str, str]:
    words = "nobody saw how it ended" if ended.lost else _exit_words(ended.exit_code)
    if cause.cause is Cause.USER:
        verdict = after_failure(task)
        return verdict.phase, cause.reason, verdict.said(f"stopped because {cause.words} ({words})")
    if ended.lost:
        return TaskPhase.WORKER_LOST, SANDBOX_LOST, _lost_words(task)
    return TaskPhase.KILLED, cause.reason, f"stopped because {cause.words} ({words})"


def _setup_words(task: Task, ended: Exit, stage: Stage) -> tuple[str, str]:
    """Reason and message of an end before the command."""
    if stage.kind == MISSING:
        missing = ended.exit_code == 127
        last = f": {stage.last_line}" if stage.last_line else ""
        return "CommandNotFound" if missing else "CommandNotExecutable", f"the command can't be started{last}"
    code = stage.exit_code if stage.kind == SETUP_FAILED and stage.exit_code is not None else ended.exit_code
    last = f"; its last line: {stage.last_line}" if stage.last_line else ""
    return "SetupFailed", f"{words_of(task, stage)} failed: {_exit_words(code)}{last}"


def _user_failure(task: Task, reason: str, message: str, more: dict[str, Any], now: datetime) -> TaskStatus:
    """An attempt that failed by the user's fault before its command started."""
    verdict = after_failure(task)
    if verdict.phase is TaskPhase.PENDING:
        return _again(task, reason, message, more, now)
    return _end(task, verdict.phase, reason, verdict.said(message), more, now)


def _again(task: Task, reason: str, message: str, more: dict[str, Any], now: datetime) -> TaskStatus:
    """The attempt is over by the user's fault, and another follows. Not to be written while anything of it is left."""
    found = {name: more.get(name) for name in ("exit_code", "start_time")}
    end = AttemptEnd(reason, message, now, Cause.USER, log_path=more.get("log_path", ""), **found)
    return attempt_over(task, end)


def _lost_words(task: Task) -> str:
    return (
        f"nobody saw how the command ended: its sandbox {container(task)} was lost on node {_node(task)}. "
        "Not the command's fault"
    )


def _exit_words(code: int) -> str:
    try:
        return f"exit code {code}, by {signal.Signals(code - 128).name}" if code > 128 else f"exit code {code}"
    except ValueError:
        return f"exit code {code}"


def _oom_words(task: Task, ended: Exit) -> str:
    limit = task.spec.resources.limits.get("memory")
    if limit is None:
        bound = "it has no limit of its own, its worker Pod's was reached"
    else:
        bound = f"limit {to_quantity('memory', amount('memory', limit))}"
    peak = f" (peak {_mib(ended.memory_peak_bytes)}Mi)" if ended.memory_peak_bytes else ""
    return f"killed for want of memory: {bound}{peak}"


def _end(task: Task, phase: TaskPhase, reason: str, message: str, more: dict[str, Any], now: datetime) -> TaskStatus:
    kind = COMPLETE if phase is TaskPhase.SUCCEEDED else FAILED
    conditions = not_ready(task, _conditions(task, now, RUNNING, "False", reason, message), reason, message, now)
    conditions = set_condition(
        conditions, kind, "True", reason, message[:_MAX_MESSAGE], generation=task.metadata.generation, now=now
    )
    return _new(task, phase, reason, message, {**more, "conditions": conditions})


def _new(task: Task, phase: TaskPhase, reason: str, message: str, more: dict[str, Any]) -> TaskStatus:
    update = {
        "observed_generation": task.metadata.generation,
        "phase": phase,
        "reason": reason,
        "message": message[:_MAX_MESSAGE],
        "attempt": _attempt(task),
        "node_name": _node(task),
        **more,
    }
    return of_attempt(task.status, _attempt(task)).model_copy(update=update)


def _where(task: Task, sandbox: Sandbox) -> dict[str, Any]:
    return {
        "container_id": sandbox.id,
        "image_digest": facts(sandbox).image_digest,
        "log_path": facts(sandbox).log_path,
        **_reachable(facts(sandbox)),
    }


def _reachable(found: SandboxFacts) -> dict[str, Any]:
    """Where the command listens, as far as that is known."""
    told = {"host_ip": found.host_ip, "ports": list(found.ports)}
    return {name: value for name, value in told.items() if value}


def _conditions(
    task: Task, now: datetime, kind: str, status: ConditionStatus, reason: str, message: str
) -> list[Condition]:
    return set_condition(
        _placed(task, now),
        kind,
        status,
        reason,
        message[:_MAX_MESSAGE],
        generation=task.metadata.generation,
        now=now,
    )


def _placed(task: Task, now: datetime) -> list[Condition]:
    """The conditions so far; what was said while it waited for a place holds no more."""
    before = of_attempt(task.status, _attempt(task)).conditions
    scheduled = find_condition(before, "Scheduled")
    if scheduled is None or scheduled.status == "True":
        return before
    where = f"placed on node {_node(task)}"
    return set_condition(before, "Scheduled", "True", "Assigned", where, generation=task.metadata.generation, now=now)


def _attempt(task: Task) -> int:
    assert task.spec.binding is not None
    return task.spec.binding.attempt


def _node(task: Task) -> str:
    assert task.spec.binding is not None
    return task.spec.binding.node_name


def _mib(number: int) -> int:
    return round(number / 2**20)
