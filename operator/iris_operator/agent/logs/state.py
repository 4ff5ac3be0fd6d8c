"""Whether more will come in a log: by the Task and its sandbox, as the agent sees them."""

from __future__ import annotations

from datetime import datetime, timedelta

from iris_operator.agent.server import LogState
from iris_operator.api.names import container_id
from iris_operator.api.task import Task
from iris_runtimes.protocol import Sandbox, SandboxState

# The shim copies output through pipes: the last of it may reach the file a little after the exit is known. Once the sandbox
# is removed all is there; when that takes long (its report is not in yet), this much after the exit is enough.
_FLUSH_SECONDS = 2.0


def log_state(task: Task | None, sandboxes: tuple[Sandbox, ...], uid: str, attempt: int, now: datetime) -> LogState:
    """Of one attempt."""
    for sandbox in sandboxes:
        if sandbox.id != container_id(uid, attempt):
            continue
        if sandbox.state is SandboxState.EXITED and sandbox.exit is not None:
            flushed = now - sandbox.exit.exited_at > timedelta(seconds=_FLUSH_SECONDS)
            return "ended" if flushed else "running"
        return "running"
    if task is None or task.spec.binding is None:
        return "unknown"
    status, binding = task.status, task.spec.binding
    over = attempt <= (status.ended_attempt or 0) or (status.attempt == attempt and task.ended)
    started = status.attempt == attempt and status.start_time is not None
    if over or started or binding.attempt != attempt:
        return "ended"
    return "waiting"
