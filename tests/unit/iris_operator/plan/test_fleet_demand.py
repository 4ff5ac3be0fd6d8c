"""Waiting Tasks make slices: where, how many, when, and what each is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.plan.groups.fleet import FleetPlan
from tests.builders import H100, Builder, SliceBuilder, TaskBuilder, at, cluster, group, slice_, task
from tests.unit.iris_operator.plan.fleets import acted, booting, created, failed, fleet, idle, only, retiring

_GPUS = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}
_CPUS = {"cpu": "4", "memory": "8Gi"}


def _h100(name: str = "h100", **spec: Any) -> Builder[ScaleGroup]:
    template = {"spec": {"instanceType": H100, "gpusPerNode": 8, **spec.pop("of", {})}}
    full: dict[str, Any] = {"minSlices": 0, "maxSlices": 4, "nodeResources": _GPUS, "template": template}
    return group(name, **{**full, **spec})


def _cpu(name: str = "cpu", **spec: Any) -> Builder[ScaleGroup]:
    full: dict[str, Any] = {"minSlices": 0, "maxSlices": 4, "nodeResources": _CPUS}
    return group(name, **{**full, **spec})


def _many(number: int, **needs: Any) -> list[TaskBuilder]:
    return [task(f"t{index:02}").limits(**{"cpu": "1", "memory": "1Gi", **needs}).made(300) for index in range(number)]


def _makes(plan: FleetPlan) -> dict[str, int]:
    return {one.group.metadata.name: len(created(one)) for one in plan.groups if created(one)}


def _reasons(plan: FleetPlan) -> set[str]:
    return {one.reason for one in plan.waiting}


@dataclass(frozen=True)
class Case:
    groups: list[Builder[ScaleGroup]]
    tasks: list[TaskBuilder]
    makes: dict[str, int]
    reasons: set[str]
    slices: list[SliceBuilder] = field(default_factory=list)
    demand: dict[str, int] = field(default_factory=dict)


BOOT = {"WaitingForBoot"}
_PORT = [{"name": "web", "containerPort": 8080}]
CASES = {
    "from zero": Case([_h100()], _many(1, gpu=8), {"h100": 1}, BOOT, demand={"h100": 1}),
    "as many as share a node make one": Case([_h100()], _many(8, gpu=1), {"h100": 1}, BOOT),
    "one more makes two": Case([_h100()], _many(9, gpu=1), {"h100": 2}, BOOT),
    "large ones first, small ones beside them": Case(
        [_h100()], [*_many(2, gpu=2), task("a").limits(gpu=6).made(999), task("b").limits(gpu=6).made(90)],
        {"h100": 2}, BOOT,
    ),
    "nodes of one slice are filled together": Case([_h100(of={"nodeCount": 2})], _many(3, gpu=8), {"h100": 2}, BOOT),
    "in flight first": Case(
        [_h100()], _many(2, gpu=8), {"h100": 1}, BOOT, [booting("b", of="h100")], {"h100": 2}
    ),
    "in flight is enough": Case([_h100()], _many(8, gpu=1), {}, BOOT, [booting("b", of="h100")], {"h100": 1}),
    "one made by hand in flight is enough": Case(
        [_h100()], _many(1, gpu=8), {}, BOOT, [slice_("mine", gpusPerNode=8).phase("Booting")]
    ),
    "one cordoned in flight is none": Case(
        [_h100()], _many(1, gpu=8), {"h100": 1}, BOOT, [booting("b", of="h100").spec(availability="Cordoned")]
    ),
    "what is full counts for nothing": Case(
        [_h100()], [*_many(1, gpu=8), task("x").limits(gpu=8).bound("r")], {"h100": 1}, BOOT,
        [idle("r", of="h100", node={"cpu": "64", "memory": "512Gi", "gpu": 8})],
    ),
    "a port of a fixed number is there once on a node": Case(
        [_cpu()], [task(name, ports=_PORT).limits(cpu="1").made(300) for name in "abc"], {"cpu": 3}, BOOT
    ),
    "ports that differ share a node": Case(
        [_cpu()],
        [task(name, ports=[{"name": "p", "containerPort": at}]).limits(cpu="1").made(300) for at, name in enumerate("abc", 80)],
        {"cpu": 1}, BOOT,
    ),
    "other shapes share the node of a port": Case(
        [_cpu()], [task("a", ports=_PORT).limits(cpu="1").made(300), *_many(2)], {"cpu": 1}, BOOT
    ),
    "the same port of another shape does not": Case(
        [_cpu()], [task(name, ports=_PORT).limits(cpu=cpu).made(300) for name, cpu in (("a", "1"), ("b", "2"))],
        {"cpu": 2}, BOOT,
    ),
    "the minimum that is made anyway is used": Case([_h100(minSlices=1)], _many(1, gpu=8), {"h100": 1}, BOOT),
    "by priority": Case([_h100("a"), _h100("b", priority=5)], _many(1, gpu=8), {"b": 1}, BOOT),
    "then by cost": Case(
        [_h100("a", costPerNodeHour=40.0), _h100("b", costPerNodeHour=30.0)], _many(1, gpu=8), {"b": 1}, BOOT
    ),
    "cost of all that is needed": Case(
        [_h100("one", costPerNodeHour=40.0), _h100("two", costPerNodeHour=30.0, of={"gpusPerNode": 4}, nodeResources={})],
        _many(8, gpu=1), {"one": 1}, BOOT,
    ),
    "then by fit: no GPUs for what needs none": Case([_h100(), _cpu()], _many(4), {"cpu": 1}, BOOT),
    "then by name": Case([_h100("b"), _h100("a")], _many(1, gpu=8), {"a": 1}, BOOT),
    "over the maximum to the next": Case(
        [_h100("a", priority=5, maxSlices=1), _h100("b")], _many(3, gpu=8), {"a": 1, "b": 2}, BOOT
    ),
    "none left": Case(
        [_h100(maxSlices=1)], _many(2, gpu=8), {"h100": 1}, {"WaitingForBoot", "AtMaxSlices"}, demand={"h100": 2}
    ),
    "the group that it names": Case(
        [_h100("a", priority=5), _h100("b")], [_many(1, gpu=8)[0].spec(placement={"scaleGroupName": "b"})], {"b": 1}, BOOT
    ),
    "a group that isn't there": Case(
        [_h100()], [_many(1)[0].spec(placement={"scaleGroupName": "nope"})], {}, {"GroupNotFound"}
    ),
    "a slice that isn't there": Case([_h100()], [_many(1)[0].spec(placement={"sliceName": "nope"})], {}, {"SliceNotFound"}),
    "a slice that boots": Case(
        [_h100()], [_many(1)[0].spec(placement={"sliceName": "b"})], {}, BOOT, [booting("b", of="h100")]
    ),
    "too large for any": Case([_h100(), _cpu()], _many(1, gpu=9), {}, {"TooLarge"}),
    "large for what there is, not for a new one": Case([_h100()], _many(1, gpu=8), {"h100": 1}, BOOT, [slice_("s").ready(_CPUS)]),
    "too young: counted, not made for": Case([_h100()], [_many(1, gpu=8)[0].made(20)], {}, {"ScaleUpDelay"}, demand={"h100": 1}),
    "young ones use what old ones make": Case(
        [_h100()], [*_many(1, gpu=4), task("y").limits(gpu=4).made(1)], {"h100": 1}, BOOT, demand={"h100": 1}
    ),
    "what nobody knows is taken to fit": Case([_cpu(nodeResources={})], _many(9, cpu="3"), {"cpu": 1}, BOOT),
    "what was learned counts": Case(
        [_cpu(nodeResources={}).status(nodeResources=_CPUS, observedGeneration=1)], _many(3, cpu="3"), {"cpu": 3}, BOOT
    ),
    "GPUs are known before": Case([_h100(nodeResources={}), _cpu(nodeResources={})], _many(3, gpu=8), {"h100": 3}, BOOT),
    "a blocked group's goes to the next": Case(
        [_h100("a", priority=5), _h100("b")], _many(2, gpu=8), {"b": 2}, BOOT, [failed("f", "OverQuota", of="a")]
    ),
    "on a slice that was about to go": Case(
        [_h100()], _many(1, gpu=8), {}, {"WaitingForSlice"},
        [retiring(idle("r", of="h100", node={"cpu": "64", "memory": "512Gi", "gpu": 8}), ago=3)],
    ),
    "no group, no words of groups": Case([], _many(1), {}, {"NoSliceReady"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_demand(name: str) -> None:
    case = CASES[name]
    plan = fleet(case.groups, case.slices, case.tasks)
    assert _makes(plan) == case.makes
    assert _reasons(plan) == case.reasons
    for which, number in case.demand.items():
        assert only(plan, which).status.demand == number


def test_a_slice_that_was_about_to_go_is_kept_for_it() -> None:
    ready = retiring(idle("r", of="h100", node={"cpu": "64", "memory": "512Gi", "gpu": 8}), ago=3)
    assert acted(only(fleet([_h100()], [ready], _many(1, gpu=8)), "h100")) == ["Uncordon r Wanted"]


def _words(groups: Sequence[Builder[ScaleGroup]], slices: Sequence[SliceBuilder], tasks: Sequence[TaskBuilder]) -> str:
    (found,) = {one.message for one in fleet(groups, slices, tasks).waiting}
    return found


_NEEDS = "needs cpu 1, memory 1Gi, nvidia.com/gpu 8; "
_NONE = "no slice is Ready: there is none; "
_BOOTS = {"recentBoots": [{"sliceName": "x", "seconds": 1020}, {"sliceName": "y", "seconds": 1320}]}
WORDS: dict[str, tuple[list[Builder[ScaleGroup]], list[SliceBuilder], str]] = {
    "boots": ([_h100()], [], _NONE + "group h100 is booting 1 slice for it: bare metal usually takes 20 to 30 min"),
    "boots as it used to": (
        [_h100().status(**_BOOTS)], [booting("b", of="h100")],
        "no slice is Ready: 1 Booting (b); group h100 is booting 1 slice for it: last 2 took 17-22 min"),
    "at its maximum": (
        [_h100(maxSlices=1), _cpu()], [idle("r", of="h100", node={"cpu": "64", "memory": "512Gi", "gpu": 4})],
        "the largest node offers 4 nvidia.com/gpu; group h100 is at maxSlices 1; would fit no other group"),
    "blocked": (
        [_h100(), _cpu()], [failed("f", "OverQuota", of="h100")],
        "no slice is Ready: 1 Failed (f); group h100 is blocked until 12:01:01 UTC: OverQuota: a launch failed; slice f: "
        "said CoreWeave; would fit no other group"),
    "fits nothing": (
        [_cpu()], [], "no slice is Ready: there is none; fits no group "
        "(cpu: nodes have at most 0 nvidia.com/gpu): ask for less, or add a larger group"),
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_words(name: str) -> None:
    groups, slices, words = WORDS[name]
    assert _words(groups, slices, _many(1, gpu=8)) == _NEEDS + words


def test_every_unplaced_task_is_told_once() -> None:
    tasks = [
        *_many(20, gpu=3), task("none").spec(clusterName="x"), task("there").spec(placement={"sliceName": "b"}),
        task("huge").limits(gpu=99).made(5), task("gone").spec(placement={"scaleGroupName": "x"}),
    ]  # fmt: skip
    plan = fleet([_h100(maxSlices=2), _cpu()], [booting("b", of="h100")], tasks)
    assert sorted(one.task.metadata.name for one in plan.waiting) == sorted(one.build().metadata.name for one in tasks)


def test_looks_again_when_the_task_has_waited_long_enough() -> None:
    assert fleet([_h100()], [], [_many(1, gpu=8)[0].made(20)]).look_again_seconds == 40
    assert fleet([_h100()], [], _many(1, gpu=8)).look_again_seconds is None


def test_a_delay_of_none() -> None:
    settings = cluster(autoscaler={"scaleUpDelaySeconds": 0})
    assert _makes(fleet([_h100()], [], [_many(1, gpu=8)[0].made(0)], [settings])) == {"h100": 1}


def test_a_gang_is_counted_whole() -> None:
    """Four nodes' worth: what can have only three gets none, and what is made for others is no part of it."""
    gang = _many(4, gpu=8)
    gangs = {f"uid-t{number:02}": "gang" for number in range(4)}
    small, large = _h100("small", priority=9, maxSlices=3), _h100("large", maxSlices=4)
    assert _makes(fleet([small, large], [], gang, gangs=gangs)) == {"large": 4}
    assert _makes(fleet([small], [], gang, gangs=gangs)) == {}
    assert _makes(fleet([small], [], gang)) == {"small": 3}
    assert _reasons(fleet([small], [], gang, gangs=gangs)) == {"TooLarge"}


def test_a_gang_waits_for_its_youngest() -> None:
    gang = [_many(1, gpu=8)[0], task("t99").limits(gpu=8).made(5)]
    gangs = {"uid-t00": "gang", "uid-t99": "gang"}
    assert _makes(fleet([_h100()], [], [one.limits(cpu="1", memory="1Gi", gpu=8) for one in gang], gangs=gangs)) == {}


def test_learned_from_ready_slices_and_forgotten_with_the_template() -> None:
    ready = [idle("a", node={"cpu": "4", "memory": "8Gi"}), idle("b", node={"cpu": "3", "memory": "9Gi"})]
    built = group(minSlices=2)
    learned = only(fleet([built], ready)).status
    assert learned.node_resources == {"cpu": "3", "memory": "8Gi"}
    after = built.status(**learned.wire()).spec(template={"spec": {"instanceType": H100}}).meta(generation=2)
    assert only(fleet([after], [])).status.node_resources == {}
    scaled = built.status(**learned.wire()).spec(minSlices=0)
    assert only(fleet([scaled], [])).status.node_resources == learned.node_resources


def test_boots_are_remembered_newest_first_and_once() -> None:
    slices = [
        idle(f"s{number:02}").status(launchedAt=at(5000 - number), bootSeconds=900 + number) for number in range(14)
    ]
    built = group(minSlices=0, maxSlices=20)
    first = only(fleet([built], slices)).status
    assert [one.slice_name for one in first.recent_boots] == [f"s{number:02}" for number in range(13, 3, -1)]
    again = only(fleet([built.status(**first.wire())], slices)).status
    assert again.recent_boots == first.recent_boots
    more = [*slices, idle("new").status(launchedAt=at(4000), bootSeconds=1000)]
    third = only(fleet([built.status(**first.wire())], more)).status
    assert [one.slice_name for one in third.recent_boots][:2] == ["new", "s13"]
    assert only(fleet([built.status(**third.wire())], [])).status.recent_boots == third.recent_boots


def test_the_highest_priority_is_promised_what_boots() -> None:
    low, high = task("low").limits(gpu=8).made(900), task("high", priority=1).limits(gpu=4, cpu="1").made(300)
    plan = fleet([_h100(maxSlices=1)], [booting("b", of="h100")], [low, high])
    assert {one.task.metadata.name: one.reason for one in plan.waiting} == {
        "low": "AtMaxSlices",
        "high": "WaitingForBoot",
    }


def test_young_ones_of_high_priority_come_before_old_ones_of_low() -> None:
    low, high = task("low").limits(gpu=8).made(900), task("high", priority=1).limits(gpu=8).made(1)
    plan = fleet([_h100(maxSlices=2)], [booting("b", of="h100")], [low, high])
    assert {one.task.metadata.name: one.reason for one in plan.waiting} == {
        "low": "WaitingForBoot",
        "high": "WaitingForBoot",
    }
    assert _makes(plan) == {"h100": 1}
