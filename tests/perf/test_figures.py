"""The arithmetic of the benchmark, without a cluster."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from tests.perf.aims import Aim, as_documents, task_aims
from tests.perf.measure import Measured, Plan
from tests.perf.observe import Unmeasured, pod_stages, task_stages
from tests.perf.report import document, show
from tests.perf.stats import Burst, Life, breakdown, latency, percentile
from tests.perf.usage import Usage, own_writes, server_writes, spent


@pytest.mark.parametrize(
    ("percent", "expected"),
    {"median": (50, 2.0), "p99 is the slowest of few": (99, 4.0), "all": (100, 4.0), "the least": (1, 1.0)}.values(),
)
def test_percentiles_are_measured_values(percent: float, expected: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == expected


def test_a_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_a_rate_is_from_the_first_creation_to_the_last_end() -> None:
    burst = Burst()
    burst.add([Life({"created": 0.0, "ended": 3.0}), Life({"created": 1.0, "ended": 4.0})])
    assert burst.rate == 0.5


def test_the_rate_of_rounds_is_the_median_ones() -> None:
    assert Burst(rates=[1.0, 9.0, 2.0]).rate == 2.0


def test_latencies_are_milliseconds() -> None:
    assert latency([0.1, 0.2, 0.3]) == {"p50": 200.0, "p99": 300.0}


def test_a_stage_that_was_never_seen_is_left_out() -> None:
    lives = [Life({"created": 0.0, "bound": 0.5, "ended": 2.0})]
    assert breakdown(lives, ("created", "bound", "running", "ended")) == {"created to bound": 500.0}


@pytest.mark.parametrize(
    ("phase", "expected"),
    {
        "new": ("", ["seen", "bound"]),
        "pulls": ("Building", ["seen", "bound", "building"]),
        "runs": ("Running", ["seen", "bound", "running"]),
        "ended before it was seen to run": ("Succeeded", ["seen", "bound", "running", "ended"]),
    }.values(),
)
def test_stages_of_a_task(phase: str, expected: list[str]) -> None:
    assert list(task_stages({"spec": {"binding": {"nodeName": "n"}}, "status": {"phase": phase}})) == expected


def test_stages_of_a_pod() -> None:
    assert list(pod_stages({"spec": {"nodeName": "n"}, "status": {"phase": "Pending"}})) == ["seen", "bound"]
    assert list(pod_stages({"spec": {}, "status": {"phase": "Pending"}})) == ["seen"]


def test_writes_are_counted_by_who_and_what() -> None:
    text = 'iris_agent_api_writes_total{verb="patch",resource="tasks/status"} 7\niris_agent_tasks_started_total 9\n'
    assert own_writes(text, "agent") == {"agent: patch tasks/status": 7}


def test_the_servers_count_leaves_reads_and_strangers_out() -> None:
    template = 'apiserver_request_total{{code="{}",resource="{}",subresource="{}",verb="{}"}} {}'
    lines = [
        template.format(200, "tasks", "status", "PATCH", 4),
        template.format(409, "tasks", "status", "PATCH", 1),
        template.format(200, "tasks", "", "LIST", 9),
        template.format(200, "configmaps", "", "PUT", 9),
    ]
    assert server_writes("\n".join(lines)) == {"API server: patch tasks/status": 5}


def _usage(seconds: float, writes: float) -> Usage:
    return Usage({"agent": seconds}, {"agent": seconds}, {"agent": 1.0}, {"agent: patch tasks": writes})


def test_costs_are_what_was_added() -> None:
    cost = spent(_usage(1.0, 10), _usage(1.5, 13))
    assert (cost.cpu_seconds, cost.writes) == ({"agent": 0.5}, {"agent: patch tasks": 3})


def test_a_restart_can_not_be_measured() -> None:
    with pytest.raises(Unmeasured, match="agent"):
        spent(_usage(5.0, 10), _usage(0.1, 0))


@pytest.mark.parametrize(
    ("value", "at_least", "met"),
    {
        "enough": (4, True, True),
        "too little": (3.9, True, False),
        "few": (4, False, True),
        "many": (4.1, False, False),
    }.values(),
)
def test_an_aim_is_a_bound(value: float, at_least: bool, met: bool) -> None:
    aim = Aim("x", value, 4, at_least)
    assert aim.met is met
    assert aim.words().endswith(": met" if met else ": not met")


def test_aims_of_tasks() -> None:
    figures = {
        "plan": {"tasks": 200},
        "iris": {
            "applyToRunningMs": {"alone": {"p50": 100.0, "p99": 501.0}}, "agentMiB": 70.0,
            "apiWritesEach": {"API server: patch tasks": 4.0, "API server: post tasks": 1.0, "agent: patch tasks": 3.0},
        },
        "job": {"createToRunningMs": {"alone": {"p50": 400.0}}},
        "ratios": {"throughputIrisOverJob": 4.2, "throughputIrisOverContainerd": 0.6, "latencyIrisOverContainerd": 2.0},
    }  # fmt: skip
    found = as_documents(task_aims(figures))
    assert [one["met"] for one in found] == [True, False, True, True, False, True, True]
    assert found[5]["value"] == 5.0


def test_the_report_shows_every_aim() -> None:
    life = Life({"created": 0.0, "seen": 0.1, "bound": 0.1, "running": 0.2, "ended": 0.4}, "Succeeded")
    cost = spent(_usage(1.0, 10), _usage(1.5, 13))
    found = Measured(
        iris_single=[life], iris_deleted_seconds=[1.0], job_running_seconds=[1.0], pod_single=[life],
        containerd_rates=[5.0], containerd_single=[{"start": 0.1, "exit": 0.1, "remove": 0.1}], iris_spent=[cost],
        iris_delete_spent=[cost], job_spent=[cost], agent_mib=[60.0, 70.0], after=_usage(2.0, 20),
    )  # fmt: skip
    found.iris.add([life])
    found.job.add([life])
    figures = document(found, Plan(tasks=1, pods=1, single=1, rounds=1, parallelism=1))
    console = Console(width=120, record=True, file=StringIO())
    show(figures, console)
    text = console.export_text()
    assert all(one.words() in text for one in task_aims(figures))
    assert "agent's memory with 1 Tasks, MiB: 70; at most 80: met" in text
