"""Giving a slice back: Tasks, worker Pods, NodePool, finalizer, in that order, and never stuck."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from iris_operator.api.slice import SlicePhase
from iris_operator.plan.actions import DeleteWorker, StopTask
from iris_operator.plan.conditions import find_condition
from iris_operator.plan.slices.deletion import plan_deletion
from iris_operator.plan.slices.obstacles import Obstacle
from iris_operator.plan.slices.snapshot import SliceView
from tests.builders import NOW, node, node_pool, slice_, task, worker
from tests.unit.iris_operator.plan.views import healthy, ready_reason, verbs, view

_GOING = slice_().phase("Ready").deleting(1)
_TASK = task("a").bound()
_TOLD = task("a").bound(stopReason="SliceDeleted")


def _going(ago: float = 1, **changes: object) -> SliceView:
    return healthy(slice_().phase("Ready").deleting(ago), **changes)


_REFUSED = Obstacle("delete", "DeletionRefused", "no: says the API")


@dataclass(frozen=True)
class Case:
    view: SliceView
    reason: str
    actions: tuple[str, ...] = ()
    words: str = ""


CASES = {
    "Tasks are told to stop first": Case(_going(tasks=[_TASK]), "StoppingTasks", ("StopTask",), "1 Task to stop: a"),
    "Tasks are told once": Case(_going(tasks=[_TOLD]), "StoppingTasks"),
    "the slowest Task is waited for": Case(
        _going(100, tasks=[_TOLD, task("b", terminationGracePeriodSeconds=300).bound(stopReason="SliceDeleted")]),
        "StoppingTasks",
        (),
        "1 Task to stop: b",
    ),
    "beyond grace and slack it goes on": Case(_going(60, tasks=[_TOLD]), "EndingWorkers", ("DeleteWorker",)),
    "within the slack it waits": Case(_going(59, tasks=[_TOLD]), "StoppingTasks"),
    "a Task of a lost worker is not waited for": Case(
        _going(tasks=[task("a").bound(workerUid="of-the-one-before")]), "EndingWorkers", ("DeleteWorker",)
    ),
    "workers, the NodePool still stands": Case(
        _going(), "EndingWorkers", ("DeleteWorker",), "1 worker Pod are gone: s-worker-0"
    ),
    "workers are asked once": Case(_going(pods=[worker().deleting()]), "EndingWorkers"),
    "NodePool once the workers are gone": Case(
        _going(pods=[], leases=[]),
        "DeletingNodePool",
        ("DeleteNodePool",),
        "until NodePool team-s is gone (0 nodes left)",
    ),
    "NodePool asked once": Case(
        _going(pods=[], pool=node_pool().status(currentNodes=1).deleting()), "DeletingNodePool", (), "(1 node left)"
    ),
    "finalizer last": Case(view(_GOING), "Deleted", ("RemoveFinalizer",)),
    "nothing left to do": Case(view(_GOING.meta(finalizers=["another's"])), "Deleted"),
    "never launched": Case(view(slice_().deleting(1)), "Deleted", ("RemoveFinalizer",)),
    "a stranger's NodePool of that name stays": Case(
        view(_GOING, node_pool().meta(annotations={})), "Deleted", ("RemoveFinalizer",)
    ),
    "worker hangs on a dead node: the NodePool goes all the same": Case(
        _going(300, nodes=[], pods=[worker().deleting(31)]), "DeletingNodePool", ("DeleteNodePool",)
    ),
    "worker on a dead node, not yet hanging": Case(
        _going(300, nodes=[], pods=[worker().deleting(29)]), "EndingWorkers"
    ),
    "NodePool gone, its node too: the worker is forced": Case(
        view(_GOING, pods=[worker().deleting(1)]), "EndingWorkers", ("DeleteWorker",)
    ),
    "NodePool that takes its time": Case(
        view(_GOING, node_pool().deleting(899)), "DeletingNodePool", (), "until NodePool team-s is gone (0 nodes left)"
    ),
    "NodePool that hangs is asked again": Case(
        view(_GOING, node_pool().status(currentNodes=1).deleting(900)),
        "DeletionHangs",
        ("DeleteNodePool",),
        "was deleted at 11:45:00 UTC and is still there (1 node left): CoreWeave does not say why",
    ),
    "it hangs, and the vendor says why": Case(
        view(
            _GOING, node_pool().deleting(900).condition("NodesRemoved", "False", "Pending", "2 nodes are being removed")
        ),
        "DeletionHangs",
        ("DeleteNodePool",),
        ": 2 nodes are being removed",
    ),
    "it hangs on a finalizer": Case(
        view(_GOING, node_pool().deleting(900).meta(finalizers=["a.vendor/nodes"])),
        "DeletionHangs",
        ("DeleteNodePool",),
        ": held by a.vendor/nodes",
    ),
    "refused": Case(
        view(_GOING, node_pool(), obstacle=_REFUSED), "DeletionRefused", (), "no: says the API (0 nodes left"
    ),
    "one of two workers hangs": Case(
        view(
            slice_(nodeCount=2).deleting(300),
            node_pool(),
            [node(), node(rank=1)],
            [worker().deleting(31), worker(rank=1).deleting(5)],
        ),
        "EndingWorkers",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_deletion(name: str) -> None:
    case = CASES[name]
    plan = plan_deletion(case.view, NOW)
    assert (ready_reason(plan), verbs(plan)) == (case.reason, list(case.actions))
    assert case.words in plan.status.message
    assert plan.status.phase is SlicePhase.DELETING


def test_the_task_is_told_why() -> None:
    (action,) = plan_deletion(_going(tasks=[_TASK]), NOW).actions
    assert action == StopTask(_TASK.build(), "SliceDeleted")


def test_a_pod_of_a_node_that_is_gone_is_forced_once_the_node_pool_is() -> None:
    pod = worker().deleting(1)
    (action,) = plan_deletion(view(_GOING, pods=[pod]), NOW).actions
    assert action == DeleteWorker(pod.build(), force=True)


def test_a_pod_is_forced_once() -> None:
    """An operator that died at each such call would get no further."""
    forced = worker().deleting(1).meta(deletionGracePeriodSeconds=0)
    assert plan_deletion(view(_GOING, pods=[forced]), NOW).actions == ()


def test_a_worker_with_a_node_gets_its_grace() -> None:
    (action,) = plan_deletion(_going(), NOW).actions
    assert isinstance(action, DeleteWorker) and not action.force


def test_looks_again_when_a_task_s_time_is_over() -> None:
    plan = plan_deletion(_going(10, tasks=[_TOLD]), NOW)
    assert plan.recheck_seconds == pytest.approx(50.5)


def test_one_event() -> None:
    assert [note.reason for note in plan_deletion(view(_GOING), NOW).notes] == ["Deleting"]
    assert plan_deletion(view(slice_().phase("Deleting").deleting(1)), NOW).notes == ()


def test_a_deletion_that_does_not_go_on_is_in_a_condition_with_since_when() -> None:
    plan = plan_deletion(view(_GOING, node_pool()), NOW)
    asked = find_condition(plan.status.conditions, "Deleted")
    assert asked is not None and (asked.status, asked.reason) == ("False", "DeletingNodePool")
    assert asked.last_transition_time == NOW
    going = _GOING.phase("Deleting").status(conditions=[one.wire() for one in plan.status.conditions])
    plan = plan_deletion(view(going, node_pool(), obstacle=_REFUSED), NOW + timedelta(seconds=60))
    refused = find_condition(plan.status.conditions, "Deleted")
    assert refused is not None and refused.reason == "DeletionRefused" and "no: says the API" in refused.message
    assert refused.last_transition_time == NOW
    assert [note.reason for note in plan.notes] == ["DeletionRefused"]
    again = going.status(conditions=[one.wire() for one in plan.status.conditions])
    third = plan_deletion(view(again, node_pool(), obstacle=_REFUSED), NOW + timedelta(seconds=120))
    assert (third.notes, third.status.stated()) == ((), plan.status.stated())  # told once, written once


@pytest.mark.parametrize(("ago", "seconds"), [(900, 60), (1100, 100), (900 + 7200, 600)])
def test_a_hanging_one_is_asked_again_ever_more_seldom(ago: float, seconds: float) -> None:
    assert plan_deletion(view(_GOING, node_pool().deleting(ago)), NOW).recheck_seconds == seconds


def test_looks_again_when_it_would_hang() -> None:
    assert plan_deletion(view(_GOING, node_pool().deleting(800)), NOW).recheck_seconds == 101
