"""What rows of answers mean, what is told of it, and when it is asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_operator.agent.probes.agenda import Agenda, first_due, next_due
from iris_operator.agent.probes.told import NO_VERDICT, Verdict, not_ready, says_the_same, tell, with_verdict
from iris_operator.agent.probes.verdict import Answer, Health, Kind, after, asked, at_first
from iris_operator.agent.words import last_line
from iris_operator.api.task import Task
from tests.unit.iris_operator.agent.build import NOW, task

TCP = {"tcpSocket": {"port": 80}}
STARTUP, LIVENESS, READINESS = Kind.STARTUP, Kind.LIVENESS, Kind.READINESS


def probes(**thresholds: dict[str, int]) -> Task:
    """A Task with these probes: `readiness={"successThreshold": 2}`."""
    return task(**{f"{kind}Probe": {**TCP, **more} for kind, more in thresholds.items()})  # type: ignore[arg-type]


def fed(wanted: Task, kind: Kind, answers: str, health: Health | None = None) -> Health:
    """After answers such as `..x`: a point is a success."""
    health = at_first(wanted) if health is None else health
    for one in answers:
        health = after(wanted.spec, health, kind, Answer(one == ".", "GET :80/ 500 Oops"))
    return health


READY_AFTER: dict[str, tuple[dict[str, int], str, bool | None]] = {
    "nothing": ({}, "", None),
    "one success": ({}, ".", True),
    "too few successes": ({"successThreshold": 3}, "..x..", None),
    "enough in a row": ({"successThreshold": 3}, "..x...", True),
    "two failures of three": ({}, ".xx", True),
    "three failures": ({}, ".xxx", False),
    "failures not in a row": ({}, ".xx.xx", True),
    "never well": ({}, "xxx", False),
    "back again": ({}, ".xxx.", True),
    "threshold one": ({"failureThreshold": 1}, ".x", False),
}


@pytest.mark.parametrize(("thresholds", "answers", "ready"), READY_AFTER.values(), ids=READY_AFTER)
def test_readiness(thresholds: dict[str, int], answers: str, ready: bool | None) -> None:
    health = fed(probes(readiness=thresholds), READINESS, answers)
    assert health.verdict.ready is ready
    assert health.ill is None


def test_liveness_ends_it_with_the_numbers() -> None:
    wanted = probes(liveness={})
    assert fed(wanted, LIVENESS, "xx.xx").ill is None
    ill = fed(wanted, LIVENESS, "xx.xxx").ill
    assert ill is not None
    assert (ill.reason, ill.words) == ("LivenessProbeFailed", "liveness failed 3 times in a row: GET :80/ 500 Oops")
    once = fed(probes(liveness={"failureThreshold": 1}), LIVENESS, "x").ill
    assert once is not None
    assert once.words == "liveness failed: GET :80/ 500 Oops"


def test_the_startup_probe_goes_before_the_others() -> None:
    wanted = probes(startup={"failureThreshold": 5}, liveness={}, readiness={})
    health = at_first(wanted)
    assert asked(wanted.spec, health) == (STARTUP,)
    # An answer to a question of before, such as of an agent's bug, counts for nothing.
    assert fed(wanted, LIVENESS, "xxx", health).ill is None
    health = fed(wanted, STARTUP, "xxxx.", health)
    assert health.verdict.started
    assert asked(wanted.spec, health) == (LIVENESS, READINESS)
    ill = fed(wanted, STARTUP, "xxxxx").ill
    assert ill is not None
    assert ill.reason == "StartupProbeFailed"


def test_nothing_is_asked_of_the_ill() -> None:
    wanted = probes(liveness={}, readiness={})
    assert asked(wanted.spec, fed(wanted, LIVENESS, "xxx")) == ()


def running(wanted: Task, *conditions: tuple[str, str], attempt: int = 1) -> Task:
    """The same, told to run with these conditions (type, status)."""
    rows = [
        {"type": kind, "status": status, "reason": "Told", "lastTransitionTime": "2026-11-21T11:00:00Z"}
        for kind, status in conditions
    ]
    body = wanted.wire()
    body["status"] = {"phase": "Running", "attempt": attempt, "conditions": rows}
    return Task.parse(body)


def test_an_agent_that_comes_anew_does_not_ask_again_whether_it_started() -> None:
    wanted = probes(startup={}, readiness={})
    assert asked(wanted.spec, at_first(running(wanted, ("Started", "True")))) == (READINESS,)
    assert asked(wanted.spec, at_first(running(wanted, ("Started", "False")))) == (STARTUP,)


def said(wanted: Task, verdict: Verdict) -> dict[str, tuple[str, str]]:
    conditions = with_verdict(wanted, wanted.status.conditions, verdict, NOW)
    return {one.type: (one.status, one.reason) for one in conditions}


def test_what_is_told_at_first() -> None:
    assert said(task(), NO_VERDICT) == {}
    assert said(probes(liveness={}), NO_VERDICT) == {}
    assert said(probes(startup={}, readiness={}), NO_VERDICT) == {
        "Started": ("False", "StartupProbePending"),
        "Ready": ("False", "ReadinessProbePending"),
    }


def test_what_was_told_of_an_earlier_attempt_counts_for_nothing() -> None:
    before = running(probes(startup={}, readiness={}), ("Started", "True"), ("Ready", "True"), attempt=7)
    assert said(before, NO_VERDICT) == {
        "Started": ("False", "StartupProbePending"),
        "Ready": ("False", "ReadinessProbePending"),
    }


def test_what_was_told_holds_until_there_is_a_verdict() -> None:
    told = running(probes(startup={}, readiness={}), ("Started", "True"), ("Ready", "True"))
    assert said(told, NO_VERDICT)["Ready"] == ("True", "Told")
    assert said(told, Verdict(started=True))["Ready"] == ("True", "Told")
    assert said(told, Verdict(started=True, ready=False, words="no"))["Ready"] == ("False", "ReadinessProbeFailed")
    assert said(told, Verdict(started=True, ready=True)) == {
        "Started": ("True", "StartupProbeSucceeded"),
        "Ready": ("True", "ReadinessProbeSucceeded"),
    }


def test_other_words_alone_are_not_told() -> None:
    wanted = probes(readiness={})
    first, second, third = (
        tell(wanted, wanted.status, Verdict(ready=ready, words=words), NOW)
        for ready, words in ((False, "a"), (False, "b"), (True, ""))
    )
    assert says_the_same(first, second)
    assert not says_the_same(first, third)
    assert not says_the_same(wanted.status, first)


def test_what_stops_is_not_ready() -> None:
    told = running(probes(readiness={}), ("Ready", "True"))
    (left,) = not_ready(told, told.status.conditions, "TaskDeleted", "why", NOW)
    assert (left.status, left.reason, left.message) == ("False", "TaskDeleted", "why")
    never = running(probes(readiness={}), ("Ready", "False"))
    assert not_ready(never, never.status.conditions, "TaskDeleted", "why", NOW) == never.status.conditions


@given(st.text(alphabet=".x", max_size=60), st.integers(1, 4), st.integers(1, 4))
def test_ready_is_what_the_last_full_row_said(answers: str, well: int, ill: int) -> None:
    wanted = probes(readiness={"successThreshold": well, "failureThreshold": ill})
    last = max((answers.rfind("." * well), True), (answers.rfind("x" * ill), False))
    assert fed(wanted, READINESS, answers).verdict.ready is (last[1] if last[0] >= 0 else None)


FIRST: dict[str, tuple[float, int, int, float, float]] = {
    # age, initial delay, period, chance -> how long from now
    "just started": (0.0, 0, 10, 0.0, 0.0),
    "just started, a little spread": (0.0, 0, 10, 1.0, 1.0),
    "a long period is spread no more than a second": (0.0, 0, 3600, 1.0, 1.0),
    "an initial delay": (2.0, 30, 10, 0.0, 28.0),
    "found running: over a whole period": (3600.0, 30, 10, 0.5, 5.0),
    "a clock that went back": (-5.0, 0, 10, 0.0, 5.0),
}


@pytest.mark.parametrize(("age", "delay", "period", "chance", "due"), FIRST.values(), ids=FIRST)
def test_when_it_is_asked_first(age: float, delay: int, period: int, chance: float, due: float) -> None:
    assert first_due(100.0, age, delay, period, chance) == 100.0 + due


def test_when_it_is_asked_again() -> None:
    assert next_due(100.0, 10, 101.0) == 110.0
    assert next_due(100.0, 10, 135.0) == 135.0


def test_an_agenda_gives_what_is_due_in_order_and_forgets_the_stale() -> None:
    dead: set[str] = set()
    agenda = Agenda[str](lambda one: one not in dead)
    for due, one in ((3.0, "c"), (1.0, "a"), (2.0, "b"), (2.0, "d")):
        agenda.add(due, one)
    dead.add("b")
    assert agenda.take(0.5) is None
    assert agenda.next_due() == 1.0
    assert [agenda.take(2.0), agenda.take(2.0), agenda.take(2.0)] == [(1.0, "a"), (2.0, "d"), None]
    for number in range(1000):
        dead.add(f"{number}")
        agenda.add(9.0, f"{number}")
    assert len(agenda) < 600


LINES: dict[str, tuple[bytes, str]] = {
    "none": (b"", ""),
    "blank ones": (b"\n  \n", ""),
    "the last with words": (b"one\ntwo\n\n", "two"),
    "no newline": (b"one\rtwo", "two"),
    "no text": (b"\xff\x00\x1b[1m", "���[1m"),
    "long": (b"x" * 4000, "x" * 197 + "..."),
}


@pytest.mark.parametrize(("output", "line"), LINES.values(), ids=LINES)
def test_the_last_line_of_an_output(output: bytes, line: str) -> None:
    assert last_line(output) == line


@given(st.binary(max_size=4096))
def test_any_output_is_one_line(output: bytes) -> None:
    line: Any = last_line(output)
    assert line.isprintable()
    assert len(line) <= 200
