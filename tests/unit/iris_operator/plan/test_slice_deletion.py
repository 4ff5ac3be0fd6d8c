"""Giving a slice back: Tasks, worker Pods, NodePool, finalizer, in that order, and never stuck."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from iris_operator.api.slice import SlicePhase
from iris_operator.plan.actions import DeleteWorker, StopTask
from iris_operator.plan.slice_deletion import plan_deletion
from iris_operator.plan.snapshot import SliceView
from tests.builders import NOW, node, node_pool, slice_, task, worker
from tests.unit.iris_operator.plan.views import healthy, ready_reason, verbs, view

_GOING = slice_().phase("Ready").deleting(1)
_TASK = task("a").bound()
_TOLD = task("a").bound(stopReason="SliceDeleted")


def _going(ago: float = 1, **changes: object) -> SliceView:
    return healthy(slice_().phase("Ready").deleting(ago), **changes)


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


def test_a_worker_with_a_node_gets_its_grace() -> None:
    (action,) = plan_deletion(_going(), NOW).actions
    assert isinstance(action, DeleteWorker) and not action.force


def test_looks_again_when_a_task_s_time_is_over() -> None:
    plan = plan_deletion(_going(10, tasks=[_TOLD]), NOW)
    assert plan.recheck_seconds == pytest.approx(50.5)


def test_one_event() -> None:
    assert [note.reason for note in plan_deletion(view(_GOING), NOW).notes] == ["Deleting"]
    assert plan_deletion(view(slice_().phase("Deleting").deleting(1)), NOW).notes == ()
