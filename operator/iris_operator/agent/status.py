"""The status a Task should have, from what the agent sees. Pure. Every message names the numbers."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from iris_operator.agent.labels import facts
from iris_operator.agent.memory import Pulling, StartFailure, Trouble
from iris_operator.api.base import Condition
from iris_operator.api.names import container_id
from iris_operator.api.quantity import amount, to_quantity
from iris_operator.api.task import Task, TaskPhase, TaskStatus
from iris_operator.plan.conditions import ConditionStatus, set_condition
from iris_operator.plan.text import duration
from iris_runtimes.protocol import Exit, Sandbox

RUNNING, COMPLETE, FAILED = "Running", "Complete", "Failed"
SANDBOX_LOST = "SandboxLost"
_MAX_MESSAGE = 1024


@dataclass(frozen=True)
class StopCause:
    """Why a Task is stopped. `lost`: its worker goes, which is neither the command's fault nor anyone's wish."""

    reason: str
    words: str
    lost: bool = False


def of_attempt(status: TaskStatus, attempt: int) -> TaskStatus:
    """The status as far as it is of this attempt; an earlier attempt's facts are dropped, conditions kept."""
    if status.attempt in (None, attempt):
        return status
    return TaskStatus(conditions=status.conditions)


def container(task: Task) -> str:
    """The sandbox id of a bound Task's attempt."""
    return container_id(task.metadata.uid, _attempt(task))


def was_signalled(sandbox: Sandbox) -> bool:
    """Whether it ended as a stop ends it: by SIGTERM or SIGKILL, and not by the OOM killer."""
    ended = sandbox.exit
    return ended is not None and not ended.oom_killed and ended.exit_code in (143, 137)


def pulling(task: Task, progress: Pulling, now: datetime) -> TaskStatus:
    """Building: the image comes."""
    took = duration((now - progress.since).total_seconds())
    message = f"pulling image {task.spec.image} for {took}"
    if progress.total_bytes:
        message += f": {_mib(progress.done_bytes)} of {_mib(progress.total_bytes)} MiB"
    return _new(task, TaskPhase.BUILDING, "Pulling", message, {})


def in_trouble(task: Task, trouble: Trouble, now: datetime) -> TaskStatus:
    """Building: starting fails for now, and is tried again."""
    message = f"{trouble.message} (failed {trouble.failures} times, is tried again)"
    return _new(task, TaskPhase.BUILDING, trouble.reason, message, {})


def running(task: Task, sandbox: Sandbox, now: datetime) -> TaskStatus:
    """Running, since the sandbox's start."""
    since = facts(sandbox).started_at or now
    more = _where(task, sandbox) | {
        "start_time": since,
        "finish_time": None,
        "exit_code": None,
        "conditions": _conditions(task, since, RUNNING, "True", "Started", ""),
    }
    return _new(task, TaskPhase.RUNNING, "Started", "", more)


def exited(task: Task, sandbox: Sandbox, cause: StopCause | None) -> TaskStatus:
    """Ended: as it was stopped (`cause`), or by itself. The same whenever it is asked for."""
    assert sandbox.exit is not None
    phase, reason, message = _verdict(task, sandbox.exit, cause)
    more = _where(task, sandbox) | {
        "start_time": facts(sandbox).started_at or task.status.start_time or sandbox.exit.exited_at,
        "finish_time": sandbox.exit.exited_at,
        "exit_code": None if sandbox.exit.lost else sandbox.exit.exit_code,
    }
    return _end(task, phase, reason, message, more, sandbox.exit.exited_at)


def lost(task: Task, now: datetime) -> TaskStatus:
    """It ran, and its sandbox is gone without a word: never run twice."""
    return _end(task, TaskPhase.WORKER_LOST, SANDBOX_LOST, _lost_words(task), {"finish_time": now}, now)


def not_startable(task: Task, failure: StartFailure) -> TaskStatus:
    """Failed before it ran, by the user's image, command or limits."""
    more = {"finish_time": failure.at, "exit_code": failure.exit_code}
    return _end(task, TaskPhase.FAILED, failure.reason, failure.message, more, failure.at)


def stopped_before_start(task: Task, cause: StopCause, now: datetime) -> TaskStatus:
    """Stopped while it was bound and not yet running."""
    message = f"stopped before it started: {cause.words}"
    return _end(task, TaskPhase.KILLED, cause.reason, message, {"finish_time": now}, now)


def _verdict(task: Task, ended: Exit, cause: StopCause | None) -> tuple[TaskPhase, str, str]:
    words = _exit_words(ended.exit_code)
    if ended.lost:
        return TaskPhase.WORKER_LOST, SANDBOX_LOST, _lost_words(task)
    if cause is not None and cause.lost:
        return TaskPhase.WORKER_LOST, cause.reason, f"stopped because {cause.words} ({words}): not the command's fault"
    if cause is not None:
        return TaskPhase.KILLED, cause.reason, f"stopped because {cause.words} ({words})"
    if ended.oom_killed:
        return TaskPhase.FAILED, "OOMKilled", _oom_words(task, ended)
    if ended.exit_code == 0:
        return TaskPhase.SUCCEEDED, "Completed", words
    return TaskPhase.FAILED, "Error", words


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
    conditions = _conditions(task, now, RUNNING, "False", reason, message)
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
    }


def _conditions(
    task: Task, now: datetime, kind: str, status: ConditionStatus, reason: str, message: str
) -> list[Condition]:
    return set_condition(
        of_attempt(task.status, _attempt(task)).conditions,
        kind,
        status,
        reason,
        message[:_MAX_MESSAGE],
        generation=task.metadata.generation,
        now=now,
    )


def _attempt(task: Task) -> int:
    assert task.spec.binding is not None
    return task.spec.binding.attempt


def _node(task: Task) -> str:
    assert task.spec.binding is not None
    return task.spec.binding.node_name


def _mib(number: int) -> int:
    return round(number / 2**20)
