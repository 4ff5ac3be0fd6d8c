"""Which Task goes where, and what the others are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from iris_operator.plan.placement.placement import PlacementPlan, PlacementView, free_by_slot, plan_placement
from tests.builders import NAMESPACE, NOW, Builder, SliceBuilder, TaskBuilder, at, cluster, group, member, slice_, task
from tests.unit.iris_operator.plan.fleets import created, fleet, only


def _view(
    slices: Sequence[SliceBuilder], tasks: Sequence[TaskBuilder], clusters: Sequence[Builder[Any]]
) -> PlacementView:
    return PlacementView(
        NAMESPACE,
        tuple(one.build() for one in clusters),
        tuple(one.build() for one in slices),
        tuple(one.build() for one in tasks),
    )


def _plan(slices: Sequence[SliceBuilder], tasks: Sequence[TaskBuilder], clusters: Any = None) -> PlacementPlan:
    return plan_placement(_view(slices, tasks, (cluster(),) if clusters is None else clusters), NOW)


def _where(plan: PlacementPlan) -> dict[str, str]:
    return {one.task.metadata.name: one.binding.node_name for one in plan.bindings}


_BIG = {"cpu": "8", "memory": "16Gi", "gpu": 8}
_SMALL = {"cpu": "2", "memory": "4Gi"}
_ONE = task("a").requests(cpu="1", memory="1Gi")
_TWO_TASKS = cluster(worker={"maxTasks": 2})


def _refusing(owner: SliceBuilder, rank: int, why: str = "its disk is full") -> SliceBuilder:
    nodes = owner.body()["status"]["nodes"]
    nodes[rank]["refuses"] = why
    return owner.status(nodes=nodes)


def _leaving(name: str, slice_name: str = "s", whom: str = "") -> TaskBuilder:
    return task(name).bound(slice_name, stopReason="Preempted", stopFor=whom)


_HIGH = task("high", priority=1)
_LOW = task("low").requests(cpu="1").made(9)


def _squad(name: str, cpu: str, **spec: Any) -> list[TaskBuilder]:
    """A Task of two replicas, and its members."""
    wants = {"resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}, **spec}
    return [task(name, replicas=2, **wants), *(member(name, rank, **wants) for rank in range(2))]


def _on_port(name: str, protocol: str = "TCP") -> TaskBuilder:
    return task(name, ports=[{"name": "web", "containerPort": 8080, "protocol": protocol}])


@dataclass(frozen=True)
class Placed:
    slices: list[SliceBuilder]
    tasks: list[TaskBuilder]
    nodes: dict[str, str]
    clusters: list[Builder[Any]] = field(default_factory=lambda: [cluster()])


PLACED = {
    "on the only node": Placed([slice_().ready(_SMALL)], [_ONE], {"a": "s-n0"}),
    "on the fullest that has room": Placed(
        [slice_("x").ready(_BIG), slice_("y").ready({"cpu": "1", "memory": "1Gi"})], [_ONE], {"a": "y-n0"}
    ),
    "away from GPUs when it needs none": Placed(
        [slice_("x").ready({**_SMALL, "gpu": 1}), slice_("y").ready({"cpu": "64", "memory": "64Gi"})], [_ONE], {"a": "y-n0"}
    ),
    "packed by what is free, not by size": Placed(
        [slice_("x").ready(_SMALL), slice_("y").ready(_BIG)],
        [task("b").limits(gpu=7, cpu="7").bound("y"), task("c").limits(gpu=1)],
        {"c": "y-n0"},
    ),
    "fills one slice before the next": Placed(
        [slice_("x").ready(_SMALL), slice_("y").ready(_SMALL)],
        [task(name).requests(cpu="1").made(ago) for name, ago in (("a", 3), ("b", 2), ("c", 1))],
        {"a": "x-n0", "b": "x-n0", "c": "y-n0"},
    ),
    "oldest first": Placed(
        [slice_().ready({"cpu": "1", "memory": "1Gi"})],
        [task("new").requests(cpu="1").made(1), task("old").requests(cpu="1").made(9)],
        {"old": "s-n0"},
    ),
    "the highest priority first": Placed(
        [slice_().ready({"cpu": "1", "memory": "1Gi"})],
        [task("old").requests(cpu="1").made(9), _HIGH.requests(cpu="1").made(1)], {"high": "s-n0"},
    ),
    "negative priorities last": Placed(
        [slice_().ready({"cpu": "1", "memory": "1Gi"})],
        [task("low", priority=-1).requests(cpu="1").made(9), task("new").requests(cpu="1").made(1)], {"new": "s-n0"},
    ),
    "the oldest first among equal priorities": Placed(
        [slice_().ready({"cpu": "1", "memory": "1Gi"})],
        [task(name, priority=7).requests(cpu="1").made(ago) for name, ago in (("new", 1), ("old", 9))], {"old": "s-n0"},
    ),
    "room about to be left is kept for the higher": Placed(
        [slice_().ready(_SMALL)],
        [_leaving("v").requests(cpu="1"), _HIGH.requests(cpu="2"), _LOW], {},
    ),
    "what the higher does not need is free for all": Placed(
        [slice_().ready({**_SMALL, "cpu": "3"})],
        [_leaving("v").requests(cpu="1"), _HIGH.requests(cpu="2500m"),
         _LOW, task("tiny").requests(cpu="500m")], {"tiny": "s-n0"},
    ),
    "what leaves for nobody is waited for too": Placed(
        [slice_().ready(_SMALL)],
        [task("v").requests(cpu="1").bound().deleting(), _HIGH.requests(cpu="2"), _LOW], {},
    ),
    "nobody keeps room from its equals": Placed(
        [slice_().ready(_SMALL)],
        [task("v").requests(cpu="1").bound().deleting(), task("a").requests(cpu="2").made(9), task("small").requests(cpu="1")],
        {"small": "s-n0"},
    ),
    "what can't be enough is not waited for": Placed(
        [slice_().ready(_SMALL)],
        [_leaving("v").requests(cpu="500m"), _HIGH.requests(cpu="3"), _LOW], {"low": "s-n0"},
    ),
    "where its own victims are": Placed(
        [slice_("x").ready(_SMALL), slice_("y").ready(_SMALL)],
        [_leaving("v", "x").requests(cpu="1"), _leaving("w", "y", "high").requests(cpu="1"), _HIGH.requests(cpu="2"), _LOW],
        {"low": "x-n0"},
    ),
    "room made for one is not taken by who gets its own": Placed(
        [slice_("x").ready(_SMALL), slice_("y").ready(_SMALL)],
        [_leaving("v", "y", "high").requests(cpu="2"), _HIGH.requests(cpu="2").made(99), task("b", priority=1).requests(cpu="2")],
        {"b": "x-n0"},
    ),
    "but rather than by the lowest": Placed(
        [slice_("x").ready(_SMALL), slice_("y").ready(_SMALL)],
        [_leaving("v", "y", "high").requests(cpu="2"), _HIGH.requests(cpu="2"), _LOW], {"high": "x-n0"},
    ),
    "its own place before the last has left, when that is enough": Placed(
        [slice_().ready(_SMALL)], [_leaving("v", "s", "high").requests(cpu="500m"), _HIGH.requests(cpu="1500m")],
        {"high": "s-n0"},
    ),
    "whose places are left is no matter once who asked is gone": Placed(
        [slice_("x").ready(_SMALL), slice_("y").ready(_SMALL)],
        [_leaving("v", "x", "gone").requests(cpu="2"), _HIGH.requests(cpu="2"), _LOW.requests(cpu="2")], {"high": "y-n0"},
    ),
    "by the number of Tasks too": Placed(
        [slice_().ready(_BIG)],
        [_leaving("v"), task("b").bound(), _HIGH, task("low").made(9)], {}, [_TWO_TASKS],
    ),
    "members get room kept on one slice": Placed(
        [slice_().ready(_SMALL, _SMALL)],
        [_leaving("v").requests(cpu="1"), *_squad("high", "2", priority=1), task("low").requests(cpu="2").made(9)], {},
    ),
    "a port that another has": Placed(
        [slice_().ready(_BIG, _BIG)], [_on_port("a").bound(), _on_port("b"), _on_port("c")], {"b": "s-n1"}
    ),
    "a port that another was given": Placed(
        [slice_().ready(_BIG)],
        [task("a", ports=[{"name": "web"}]).bound().status(ports=[{"name": "web", "port": 8080}]), _on_port("b")], {},
    ),
    "a port of another protocol": Placed([slice_().ready(_BIG)], [_on_port("a", "UDP").bound(), _on_port("b")], {"b": "s-n0"}),
    "a port of a Task that has ended": Placed(
        [slice_().ready(_BIG)], [_on_port("a").bound().phase("Failed"), _on_port("b")], {"b": "s-n0"}
    ),
    "any port will do": Placed(
        [slice_().ready(_BIG)], [_on_port("a").bound(), task("b", ports=[{"name": "web"}])], {"b": "s-n0"}
    ),
    "a small one goes past a large one that waits": Placed(
        [slice_().ready(_SMALL)], [task("large").requests(cpu="9").made(9), task("small").requests(cpu="1").made(1)],
        {"small": "s-n0"},
    ),
    "by name when equally old": Placed(
        [slice_().ready({"cpu": "1", "memory": "1Gi"})], [task("b").requests(cpu="1"), task("a").requests(cpu="1")],
        {"a": "s-n0"},
    ),
    "on the second rank": Placed(
        [slice_().ready(_SMALL, _SMALL)], [task("x").requests(cpu="2").bound("s", 0), _ONE], {"a": "s-n1"}
    ),
    "on the slice asked for": Placed(
        [slice_("x").ready(_SMALL), slice_("y").ready(_BIG)], [_ONE.spec(placement={"sliceName": "y"})], {"a": "y-n0"}
    ),
    "in the group asked for": Placed(
        [slice_("x").ready(_SMALL), slice_("y", scaleGroupName="g").ready(_BIG)],
        [_ONE.spec(placement={"scaleGroupName": "g"})], {"a": "y-n0"},
    ),
    "on a degraded slice's good node": Placed(
        [slice_().ready(_SMALL, _SMALL).status(phase="Degraded")], [_ONE], {"a": "s-n0"}
    ),
    "ended Tasks take no room": Placed(
        [slice_().ready(_SMALL)], [task("b").requests(cpu="2").bound().phase("Succeeded"), task("a").requests(cpu="2")],
        {"a": "s-n0"},
    ),
    "Tasks of a worker before take no room": Placed(
        [slice_().ready(_SMALL)], [task("b").requests(cpu="2").bound(workerUid="before"), task("a").requests(cpu="2")],
        {"a": "s-n0"},
    ),
    "limits count where requests are missing": Placed(
        [slice_().ready(_SMALL)], [task("b").limits(cpu="2").bound(), task("a").requests(cpu="1")], {}
    ),
    "defaults count where both are missing": Placed(
        [slice_().ready({"cpu": "150m", "memory": "1Gi"})], [task("b").bound(), task("a")], {}
    ),
    "leaving, ended and bound Tasks are not placed": Placed(
        [slice_().ready(_BIG)],
        [task("a").deleting(), task("b").phase("Killed"), task("c").bound().phase("Running")], {},
    ),
    "a slice of another cluster is not its": Placed(
        [slice_("x", clusterName="other").ready(_BIG)], [_ONE], {}, [cluster(), cluster("other")]
    ),
    "a slice of the cluster it names": Placed(
        [slice_("x", clusterName="other").ready(_BIG), slice_("y").ready(_BIG)], [_ONE.spec(clusterName="other")],
        {"a": "x-n0"}, [cluster(), cluster("other")],
    ),
    "a node that is not ready": Placed(
        [slice_().ready(_BIG).status(nodes=[{"rank": 0, "name": "n", "ready": False, "allocatable": {"cpu": "8"}}])],
        [_ONE], {},
    ),
    "a slice that leaves": Placed([slice_().ready(_BIG).deleting()], [_ONE], {}),
    "a cordoned slice": Placed([slice_().ready(_BIG).spec(availability="Cordoned")], [_ONE], {}),
    "a drained slice": Placed([slice_().ready(_BIG).spec(availability="Drained")], [_ONE], {}),
    "a slice that isn't Ready yet": Placed([slice_().ready(_BIG).phase("Initializing")], [_ONE], {}),
    "as many as a node may have": Placed(
        [slice_().ready(_BIG, _BIG)],
        [task("b").bound("s", 0), *(task(name).made(ago) for name, ago in (("c", 4), ("d", 3), ("e", 2), ("f", 1)))],
        {"c": "s-n0", "d": "s-n1", "e": "s-n1"}, [_TWO_TASKS],
    ),
    "over the number after maxTasks was lowered": Placed(
        [slice_().ready(_BIG)], [*(task(name).bound("s", 0) for name in "bcd"), _ONE], {}, [_TWO_TASKS]
    ),
    "away from a node that refuses": Placed([_refusing(slice_().ready(_SMALL, _BIG), 0)], [_ONE], {"a": "s-n1"}),
    "exactly full": Placed(
        [slice_().ready(_SMALL)], [task("a").requests(cpu="2", memory="4Gi")], {"a": "s-n0"}
    ),
    "one byte too many": Placed([slice_().ready(_SMALL)], [task("a").requests(memory=4 * 2**30 + 1)], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACED)
def test_placed(name: str) -> None:
    case = PLACED[name]
    plan = _plan(case.slices, case.tasks, case.clusters)
    assert _where(plan) == case.nodes


def test_the_binding_says_it_all() -> None:
    owner = slice_("s").ready(_SMALL, {**_SMALL, "cpu": "1"})
    (made,) = _plan([owner], [_ONE.status(attempt=2)]).bindings
    assert made.binding.wire() == {
        "sliceName": "s", "nodeName": "s-n1", "workerPod": "s-worker-1", "workerUid": "uid-s-worker-1", "rank": 1,
        "attempt": 3, "boundAt": "2026-11-21T12:00:00Z", "stopReason": "", "stopFor": "",
    }  # fmt: skip


WHY_NOT: dict[str, tuple[list[SliceBuilder], list[TaskBuilder], str, str]] = {
    "no slices": ([], [_ONE], "NoSliceReady",
        "needs cpu 1, memory 1Gi; no slice is Ready: there is none: apply a Slice or a ScaleGroup"),
    "no slice Ready": (
        [slice_("x").phase("Booting"), slice_("y").phase("Booting"), slice_("z")], [_ONE], "NoSliceReady",
        "needs cpu 1, memory 1Gi; no slice is Ready: 2 Booting (x, y); 1 Pending (z)"),
    "the slice asked for is not Ready": (
        [slice_("x").ready(_BIG), slice_("y").phase("Failed")], [_ONE.spec(placement={"sliceName": "y"})], "NoSliceReady",
        "needs cpu 1, memory 1Gi; no slice in slice y is Ready: 1 Failed (y); 1 Ready (x)"),
    "cordoned": (
        [slice_("x").ready(_BIG).spec(availability="Cordoned")], [_ONE], "NoSliceReady",
        "needs cpu 1, memory 1Gi; no slice is Ready: 1 Ready but Cordoned (x)"),
    "nothing in the group": (
        [slice_("x").ready(_BIG)], [_ONE.spec(placement={"scaleGroupName": "g"})], "NoSliceReady",
        "needs cpu 1, memory 1Gi; no slice in group g is Ready: 1 Ready (x)"),
    "no GPUs free": (
        [slice_("x").ready(_BIG), slice_("y").ready({**_BIG, "gpu": 4})],
        [task("b").limits(gpu=5).bound("x"), task("d").limits(gpu=3).bound("y"), task("a").limits(cpu=1, gpu=4)],
        "InsufficientResources",
        "needs cpu 1, memory 64Mi, nvidia.com/gpu 4; 2 nodes have 3, 1 nvidia.com/gpu free"),
    "one node, full": (
        [slice_().ready(_SMALL)], [task("b").requests(cpu="1500m").bound(), _ONE], "InsufficientResources",
        "needs cpu 1, memory 1Gi; 1 node has 500m cpu free"),
    "two resources short": (
        [slice_().ready(_SMALL)], [task("b").requests(cpu="1500m", memory="3.5Gi").bound(), _ONE], "InsufficientResources",
        "needs cpu 1, memory 1Gi; 1 node has 500m cpu free; 1 node has 512Mi memory free"),
    "the port is taken": (
        [slice_().ready(_SMALL)], [_on_port("b").bound(), _on_port("a")], "PortTaken",
        "needs cpu 100m, memory 64Mi, port 8080; port 8080 is taken on the only node that has room: by b on s-n0: "
        "leave out containerPort for a free one, or end who has it"),
    "the port is taken where there is room": (
        [slice_().ready(_SMALL, _SMALL, {**_SMALL, "memory": "1Mi"})],
        [_on_port("b", "UDP").bound(), _on_port("d", "UDP").bound(rank=1), _on_port("a", "UDP")], "PortTaken",
        "needs cpu 100m, memory 64Mi, port 8080/UDP; port 8080/UDP is taken on all 2 nodes that have room: "
        "by b on s-n0, by d on s-n1: leave out containerPort for a free one, or end who has it"),
    "no more by number": (
        [slice_().ready(_BIG)], [task("b").bound(), task("c").bound(), _ONE], "InsufficientResources",
        "needs cpu 1, memory 1Gi; node s-n0 has 2 of 2 Tasks (worker.maxTasks)"),
    "one full by number, one by cpu": (
        [slice_().ready(_BIG, _SMALL)],
        [task("b").bound(), task("c").bound(), task("d").requests(cpu="1500m").bound("s", 1), _ONE],
        "InsufficientResources",
        "needs cpu 1, memory 1Gi; 1 node has 500m cpu free; node s-n0 has 2 of 2 Tasks (worker.maxTasks)"),
    "a full disk": (
        [_refusing(slice_().ready(_BIG), 0)], [_ONE], "InsufficientResources",
        "needs cpu 1, memory 1Gi; node s-n0 takes none: its disk is full"),
    "larger than any node": (
        [slice_().ready(_BIG)], [task("a").limits(gpu=16)], "TooLarge",
        "needs cpu 100m, memory 64Mi, nvidia.com/gpu 16; the largest node offers 8 nvidia.com/gpu: "
        "ask for less, or add a larger slice"),
    "larger than the slice asked for": (
        [slice_("x").ready(_SMALL), slice_("y").ready(_BIG)],
        [task("a").requests(cpu="3").spec(placement={"sliceName": "x"})], "TooLarge",
        "needs cpu 3, memory 64Mi; the largest node in slice x offers 2 cpu: ask for less, or add a larger slice"),
    "no single node has it all": (
        [slice_("x").ready({"cpu": "8", "memory": "1Gi"}), slice_("y").ready({"cpu": "1", "memory": "8Gi"})],
        [task("a").requests(cpu="8", memory="8Gi")], "TooLarge",
        "needs cpu 8, memory 8Gi; no single node offers all of that: ask for less, or add a larger slice"),
    "a resource nobody has": (
        [slice_().ready(_SMALL)], [task("a").limits(gpu=1)], "TooLarge",
        "needs cpu 100m, memory 64Mi, nvidia.com/gpu 1; the largest node offers 0 nvidia.com/gpu: "
        "ask for less, or add a larger slice"),
}  # fmt: skip


@pytest.mark.parametrize("name", WHY_NOT)
def test_why_not(name: str) -> None:
    slices, tasks, reason, message = WHY_NOT[name]
    (found,) = _plan(slices, tasks, (_TWO_TASKS,)).unplaced
    assert (found.reason, found.message) == (reason, message)


@pytest.mark.parametrize(
    ("clusters", "reason"), [((), "ClusterNotFound"), ((cluster("a"), cluster("b")), "ClusterAmbiguous")]
)
def test_no_settings(clusters: Any, reason: str) -> None:
    (found,) = _plan([slice_().ready(_BIG)], [_ONE], clusters).unplaced
    assert found.reason == reason


def test_free_is_what_cluster_status_shows() -> None:
    found = free_by_slot(
        _view([slice_().ready(_BIG)], [task("b").requests(cpu="3", memory="1Gi").bound()], [cluster()])
    )
    assert [slot.free for slot in found] == [{"cpu": 5000, "memory": 15 * 2**30, "nvidia.com/gpu": 8}]


def test_many_nodes_are_not_all_listed() -> None:
    nodes = [{"cpu": "1", "memory": "1Gi"}] * 10
    taken = [task(f"b{rank}").requests(cpu="900m").bound("s", rank) for rank in range(10)]
    (found,) = _plan([slice_(nodeCount=10).ready(*nodes)], [*taken, _ONE.requests(cpu="1")]).unplaced
    assert found.message.endswith("10 nodes have " + ", ".join(["100m"] * 8) + " and 2 more less cpu free")


def test_of_many_closed_nodes_three_are_named() -> None:
    owner = slice_(nodeCount=5).ready(*[_SMALL] * 5)
    for rank in range(5):
        owner = _refusing(owner, rank, "full")
    (found,) = _plan([owner], [_ONE]).unplaced
    said = "; ".join(f"node s-n{rank} takes none: full" for rank in range(3))
    assert found.message == f"needs cpu 1, memory 1Gi; {said} and 2 nodes more alike"


class TestRest:
    """After a user's failure a Task rests: it is not placed, not explained, and nobody makes a slice for it."""

    _RESTS = _ONE.status(phase="Pending", retryAfter=at(-20), endedAttempt=1)

    def test_until_its_time(self) -> None:
        plan = _plan([slice_().ready(_BIG)], [self._RESTS])
        assert (plan.bindings, plan.unplaced, plan.wake) == ((), (), (NOW + timedelta(seconds=20)).timestamp())

    def test_from_then_on_it_is_placed(self) -> None:
        view = _view([slice_().ready(_BIG)], [self._RESTS], [cluster()])
        assert not plan_placement(view, NOW + timedelta(seconds=19.9)).bindings
        plan = plan_placement(view, NOW + timedelta(seconds=20))
        assert (_where(plan), plan.wake) == ({"a": "s-n0"}, None)

    def test_the_first_to_wake_counts(self) -> None:
        later = task("b").status(phase="Pending", retryAfter=at(-300))
        assert _plan([], [later, self._RESTS]).wake == (NOW + timedelta(seconds=20)).timestamp()

    def test_others_go_on_meanwhile(self) -> None:
        assert _where(_plan([slice_().ready(_BIG)], [self._RESTS, task("b")])) == {"b": "s-n0"}

    def test_no_slice_is_made_for_it_and_the_pass_comes_back(self) -> None:
        ready = _ONE.made(900)
        assert created(only(fleet([group(minSlices=0)], tasks=[ready]))) == ["Demand"]
        rests = fleet([group(minSlices=0)], tasks=[self._RESTS.made(900)])
        assert (created(only(rests)), rests.look_again_seconds, rests.waiting) == ([], 20, ())
