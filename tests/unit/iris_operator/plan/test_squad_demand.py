"""What groups do for Tasks of several replicas: one slice for all members, or none; and what these are told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from iris_operator.api.scalegroup import ScaleGroup
from tests.builders import H100, Builder, SliceBuilder, TaskBuilder, at, group, member, slice_, task
from tests.unit.iris_operator.plan.fleets import booting, created, fleet, retiring

_GPUS = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}
_ONE: dict[str, Any] = {"resources": {"limits": {"nvidia.com/gpu": 8}}}


def _group(name: str = "g", nodes: int = 4, **spec: Any) -> Builder[ScaleGroup]:
    """Of slices of so many nodes with 8 GPUs each."""
    made = group(name, **{"minSlices": 0, "maxSlices": 4, **spec})
    template = {"spec": {"instanceType": H100, "nodeCount": nodes, "gpusPerNode": 8}}
    return made.spec(template=template, nodeResources=_GPUS)


def _gang(replicas: int, name: str = "t", **spec: Any) -> list[TaskBuilder]:
    spec = {**_ONE, **spec}
    return [task(name, replicas=replicas, **spec), *(member(name, rank, **spec) for rank in range(replicas))]


@dataclass(frozen=True)
class Case:
    groups: list[Builder[ScaleGroup]]
    slices: list[SliceBuilder]
    tasks: list[TaskBuilder]
    makes: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def _boots(name: str, nodes: int = 4, of: str = "g") -> SliceBuilder:
    return booting(name, of=of).spec(nodeCount=nodes, instanceType=H100, gpusPerNode=8)


CASES = {
    "one slice for all": Case([_group()], [], _gang(4), {"g": 1}, {"t": "WaitingForBoot"}),
    "one for each Task": Case([_group()], [], [*_gang(3, "a"), *_gang(3, "b")], {"g": 2}, dict.fromkeys("ab", "WaitingForBoot")),
    "two Tasks on one slice": Case(
        [_group()], [], [*_gang(2, "a"), *_gang(2, "b")], {"g": 1}, dict.fromkeys("ab", "WaitingForBoot")
    ),
    "one that boots will do": Case([_group()], [_boots("x")], _gang(4), {}, {"t": "WaitingForBoot"}),
    "one that boots is promised already": Case(
        [_group()], [_boots("x")], [*(one.made(9000) for one in _gang(3, "a")), *_gang(2, "b")], {"g": 1},
        dict.fromkeys("ab", "WaitingForBoot"),
    ),
    "one made by hand that boots": Case(
        [_group()],
        [slice_("x", nodeCount=4, instanceType=H100, gpusPerNode=8).phase("Booting")],
        _gang(4), {}, {"t": "WaitingForBoot"},
    ),
    "never on several slices": Case([_group(nodes=1)], [], _gang(4), {}, {"t": "TooLarge"}),
    "the group whose slices are large enough": Case(
        [_group("small", 2, priority=9), _group("large", 4)], [], _gang(4), {"large": 1}, {"t": "WaitingForBoot"}
    ),
    "none of the small one's slices in flight": Case(
        [_group("small", 2, priority=9, maxSlices=2), _group("large", 4)],
        [_boots("x", 2, "small"), _boots("y", 2, "small")], _gang(4), {"large": 1}, {"t": "WaitingForBoot"},
    ),
    "a group at its maximum": Case([_group(maxSlices=0)], [], _gang(4), {}, {"t": "AtMaxSlices"}),
    "too young": Case([_group()], [], [one.made(1) for one in _gang(4)], {}, {"t": "ScaleUpDelay"}),
    "several on a node": Case([_group(nodes=1)], [], _gang(4, resources={"limits": {"nvidia.com/gpu": 2}}), {"g": 1},
                              {"t": "WaitingForBoot"}),
    "several can't have one port": Case(
        [_group(nodes=1)], [],
        _gang(4, resources={"limits": {"nvidia.com/gpu": 2}}, ports=[{"name": "a", "containerPort": 80}]),
        {}, {"t": "TooLarge"},
    ),
    "no group is named so": Case([_group()], [], _gang(4, placement={"scaleGroupName": "x"}), {}, {"t": "GroupNotFound"}),
    "the slice that is named boots": Case(
        [_group()], [_boots("x")], _gang(4, placement={"sliceName": "x"}), {}, {"t": "WaitingForBoot"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_made_and_said(case: Case) -> None:
    plan = fleet(case.groups, case.slices, case.tasks)
    made = {one.group.metadata.name: len(created(one)) for one in plan.groups if created(one)}
    assert made == case.makes
    assert {one.task.metadata.name: one.reason for one in plan.waiting} == case.reasons


WORDS = {
    "one slice for all": "group g is booting 1 slice for it",
    "never on several slices": "fits no group (g: slices take at most 1 of 4): ask for less, or add a larger group",
    "a group at its maximum": "group g is at maxSlices 0",
}


@pytest.mark.parametrize("name", WORDS)
def test_the_words(name: str) -> None:
    case = CASES[name]
    (one,) = fleet(case.groups, case.slices, case.tasks).waiting
    assert one.message.startswith("needs 4 members on one slice, each of which needs ")
    assert WORDS[name] in one.message


def test_a_slice_on_its_way_out_is_kept_for_all() -> None:
    going = retiring(_ready("x"), ago=2)
    plan = fleet([_group()], [going], _gang(4))
    assert [type(one).__name__ for one in plan.groups[0].actions] == ["UncordonSlice"]


def _ready(name: str) -> SliceBuilder:
    made = _boots(name).ready(*[{"cpu": "64", "memory": "512Gi", "gpu": 8}] * 4)
    return made.status(readySince=at(2000), idleSince=at(1000))
