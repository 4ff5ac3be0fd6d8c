"""Where the members of a Task of several replicas go: all at once on one slice, or none; and what is said of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iris_operator.plan.placement.ledger import Ledger
from iris_operator.plan.placement.placement import PlacementPlan, PlacementView, plan_placement
from tests.builders import NAMESPACE, NOW, SliceBuilder, TaskBuilder, at, cluster, member, slice_, task

_NODE = {"cpu": "4", "memory": "8Gi"}
_WANTS: dict[str, Any] = {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
_LARGE: dict[str, Any] = {"resources": {"limits": {"cpu": "4", "memory": "1Gi"}}}


def _gang(replicas: int, name: str = "t", **spec: Any) -> list[TaskBuilder]:
    """The Task, and its members behind it."""
    spec = {**_WANTS, **spec}
    return [task(name, replicas=replicas, **spec), *(member(name, rank, **spec) for rank in range(replicas))]


def _view(slices: list[SliceBuilder], tasks: list[TaskBuilder]) -> PlacementView:
    return PlacementView(
        NAMESPACE, (cluster().build(),), tuple(one.build() for one in slices), tuple(one.build() for one in tasks)
    )


def _plan(slices: list[SliceBuilder], tasks: list[TaskBuilder]) -> PlacementPlan:
    return plan_placement(_view(slices, tasks), NOW)


def _where(plan: PlacementPlan) -> list[tuple[str, str]]:
    return [(one.task.metadata.name, one.binding.node_name) for one in plan.bindings]


@dataclass(frozen=True)
class Case:
    slices: list[SliceBuilder]
    tasks: list[TaskBuilder]
    nodes: list[str]


_BUSY = task("other", **_LARGE)
CASES = {
    "one to a node, by rank": Case([slice_().ready(_NODE, _NODE)], _gang(2), ["s-n0", "s-n1"]),
    "nodes that are taken are left out": Case(
        [slice_().ready(_NODE, _NODE, _NODE)], [_BUSY.bound("s", 0), *_gang(2)], ["s-n1", "s-n2"]
    ),
    "several to a node where there are fewer nodes": Case(
        [slice_().ready(_NODE, _NODE)], _gang(4), ["s-n0", "s-n0", "s-n1", "s-n1"]
    ),
    "as even as it goes": Case([slice_().ready(_NODE, _NODE)], _gang(3), ["s-n0", "s-n0", "s-n1"]),
    "rather spread than on the fuller slice": Case(
        [slice_("a").ready(_NODE), slice_("b").ready(_NODE, _NODE)], _gang(2), ["b-n0", "b-n1"]
    ),
    "on the fullest slice that will do": Case(
        [slice_("a").ready(_NODE, _NODE, _NODE), slice_("b").ready(_NODE, _NODE)], _gang(2), ["b-n0", "b-n1"]
    ),
    "never on two slices": Case([slice_("a").ready(_NODE), slice_("b").ready(_NODE)], _gang(2, **_LARGE), []),
    "never a part": Case([slice_().ready(_NODE)], _gang(2, **_LARGE), []),
    "where it asks to be": Case(
        [slice_("a").ready(_NODE, _NODE), slice_("b").ready(_NODE, _NODE, _NODE)],
        _gang(2, placement={"sliceName": "b"}),
        ["b-n0", "b-n1"],
    ),
    "a port of a fixed number is there once on a node": Case(
        [slice_().ready(_NODE)], _gang(2, ports=[{"name": "http", "containerPort": 8080}]), []
    ),
    "not before all members are there": Case([slice_().ready(_NODE, _NODE)], _gang(2)[:2], []),
    "not while one is deleted": Case(
        [slice_().ready(_NODE, _NODE)], [*_gang(2)[:2], member("t", 1, **_WANTS).deleting()], []
    ),
    "not while the Task is": Case([slice_().ready(_NODE, _NODE)], [_gang(2)[0].deleting(), *_gang(2)[1:]], []),
    "not without its Task": Case([slice_().ready(_NODE, _NODE)], _gang(2)[1:], []),
    "not while one member's last attempt is bound": Case(
        [slice_().ready(_NODE, _NODE)],
        [*_gang(2)[:2], member("t", 1, **_WANTS).bound("s", 1).status(phase="Pending", attempt=1, endedAttempt=1)],
        [],
    ),
    "not before the longest rest is over": Case(
        [slice_().ready(_NODE, _NODE)], [*_gang(2)[:2], member("t", 1, **_WANTS).status(retryAfter=at(-5))], []
    ),
    "the older first": Case(
        [slice_().ready(_NODE, _NODE)],
        [*_gang(2, "young", **_LARGE), *(one.made(7200) for one in _gang(2, "old", **_LARGE))],
        ["s-n0", "s-n1"],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_where_members_go(case: Case) -> None:
    assert [node for _, node in _where(_plan(case.slices, case.tasks))] == case.nodes


def test_the_older_is_the_one_that_is_placed() -> None:
    found = _where(_plan(CASES["the older first"].slices, CASES["the older first"].tasks))
    assert [name for name, _ in found] == ["old-0", "old-1"]


def test_the_binding_says_who_the_others_are() -> None:
    nodes = slice_().ready(_NODE, _NODE).body()["status"]["nodes"]
    for rank, node in enumerate(nodes):
        node["address"] = f"10.0.0.{rank}"
    owner = slice_().ready(_NODE, _NODE).status(nodes=nodes)
    gang = _gang(2)
    gang[2] = gang[2].status(endedAttempt=3, attempt=3, retries={"user": 2})
    gang[1] = gang[1].status(endedAttempt=3, attempt=3, retries={"user": 1, "infrastructure": 4})
    first, second = _plan([owner], gang).bindings
    assert (first.binding.attempt, second.binding.attempt) == (4, 4)
    assert second.binding.member is not None
    assert second.binding.member.wire() == {
        "rank": 1,
        "peers": [{"nodeName": "s-n0", "address": "10.0.0.0"}, {"nodeName": "s-n1", "address": "10.0.0.1"}],
        "retries": {"user": 2, "infrastructure": 4, "preemption": 0},
    }


def _halfway(stop: str = "", attempt: int = 1) -> list[TaskBuilder]:
    peers = [{"nodeName": "s-n0"}, {"nodeName": "s-n1"}]
    bound = member("t", 0, **_LARGE).bound("s", 0, member={"rank": 0, "peers": peers}, attempt=attempt, stopReason=stop)
    return [task("t", replicas=2, **_LARGE), bound, member("t", 1, **_LARGE)]


HALFWAY = {
    "to where the first was told": (_halfway(), [("t-1", "s-n1")]),
    "not when the first is stopped": (_halfway("MembersRestart"), []),
    "not when its place is taken": ([*_halfway(), _BUSY.bound("s", 1)], []),
    "not when it has ended that attempt": (
        [*_halfway()[:2], member("t", 1, **_LARGE).status(attempt=1, endedAttempt=1, phase="Pending")], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HALFWAY.values(), ids=HALFWAY.keys())
def test_what_an_operator_that_ended_halfway_left(case: tuple[list[TaskBuilder], list[tuple[str, str]]]) -> None:
    tasks, expected = case
    plan = _plan([slice_("a").ready(_NODE), slice_().ready(_NODE, _NODE)], tasks)
    assert _where(plan) == expected
    assert plan.unplaced == ()
    for one in plan.bindings:
        assert one.binding.member is not None
        assert (one.binding.attempt, [peer.node_name for peer in one.binding.member.peers]) == (1, ["s-n0", "s-n1"])


SAID = {
    "no slice": (
        [], _gang(2), "NoSliceReady",
        "needs 2 members on one slice, each of which needs cpu 2, memory 1Gi; no slice is Ready: there is none",
    ),
    "a member is too large": (
        [slice_().ready(_NODE)], _gang(2, resources={"limits": {"cpu": "5"}}), "TooLarge",
        "needs 2 members on one slice, each of which needs cpu 5, memory 64Mi; the largest node offers 4 cpu",
    ),
    "all together are": (
        [slice_("a").ready(_NODE), slice_("b").ready(_NODE, _NODE)], _gang(5), "TooLarge",
        "needs 5 members on one slice, each of which needs cpu 2, memory 1Gi; the largest slice, b, takes 4 of 5",
    ),
    "others have the room": (
        [slice_("a").ready(_NODE), slice_("b").ready(_NODE, _NODE)], [_BUSY.bound("b", 0), *_gang(4)],
        "InsufficientResources",
        "needs 4 members on one slice, each of which needs cpu 2, memory 1Gi; of 4 there is room on slice a for 2, b for 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID.values(), ids=SAID.keys())
def test_what_is_said(case: tuple[list[SliceBuilder], list[TaskBuilder], str, str]) -> None:
    slices, tasks, reason, facts = case
    (one,) = _plan(slices, tasks).unplaced
    assert (one.task.metadata.name, one.reason, one.members) == ("t", reason, len(_members(tasks)))
    assert one.facts == facts


def _members(tasks: list[TaskBuilder]) -> list[TaskBuilder]:
    return [one for one in tasks if one.build().owner_uid]


def test_what_the_cluster_does_not_allow_is_told_of_the_task() -> None:
    plan = _plan([slice_().ready(_NODE, _NODE)], _gang(2, securityContext={"privileged": True}))
    assert [one.task.metadata.name for one in plan.denied] == ["t"]
    assert plan.bindings == ()


def test_a_ledger_that_is_kept_says_the_same() -> None:
    ledger, owner = Ledger(), slice_().ready(_NODE, _NODE).build()
    clusters = (cluster().build(),)
    gang = [one.build() for one in _gang(2)]
    steps = [
        gang[:2],  # a member is missing
        gang,
        [gang[0], member("t", 0, **_WANTS).bound("s", 0).build(), gang[2]],
        [gang[0], gang[1]],
        [gang[1], gang[2]],  # its Task is gone
        gang,
    ]
    counts = []
    for tasks in steps:
        view = PlacementView(NAMESPACE, clusters, (owner,), tuple(tasks))
        kept, anew = plan_placement(view, NOW, ledger), plan_placement(view, NOW)
        assert kept == anew
        counts.append(len(kept.bindings))
    assert counts == [0, 2, 0, 0, 0, 2]


_SIZES = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=3)
_TASKS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(0, 99)), max_size=6)


@settings(max_examples=150, deadline=None)
@given(sizes=_SIZES, wanted=_TASKS)
def test_all_or_none_on_one_slice_and_never_more_than_there_is(
    sizes: list[list[int]], wanted: list[tuple[int, int, int]]
) -> None:
    slices = [
        slice_(f"s{number}").ready(*[{"cpu": str(cpu), "memory": "64Gi"} for cpu in nodes])
        for number, nodes in enumerate(sizes)
    ]
    tasks: list[TaskBuilder] = []
    for number, (replicas, cpu, age) in enumerate(wanted):
        spec = {"resources": {"limits": {"cpu": str(cpu), "memory": "1Mi"}}}
        tasks += (
            [one.made(age) for one in _gang(replicas, f"t{number}", **spec)]
            if replicas > 1
            else [task(f"t{number}", **spec).made(age)]
        )
    plan = _plan(slices, tasks)
    used: Counter[str] = Counter()
    placed: defaultdict[str, list[Any]] = defaultdict(list)
    for one in plan.bindings:
        used[one.binding.node_name] += wanted[int(one.task.metadata.name[1:].split("-")[0])][1]
        placed[one.task.metadata.name.split("-")[0]].append(one.binding)
    for number, nodes in enumerate(sizes):
        assert all(used[f"s{number}-n{rank}"] <= cpu for rank, cpu in enumerate(nodes))
    for name, bindings in placed.items():
        assert len(bindings) == wanted[int(name[1:])][0]
        assert len({one.slice_name for one in bindings}) == 1
        assert [one.rank for one in bindings] == sorted(one.rank for one in bindings)
    assert {one.task.metadata.name for one in plan.unplaced} == {
        f"t{each}" for each in range(len(wanted))
    } - placed.keys()
