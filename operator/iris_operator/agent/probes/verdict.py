"""What a row of answers means. Pure; thresholds are a Pod's.

The startup probe is asked alone until it succeeds, then the other two. An agent that comes anew begins its counts anew: what
was told of the attempt holds until its own answers say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from iris_operator.agent.memory import Illness
from iris_operator.agent.probes.told import ILL, NO_VERDICT, STARTED, Verdict
from iris_operator.api.probe import Probe
from iris_operator.api.task import Task, TaskPhase, TaskSpec, TaskStatus
from iris_operator.plan.conditions import is_true
from iris_operator.plan.tasks.retry import of_attempt
from iris_operator.plan.text import count


class Kind(StrEnum):
    """Which of a Task's probes."""

    STARTUP = "startup"
    LIVENESS = "liveness"
    READINESS = "readiness"


@dataclass(frozen=True)
class Answer:
    """One answer. `words`: what was asked and what came, such as `GET :8080/ 500 Internal Server Error`."""

    ok: bool
    words: str = ""


@dataclass(frozen=True)
class Row:
    """So many equal answers one after another, up to now."""

    ok: bool = True
    length: int = 0

    def with_one(self, ok: bool) -> Row:
        """One more."""
        return Row(ok, self.length + 1 if ok == self.ok else 1)


@dataclass(frozen=True)
class Health:
    """All that is known of an attempt by its probes. `verdict` is what is told of it, `ill` why it is to be stopped."""

    verdict: Verdict = NO_VERDICT
    ill: Illness | None = None
    rows: Mapping[Kind, Row] = field(default_factory=dict)


_REASONS = {Kind.STARTUP: "StartupProbeFailed", Kind.LIVENESS: "LivenessProbeFailed"}


def probe_of(spec: TaskSpec, kind: Kind) -> Probe | None:
    """The probe of that kind, if the Task has one."""
    return {
        Kind.STARTUP: spec.startup_probe,
        Kind.LIVENESS: spec.liveness_probe,
        Kind.READINESS: spec.readiness_probe,
    }[kind]


def has_probes(spec: TaskSpec) -> bool:
    """Whether there is anything to ask."""
    return spec.startup_probe is not None or spec.liveness_probe is not None or spec.readiness_probe is not None


def at_first(task: Task) -> Health:
    """Before the first answer. That it has started is never asked twice of one attempt."""
    assert task.spec.binding is not None
    told = of_attempt(task.status, task.spec.binding.attempt).conditions
    started = task.spec.startup_probe is None or is_true(told, STARTED)
    return Health(Verdict(started=started or None))


def told_illness(status: TaskStatus) -> Illness | None:
    """The verdict that an earlier agent told when it began to stop this attempt."""
    if status.phase is TaskPhase.RUNNING and status.reason in ILL:
        return Illness(status.reason, status.message)
    return None


def asked(spec: TaskSpec, health: Health) -> tuple[Kind, ...]:
    """The probes to ask now."""
    if health.ill is not None:
        return ()
    kinds = (Kind.LIVENESS, Kind.READINESS) if health.verdict.started else (Kind.STARTUP,)
    return tuple(kind for kind in kinds if probe_of(spec, kind) is not None)


def after(spec: TaskSpec, health: Health, kind: Kind, answer: Answer) -> Health:
    """With one more answer."""
    probe = probe_of(spec, kind)
    if probe is None or kind not in asked(spec, health):
        return health  # of a question that no longer counts
    row = health.rows.get(kind, Row()).with_one(answer.ok)
    health = replace(health, rows={**health.rows, kind: row})
    if row.length < (probe.success_threshold if answer.ok else probe.failure_threshold):
        return health
    return _good(health, kind) if answer.ok else _bad(health, kind, row, answer)


def _good(health: Health, kind: Kind) -> Health:
    if kind is Kind.STARTUP:
        return replace(health, verdict=replace(health.verdict, started=True))
    if kind is Kind.READINESS:
        return replace(health, verdict=replace(health.verdict, ready=True, words=""))
    return health


def _bad(health: Health, kind: Kind, row: Row, answer: Answer) -> Health:
    words = f"{kind} failed{_times(row.length)}: {answer.words}"
    if kind in _REASONS:
        return replace(health, ill=Illness(_REASONS[kind], words))
    if health.verdict.ready is False:
        return health  # the words of the transition stay
    return replace(health, verdict=replace(health.verdict, ready=False, words=words))


def _times(length: int) -> str:
    return "" if length == 1 else f" {count(length, 'time')} in a row"
