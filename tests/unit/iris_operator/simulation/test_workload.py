"""Traces from YAML and CSV."""

from __future__ import annotations

import pytest

from iris_operator.simulation.spans import parse_span
from iris_operator.simulation.workload import TraceError, parse_trace


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("1h30m", 5400), ("1d", 86400), (0.5, 0.5)]
)
def test_spans(text: object, seconds: float) -> None:
    assert parse_span(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1", "1h-", "inf", "nan"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        parse_span(text)


def test_yaml_and_csv_say_the_same() -> None:
    yaml = parse_trace(
        "tasks: [{at: 1h, duration: 10m, cpu: 4, gpus: 2, count: 2, gang: true, name: a, priority: 3}]", "yaml"
    )
    csv = parse_trace("at,duration,cpu,gpus,count,gang,name,group,priority\n1h,10m,4,2,2,true,a,,3\n", "csv")
    assert yaml == csv
    first = yaml.submissions[0]
    assert (first.at, first.life, first.gang, first.task.metadata.name) == (3600, 600, "a", "a-0")
    assert first.task.spec.resources.requests == {"cpu": "4", "nvidia.com/gpu": "2"}
    assert first.task.spec.priority == 3


def test_times_count_from_the_first() -> None:
    trace = parse_trace(
        "tasks: [{at: 2026-01-05T10:00:00Z, duration: 1}, {at: 2026-01-05T09:30:00Z, duration: 1}]", "yaml"
    )
    assert [one.at for one in trace.submissions] == [0, 1800]
    assert trace.start is not None
    assert trace.start.isoformat() == "2026-01-05T09:30:00+00:00"


@pytest.mark.parametrize(
    ("text", "form", "words"),
    [
        ("", "yaml", "no list of Tasks"),
        ("tasks: []", "yaml", "no Tasks"),
        ("tasks: [{duration: 1, at: later}]", "yaml", "task 1: at"),
        ("tasks: [{at: 0}]", "yaml", "task 1: duration"),
        ("tasks: [{at: 0, duration: 1, cpus: 3}]", "yaml", "task 1: cpus"),
        ("tasks: [{duration: 1, name: a}, {duration: 1, name: a}]", "yaml", "two Tasks are named a"),
        ("at,duration\n0,\n", "csv", "task 1: duration"),
    ],
)
def test_errors_say_where(text: str, form: str, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        parse_trace(text, form)
