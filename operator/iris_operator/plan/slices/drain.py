"""Moving a slice's Tasks elsewhere: who is told to stop, and who is still waited for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from iris_operator.api.base import Condition
from iris_operator.api.slice import Availability
from iris_operator.api.task import Task
from iris_operator.plan.actions import StopTask
from iris_operator.plan.conditions import set_condition
from iris_operator.plan.slices.plan import DRAINED
from iris_operator.plan.slices.snapshot import SliceView
from iris_operator.plan.text import count, names_text

# Beyond its own grace period, how long a Task may take to be reported gone before we stop waiting for it.
_SLACK_SECONDS = 30
STOP_DRAINED = "SliceDrained"


@dataclass(frozen=True)
class Stopping:
    """Tasks that a worker still runs. `tell`: those that were not told yet; `left_seconds`: until the first is late."""

    tell: tuple[StopTask, ...]
    message: str
    left_seconds: float


def stopping(view: SliceView, since: datetime, reason: str, now: datetime) -> Stopping | None:
    """Tasks to wait for, each as long as its grace period from `since` allows; None: none is left, or all are late."""
    waiting: list[tuple[float, Task]] = []
    for task in _on_workers(view):
        deadline = since + timedelta(seconds=task.spec.termination_grace_period_seconds + _SLACK_SECONDS)
        left = (deadline - now).total_seconds()
        if left > 0:
            waiting.append((left, task))
    if not waiting:
        return None
    names = names_text(sorted(task.metadata.name for _, task in waiting))
    message = f"waits for {count(len(waiting), 'Task')} to stop: {names}"
    return Stopping(_untold((task for _, task in waiting), reason), message, min(left for left, _ in waiting) + 0.5)


def drain(view: SliceView, conditions: list[Condition], now: datetime) -> tuple[tuple[StopTask, ...], list[Condition]]:
    """By `spec.availability`: whom to tell, and the conditions with Drained (or without, when it takes Tasks again)."""
    if view.slice.spec.availability is not Availability.DRAINED:
        return (), [one for one in conditions if one.type != DRAINED]
    names = names_text(sorted(task.metadata.name for task in view.tasks))
    left = len(view.tasks)
    found = set_condition(
        conditions,
        DRAINED,
        "False" if left else "True",
        "StoppingTasks" if left else "Drained",
        f"waits for {count(left, 'Task')}: {names}" if left else "no Task is left on it",
        generation=view.slice.metadata.generation,
        now=now,
    )
    return _untold(_on_workers(view), STOP_DRAINED), found


def _on_workers(view: SliceView) -> Iterator[Task]:
    """Those whose very worker stands: nobody can stop the others, and nobody runs them."""
    for task in view.tasks:
        binding = task.spec.binding
        pod = view.pods.get(binding.worker_pod) if binding else None
        if binding is not None and pod is not None and pod.metadata.uid == binding.worker_uid:
            yield task


def _untold(tasks: Iterator[Task], reason: str) -> tuple[StopTask, ...]:
    return tuple(StopTask(task, reason) for task in tasks if task.spec.binding and not task.spec.binding.stop_reason)
