"""Whole simulations, small."""

from __future__ import annotations

import dataclasses

import pytest

from iris_operator.simulation.fleet_file import parse_fleet
from iris_operator.simulation.result import Result
from iris_operator.simulation.run import Options, simulate
from iris_operator.simulation.workload import TraceError, parse_trace

GROUP = """
kind: ScaleGroup
metadata: {name: g}
spec:
  maxSlices: 4
  costPerNodeHour: 10
  template: {spec: {instanceType: t, gpusPerNode: 8}}
"""
VENDOR = """
kind: SimulatedVendor
spec: {types: {t: {boot: {p50: 20m, p95: 20m}%s}}}
"""
TRACE = "tasks: [{at: 0, duration: 1h, gpus: 8, count: 2}]"


def run(trace: str = TRACE, vendor: str = "", seed: int = 0) -> Result:
    return simulate(parse_trace(trace, "yaml"), parse_fleet([GROUP, VENDOR % vendor]), Options(seed=seed))


def test_bill_of_two_slices() -> None:
    result = run()
    bill = result.bills[0]
    assert (result.tasks, result.ended, bill.slices_made) == (2, 2, 2)
    assert bill.busy == pytest.approx(2.0, abs=0.01)
    assert bill.booting == pytest.approx(2 / 3, abs=0.05)
    assert 0.1 < bill.idle < 0.3, "scaleDownDelaySeconds, 300 s of each"
    assert bill.cost == pytest.approx(10 * bill.total)
    assert result.waits is not None
    assert 20 * 60 < result.waits.worst < 24 * 60


def test_the_same_seed_gives_the_same_history() -> None:
    shaky = ", neverBoots: 0.3, meanHoursBetweenFailures: 2"
    assert dataclasses.asdict(run(vendor=shaky, seed=7)) == dataclasses.asdict(run(vendor=shaky, seed=7))
    assert run(vendor=shaky, seed=7).points != run(vendor=shaky, seed=8).points


def test_quota_is_named_and_the_rest_waits() -> None:
    result = run(trace="tasks: [{at: 0, duration: 1h, gpus: 8, count: 3}]", vendor=", quota: 1")
    assert max(sum(point.nodes.values()) for point in result.points) == 1
    assert ("g", "OverQuota") in {(group, kind) for group, kind, _ in result.failures}
    assert result.ended == 3, "one after the other"


def test_a_node_that_dies_costs_an_attempt_and_no_task() -> None:
    result = run(trace="tasks: [{at: 0, duration: 6h, gpus: 8}]", vendor=", meanHoursBetweenFailures: 4", seed=3)
    assert result.retried > 0
    assert result.ended == 1


def test_what_fits_nothing_says_so() -> None:
    result = run(trace="tasks: [{at: 0, duration: 1h, gpus: 9}]")
    assert [(one.count, one.reason) for one in result.stuck] == [(1, "TooLarge")]
    assert result.bills[0].total == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Pod", "only ScaleGroup, IrisCluster and SimulatedVendor"),
        (VENDOR % "", "no ScaleGroup"),
        (GROUP + "---\n" + VENDOR % ", quotas: 3", "quotas"),
        ("[]", "no object"),
    ],
)
def test_fleets_that_are_none(text: str, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        parse_fleet([text])


def test_high_priority_takes_the_place_of_low_and_low_runs_again() -> None:
    trace = (
        "tasks: [{at: 0, duration: 2h, gpus: 8, name: low}, {at: 1h, duration: 1h, gpus: 8, name: high, priority: 1}]"
    )
    both = run(trace=trace, vendor=", quota: 1")
    assert (both.ended, both.retried) == (2, 1)
    assert both.waits is not None
    assert both.waits.worst < 24 * 60, "high waited for its place longer than a boot"
