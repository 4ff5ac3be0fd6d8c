"""Why an attempt must stop, and when it will have to. Pure: a limit is a time to look again, never a timer."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from datetime import datetime, timedelta

from iris_operator.agent.memory import Memory
from iris_operator.agent.sandbox.stages import Stage, has_setup, words_of
from iris_operator.api.life import Cause
from iris_operator.api.task import Task
from iris_operator.plan.tasks.retry import MOVES
from iris_operator.plan.text import duration
from iris_runtimes.errors import InvalidSpec

_REALTIME = re.compile(r"^SIGRT(MIN|MAX)(\+\d{1,2})?$")


@dataclass(frozen=True)
class StopCause:
    """Why a Task is stopped. `moves`: just this attempt is, the Task is to run elsewhere. `cause`: whose budget that costs;
    None: nobody's, and a Task that does not move is Killed."""

    reason: str
    words: str
    moves: bool = False
    cause: Cause | None = None


@dataclass(frozen=True)
class Limit:
    """What happens at `at`, unless the attempt is further by then."""

    at: datetime
    cause: StopCause


_WORDS = {
    "SliceDrained": "its slice is drained",
    "SliceDeleted": "its slice is deleted",
    "SliceFailed": "its slice failed",
    "Preempted": "its place was taken for another",
    "MembersRestart": "another member's attempt is repeated, and all of them begin anew",
    "MemberFailed": "another member has failed",
}


def asked_to_stop(reason: str, for_whom: str = "") -> StopCause:
    """Of a binding's stopReason and stopFor."""
    words = _WORDS.get(reason, f"Iris stopped it ({reason})")
    words = f"its place is for Task {for_whom}, of higher priority" if for_whom else words
    return StopCause(reason, words, reason in MOVES, MOVES.get(reason))


def next_limit(task: Task, memory: Memory, started: datetime | None) -> Limit | None:
    """The limit that comes first; `started`: since when the command runs, None before."""
    limits = (_running(task, started), _building(task, memory, started), _container(task, memory, started))
    return min((limit for limit in limits if limit is not None), key=lambda limit: limit.at, default=None)


def stop_signal(task: Task) -> int:
    """The number of lifecycle.stopSignal. InvalidSpec when Linux has none of that name."""
    name = task.spec.lifecycle.stop_signal
    realtime = _REALTIME.match(name)
    if realtime:
        base = signal.SIGRTMIN if realtime[1] == "MIN" else signal.SIGRTMAX
        number = int(base) + int(realtime[2] or 0)
        if signal.SIGRTMIN <= number <= signal.SIGRTMAX:
            return number
    elif name in signal.Signals.__members__:
        return int(signal.Signals[name])
    raise InvalidSpec(f"lifecycle.stopSignal {name} is no signal of Linux")


def _running(task: Task, started: datetime | None) -> Limit | None:
    seconds = task.spec.timeouts.running_seconds
    if seconds is None or started is None:
        return None
    words = f"it ran for {duration(seconds)}, as long as timeouts.runningSeconds allows"
    return Limit(started + timedelta(seconds=seconds), StopCause("RunningTimeout", words, cause=Cause.USER))


def _building(task: Task, memory: Memory, started: datetime | None) -> Limit | None:
    seconds, binding = task.spec.timeouts.building_seconds, task.spec.binding
    if seconds is None or started is not None or binding is None:
        return None
    words = f"its command had not started {duration(seconds)} after its placing (timeouts.buildingSeconds)"
    cause = StopCause("BuildingTimeout", words + _so_far(task, memory), cause=Cause.USER)
    return Limit(binding.bound_at + timedelta(seconds=seconds), cause)


def _container(task: Task, memory: Memory, started: datetime | None) -> Limit | None:
    """Of a container that is made with a set-up script: an image alone may take as long as it takes."""
    life, binding = task.spec.container_lifetime, task.spec.binding
    if (
        started is not None
        or life.setup_script is None
        or binding is None
        or (memory.stage is not None and memory.stage.script_is_over)
    ):
        return None
    seconds = life.start_timeout_seconds
    words = (
        f"its container was not set up {duration(seconds)} after its placing (containerLifetime.startTimeoutSeconds)"
    )
    cause = StopCause("StartTimeout", words + _so_far(task, memory), cause=Cause.USER)
    return Limit(binding.bound_at + timedelta(seconds=seconds), cause)


def _so_far(task: Task, memory: Memory) -> str:
    """What it was at."""
    if memory.trouble is not None:
        return f": {memory.trouble.message}"
    if memory.pulling is not None or (not memory.image_digest and memory.stage is None):
        return f": image {task.spec.image} and its inputs were being brought"
    if memory.stage is not None and has_setup(task):
        return f": {words_of(task, memory.stage)} ran"
    return ""


def stage_start(stage: Stage | None) -> datetime | None:
    """Since when the command runs, by what the set-up told; None while it is not at its end."""
    return stage.at if stage is not None and stage.is_command else None
