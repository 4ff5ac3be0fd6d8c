"""What of the answers is told: conditions Started and Ready of a running attempt. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from iris_operator.api.base import Condition
from iris_operator.api.task import Task, TaskPhase, TaskStatus
from iris_operator.plan.conditions import ConditionStatus, find_condition, is_true, set_condition
from iris_operator.plan.tasks.retry import READY, of_attempt

STARTED = "Started"
ILL = frozenset({"StartupProbeFailed", "LivenessProbeFailed"})
_MAX_MESSAGE = 1024


class Why(Protocol):
    """Why it is stopped."""

    @property
    def reason(self) -> str:
        """One CamelCase word."""
        ...

    @property
    def words(self) -> str:
        """For people, after "because"."""
        ...


@dataclass(frozen=True)
class Verdict:
    """What the probes say; None: nothing yet, so what was told before holds. `words`: why it is not ready."""

    started: bool | None = None
    ready: bool | None = None
    words: str = ""


NO_VERDICT = Verdict()


def with_verdict(task: Task, conditions: list[Condition], verdict: Verdict, now: datetime) -> list[Condition]:
    """The conditions of a bound, running Task with those of its probes; without a probe there is none."""
    spec, fresh = task.spec, _is_fresh(task)
    if spec.startup_probe is not None:
        started = verdict.started if fresh else verdict.started or is_true(conditions, STARTED)
        if started:
            conditions = _set(task, conditions, STARTED, "True", "StartupProbeSucceeded", "", now)
        else:
            words = "the startup probe has not succeeded yet"
            conditions = _set(task, conditions, STARTED, "False", "StartupProbePending", words, now)
    if spec.readiness_probe is None:
        return conditions
    if verdict.ready:
        return _set(task, conditions, READY, "True", "ReadinessProbeSucceeded", "", now)
    if verdict.ready is False:
        return _set(task, conditions, READY, "False", "ReadinessProbeFailed", verdict.words, now)
    if fresh:
        words = "the readiness probe has not succeeded yet"
        return _set(task, conditions, READY, "False", "ReadinessProbePending", words, now)
    return conditions


def tell(task: Task, status: TaskStatus, verdict: Verdict, now: datetime) -> TaskStatus:
    """A running Task's status, with the conditions of its probes."""
    if task.spec.startup_probe is None and task.spec.readiness_probe is None:
        return status
    return status.model_copy(update={"conditions": with_verdict(task, status.conditions, verdict, now)})


def says_the_same(before: TaskStatus, after: TaskStatus) -> bool:
    """Whether nothing needs to be told: a transition or another reason does, other words of it don't."""
    return _said(before.conditions) == _said(after.conditions)


def leave(task: Task, status: TaskStatus, cause: Why, now: datetime) -> TaskStatus | None:
    """The status of what is about to be stopped: not ready. None when that needn't be told.

    A probe's verdict is told with it: nobody could find it out again once the command has ended, and its exit code says
    nothing of it.
    """
    ill = cause.reason in ILL and status.phase is TaskPhase.RUNNING and status.reason != cause.reason
    if not ill and not is_true(status.conditions, READY):
        return None
    conditions = not_ready(task, status.conditions, cause.reason, f"it is stopped because {cause.words}", now)
    verdict = {"reason": cause.reason, "message": cause.words[:_MAX_MESSAGE]} if ill else {}
    return status.model_copy(update={"conditions": conditions, **verdict})


def not_ready(task: Task, conditions: list[Condition], reason: str, message: str, now: datetime) -> list[Condition]:
    """The conditions once it stops or has ended."""
    if not is_true(conditions, READY):
        return conditions
    return _set(task, conditions, READY, "False", reason, message, now)


def _is_fresh(task: Task) -> bool:
    """Whether nothing was told of this attempt's run: conditions there are of an earlier one."""
    assert task.spec.binding is not None
    return of_attempt(task.status, task.spec.binding.attempt).phase is not TaskPhase.RUNNING


def _said(conditions: Iterable[Condition]) -> list[tuple[str, str] | None]:
    found = [find_condition(conditions, kind) for kind in (STARTED, READY)]
    return [(one.status, one.reason) if one is not None else None for one in found]


def _set(
    task: Task,
    conditions: list[Condition],
    kind: str,
    status: ConditionStatus,
    reason: str,
    message: str,
    now: datetime,
) -> list[Condition]:
    return set_condition(
        conditions, kind, status, reason, message[:_MAX_MESSAGE], generation=task.metadata.generation, now=now
    )
