"""How many slices a group makes: minSlices, maxSlices, spares; failed ones are replaced."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from iris_operator.plan.conditions import find_condition
from iris_operator.plan.groups.fleet import GroupPlan
from tests.builders import SliceBuilder, cluster, group, group_member, task
from tests.unit.iris_operator.plan.fleets import acted, booting, created, failed, fleet, idle, only, retiring


@dataclass(frozen=True)
class Case:
    bounds: tuple[int, int]
    slices: list[SliceBuilder] = field(default_factory=list)
    makes: list[str] = field(default_factory=list)
    buffer: int = 0
    ready: tuple[str, str] = ("False", "WaitingForSlices")


_READY = ("True", "MinSlicesReady")

CASES = {
    "none wanted": Case((0, 3), ready=_READY),
    "first": Case((1, 3), makes=["MinSlices"]),
    "all of them at once": Case((3, 3), makes=["MinSlices"] * 3),
    "booting ones count": Case((2, 3), [booting("a"), group_member("g", "b")]),
    "degraded ones count": Case((1, 3), [idle("a").status(phase="Degraded")]),
    "enough": Case((1, 3), [idle("a")], ready=_READY),
    "a failed one is replaced beside it": Case((1, 2), [failed("a", ago=5000)], ["MinSlices"]),
    "a failed one whose nodes are given back takes no place": Case((1, 1), [failed("a", ago=5000)], ["MinSlices"]),
    "a failed one that still bills does": Case(
        (1, 1), [failed("a", ago=5000, pool="team-a")], ready=("False", "AtMaxSlices")
    ),
    "leaving ones keep their place": Case((1, 1), [idle("a").deleting()], ready=("False", "AtMaxSlices")),
    "leaving ones are replaced when there is room": Case((1, 2), [idle("a").deleting()], ["MinSlices"]),
    "never above the maximum": Case((2, 2), [idle("a"), idle("b").deleting()], ready=("False", "AtMaxSlices")),
    "spares": Case((0, 5), buffer=2, makes=["Buffer"] * 2, ready=_READY),
    "spares beside what works, not beside the minimum alone": Case((1, 5), [idle("a")], ["Buffer"], 1, _READY),
    "spares that boot count": Case((0, 5), [booting("a"), idle("b")], [], 2, _READY),
    "spares up to the maximum": Case((0, 2), [idle("a")], ["Buffer"], 5, _READY),
    "minimum first": Case((1, 2), [], ["MinSlices", "Buffer"], 5),
}


def _plan(case: Case) -> GroupPlan:
    built = group(minSlices=case.bounds[0], maxSlices=case.bounds[1], bufferSlices=case.buffer)
    return only(fleet([built], case.slices))


@pytest.mark.parametrize("name", CASES)
def test_size(name: str) -> None:
    case = CASES[name]
    plan = _plan(case)
    assert (created(plan), acted(plan)) == (case.makes, [])
    ready = find_condition(plan.status.conditions, "Ready")
    assert ready is not None and (ready.status, ready.reason) == case.ready
    assert len({one.name for one in plan.actions if hasattr(one, "name")}) == len(case.makes)


def test_a_spare_beside_busy_ones() -> None:
    tasks = [task("t").requests(cpu="4").bound("a")]
    assert created(only(fleet([group(minSlices=0, maxSlices=5, bufferSlices=1)], [idle("a")], tasks))) == ["Buffer"]


def test_one_on_its_way_out_comes_back_before_another_is_made() -> None:
    plan = only(fleet([group(minSlices=1, maxSlices=5)], [retiring(idle("a"))]))
    assert (created(plan), acted(plan)) == ([], ["Uncordon a Wanted"])


def test_counts() -> None:
    owned = [idle("a"), booting("b"), group_member("g", "c"), failed("d"), idle("e").deleting()]
    status = only(fleet([group(minSlices=1, maxSlices=9)], owned)).status
    assert (status.slices, status.ready, status.booting, status.failed, status.idle) == (5, 1, 2, 1, 1)
    assert status.bounds == "1-9"


def test_a_deleted_group_makes_nothing_and_ends_nothing() -> None:
    assert only(fleet([group(bufferSlices=2).deleting()], [idle("a"), idle("b"), failed("c")])).actions == ()


def test_without_settings_nothing_is_made() -> None:
    plan = only(fleet([group(bufferSlices=1)], clusters=[]))
    ready = find_condition(plan.status.conditions, "Ready")
    assert ready is not None and (plan.actions, ready.reason) == ((), "ClusterNotFound")


def test_nor_under_settings_that_leave() -> None:
    assert only(fleet([group(bufferSlices=1)], clusters=[cluster().deleting()])).actions == ()


def test_words() -> None:
    plan = _plan(CASES["first"])
    assert plan.status.message == "0 up, 0 with Tasks; wants 1 slice (min 1): making 1"
    (decision,) = plan.status.decisions
    assert (decision.action, decision.reason) == ("ScaleUp", "MinSlices")
    assert decision.message == "making 1 slice: keeps 1 slice (minSlices); has 0 up, 0 booting; maxSlices 3"
    assert [(note.reason, note.message) for note in plan.notes] == [("ScaleUp", decision.message)]
    quiet = _plan(CASES["enough"])
    assert (quiet.notes, quiet.status.message) == ((), "1 up, 0 with Tasks; wants 1 slice (min 1): nothing to do")


def test_a_create_whose_answer_was_lost_is_asked_for_again() -> None:
    first, again = _plan(CASES["all of them at once"]), _plan(CASES["all of them at once"])
    assert first.actions == again.actions


def test_names_are_bounded_and_nobody_else_s() -> None:
    (made,) = only(fleet([group("g" * 63)]), "g" * 63).actions
    assert len(made.name) <= 50  # type: ignore[union-attr]
    plan = only(fleet([group()]))
    taken = plan.actions[0].name  # type: ignore[union-attr]
    other = only(fleet([group()], [group_member("other", taken)])).actions[0].name  # type: ignore[union-attr]
    assert other != taken


def test_nothing_is_written_when_nothing_changed() -> None:
    owned = [idle("a"), booting("b"), failed("c", ago=5000)]
    built = group(minSlices=2, maxSlices=3)
    first = only(fleet([built], owned)).status
    settled = built.status(**first.wire())
    plan = only(fleet([settled], owned))
    assert (plan.status.wire(), plan.actions, plan.notes) == (first.wire(), (), ())
