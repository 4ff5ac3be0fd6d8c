"""What an agent writes of a Task (agent/status.py writes the same with more words)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from iris_operator.api.base import Condition
from iris_operator.api.task import Task, TaskPhase, TaskStatus
from iris_operator.plan.conditions import set_condition
from iris_operator.plan.tasks.retry import MOVES, AttemptEnd, attempt_over, of_attempt


def running(task: Task, now: datetime) -> TaskStatus:
    """It runs, from now."""
    generation = task.metadata.generation
    conditions = set_condition(_known(task), "Running", "True", "Started", "", generation=generation, now=now)
    more = {"start_time": now, "finish_time": None, "exit_code": None, "conditions": conditions}
    return _of(task, TaskPhase.RUNNING, "Started", "", more)


def ended(task: Task, phase: TaskPhase, reason: str, now: datetime) -> TaskStatus:
    """It ended for good, now."""
    generation = task.metadata.generation
    kind = "Complete" if phase is TaskPhase.SUCCEEDED else "Failed"
    conditions = set_condition(_known(task), "Running", "False", reason, "", generation=generation, now=now)
    conditions = set_condition(conditions, kind, "True", reason, "", generation=generation, now=now)
    code = 0 if phase is TaskPhase.SUCCEEDED else 143
    return _of(task, phase, reason, "", {"finish_time": now, "exit_code": code, "conditions": conditions})


def moved(task: Task, reason: str, started: float | None, now: datetime) -> TaskStatus:
    """This attempt was stopped for Iris's own ends: the Task is placed elsewhere."""
    start = None if started is None else task.status.start_time
    cause = MOVES.get(reason)  # a preemption has a budget; other moves cost nothing
    return attempt_over(task, AttemptEnd(reason, f"it was stopped: {reason}", now, cause=cause, start_time=start))


def _of(task: Task, phase: TaskPhase, reason: str, message: str, more: Mapping[str, object]) -> TaskStatus:
    binding = task.spec.binding
    assert binding is not None
    update = {
        "phase": phase,
        "reason": reason,
        "message": message,
        "observed_generation": task.metadata.generation,
        "attempt": binding.attempt,
        "node_name": binding.node_name,
        **more,
    }
    return of_attempt(task.status, binding.attempt).model_copy(update=update)


def _known(task: Task) -> list[Condition]:
    binding = task.spec.binding
    return of_attempt(task.status, binding.attempt).conditions if binding is not None else []
