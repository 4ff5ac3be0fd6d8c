"""Failed is final: Tasks are moved, the nodes go back, the reason stays."""

from __future__ import annotations

from iris_operator.api.slice import SlicePhase
from iris_operator.plan.actions import StopTask
from iris_operator.plan.conditions import find_condition
from iris_operator.plan.slices.lifecycle import plan_live_slice
from iris_operator.plan.slices.obstacles import Obstacle
from tests.builders import NOW, node_pool, slice_, task
from tests.unit.iris_operator.plan.views import healthy, verbs, view

FAILED = slice_().phase("Failed", ago=5).status(message="why it failed", failure="Slow", nodePoolName="team-s")


def test_its_tasks_are_told_first_and_why() -> None:
    plan = plan_live_slice(healthy(FAILED, tasks=[task("a").bound()]), NOW)
    assert plan.actions == (StopTask(task("a").bound().build(), "SliceFailed"),)
    assert plan.recheck_seconds == 55.5  # 30 s of grace, 30 s of slack, 5 s are over


def test_its_tasks_are_waited_for_as_long_as_their_grace() -> None:
    told = task("a").bound(stopReason="SliceFailed")
    assert verbs(plan_live_slice(healthy(FAILED, tasks=[told]), NOW)) == []
    late = FAILED.status(phaseSince="2026-11-21T11:58:00Z")
    assert verbs(plan_live_slice(healthy(late, tasks=[told]), NOW)) == ["DeleteWorker"]


def test_then_its_workers_then_its_node_pool() -> None:
    plan = plan_live_slice(healthy(FAILED), NOW)
    assert verbs(plan) == ["DeleteWorker"]
    plan = plan_live_slice(healthy(FAILED, pods=[], leases=[]), NOW)
    assert verbs(plan) == ["DeleteNodePool"]
    assert (plan.status.phase, plan.status.message, plan.status.failure) == (SlicePhase.FAILED, "why it failed", "Slow")
    assert plan.status.node_pool_name == "team-s"


def test_asks_once() -> None:
    leaving = healthy(FAILED, pool=node_pool().deleting(), pods=[], leases=[])
    plan = plan_live_slice(leaving, NOW)
    assert verbs(plan) == []
    deleted = find_condition(plan.status.conditions, "Deleted")
    assert deleted is not None and (deleted.status, deleted.reason) == ("False", "DeletingNodePool")


def test_a_stranger_s_node_pool_is_left_alone() -> None:
    assert verbs(plan_live_slice(view(FAILED, node_pool().meta(annotations={})), NOW)) == []


def test_when_all_is_gone_it_bills_nothing_and_does_not_rise_again() -> None:
    plan = plan_live_slice(view(FAILED), NOW)
    assert verbs(plan) == [] and plan.status.phase is SlicePhase.FAILED
    assert (plan.status.node_pool_name, plan.status.nodes) == ("", [])
    assert (plan.status.message, plan.status.failure) == ("why it failed", "Slow")
    deleted = find_condition(plan.status.conditions, "Deleted")
    assert deleted is not None and (deleted.status, deleted.message) == ("True", "its NodePool is gone: nothing bills")


def test_a_refused_deletion_shows() -> None:
    refused = Obstacle("delete", "DeletionRefused", "the API refuses to delete NodePool team-s: no")
    plan = plan_live_slice(view(FAILED, node_pool(), obstacle=refused), NOW)
    deleted = find_condition(plan.status.conditions, "Deleted")
    assert deleted is not None and deleted.reason == "DeletionRefused" and "NodePool team-s: no" in deleted.message
    assert [note.reason for note in plan.notes] == ["DeletionRefused"]
    assert plan.status.node_pool_name == "team-s"
    again = FAILED.status(conditions=[one.wire() for one in plan.status.conditions])
    assert plan_live_slice(view(again, node_pool(), obstacle=refused), NOW).notes == ()
