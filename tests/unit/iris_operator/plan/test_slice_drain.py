"""Cordon, drain, uncordon, hold, the end of a lifetime."""

from __future__ import annotations

from iris_operator.plan.actions import DeleteSlice, StopTask
from iris_operator.plan.conditions import find_condition
from iris_operator.plan.slices.lifecycle import plan_live_slice
from iris_operator.plan.slices.plan import SlicePlan
from tests.builders import NOW, group_member, slice_, task, worker
from tests.unit.iris_operator.plan.views import healthy, verbs

_READY = slice_().phase("Ready", ago=3600)
_DRAINED = slice_(availability="Drained").phase("Ready")


def _drained(plan: SlicePlan) -> tuple[str, str]:
    found = find_condition(plan.status.conditions, "Drained")
    return (found.status, found.message) if found else ("", "")


def test_tasks_of_a_drained_slice_are_told_once() -> None:
    told, untold = task("a").bound(stopReason="SliceDrained"), task("b").bound()
    plan = plan_live_slice(healthy(_DRAINED, tasks=[told, untold]), NOW)
    assert plan.actions == (StopTask(untold.build(), "SliceDrained"),)
    assert _drained(plan) == ("False", "waits for 2 Tasks: a, b")
    assert plan.status.phase == "Ready"


def test_a_task_whose_worker_is_gone_can_t_be_told() -> None:
    plan = plan_live_slice(healthy(_DRAINED, tasks=[task("a").bound(workerUid="of-the-one-before")]), NOW)
    assert plan.actions == ()
    assert _drained(plan)[0] == "False"


def test_drained_when_none_is_left() -> None:
    plan = plan_live_slice(healthy(_DRAINED), NOW)
    assert _drained(plan) == ("True", "no Task is left on it")
    assert "drained: takes no Task" in plan.status.message


def test_uncordon_takes_it_back() -> None:
    plan = plan_live_slice(healthy(_READY.condition("Drained", "True"), tasks=[task("a").bound()]), NOW)
    assert (_drained(plan), plan.actions) == (("", ""), ())


def test_a_cordoned_slice_leaves_its_tasks_alone() -> None:
    plan = plan_live_slice(healthy(slice_(availability="Cordoned").phase("Ready"), tasks=[task("a").bound()]), NOW)
    assert (_drained(plan), plan.actions) == (("", ""), ())
    assert "cordoned: takes no new Task" in plan.status.message


def test_a_degraded_slice_is_drained_as_well() -> None:
    plan = plan_live_slice(healthy(_DRAINED.phase("Degraded"), leases=[], tasks=[task("a").bound()]), NOW)
    assert verbs(plan) == ["StopTask"]


class TestLifetime:
    """Of a slice without a group."""

    def test_not_over(self) -> None:
        plan = plan_live_slice(healthy(slice_(maxLifetimeSeconds=3610).phase("Ready", ago=3600)), NOW)
        assert (plan.actions, plan.recheck_seconds) == ((), 10)

    def test_over(self) -> None:
        owner = slice_(maxLifetimeSeconds=3600).phase("Ready", ago=3600)
        plan = plan_live_slice(healthy(owner), NOW)
        assert plan.actions == (DeleteSlice(owner.build(), "MaxLifetime"),)

    def test_with_tasks_too_its_deletion_drains_it(self) -> None:
        owner = slice_(maxLifetimeSeconds=60).phase("Ready", ago=3600)
        assert verbs(plan_live_slice(healthy(owner, tasks=[task("a").bound()]), NOW)) == ["DeleteSlice"]

    def test_held(self) -> None:
        owner = slice_(maxLifetimeSeconds=60, holdUntil="2026-11-21T12:00:30Z").phase("Ready", ago=3600)
        plan = plan_live_slice(healthy(owner), NOW)
        assert (plan.actions, plan.recheck_seconds) == ((), 30)
        past = slice_(maxLifetimeSeconds=60, holdUntil="2026-11-21T11:59:59Z").phase("Ready", ago=3600)
        assert verbs(plan_live_slice(healthy(past), NOW)) == ["DeleteSlice"]

    def test_protected_while_tasks_run(self) -> None:
        owner = slice_(maxLifetimeSeconds=60, deletionProtection=True).phase("Ready", ago=3600)
        plan = plan_live_slice(healthy(owner, tasks=[task("a").bound()]), NOW)
        assert plan.actions == ()
        assert "waits for 1 Task (deletionProtection)" in plan.status.message
        assert verbs(plan_live_slice(healthy(owner), NOW)) == ["DeleteSlice"]

    def test_of_a_group_the_group_decides(self) -> None:
        owner = group_member("g", "s").spec(maxLifetimeSeconds=60).phase("Ready", ago=3600)
        assert plan_live_slice(healthy(owner), NOW).actions == ()

    def test_one_that_was_never_ready_has_none(self) -> None:
        owner = slice_(maxLifetimeSeconds=60).made(3600)
        assert plan_live_slice(healthy(owner, pods=[worker()], leases=[]), NOW).actions == ()
