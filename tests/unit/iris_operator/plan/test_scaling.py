"""A ScaleGroup keeps minSlices, replaces failed ones, and never exceeds maxSlices."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from iris_operator.plan.conditions import find_condition
from iris_operator.plan.scaling import GroupPlan, plan_group
from tests.builders import NOW, SliceBuilder, group, group_member


def _own(*phases: str) -> list[SliceBuilder]:
    made = []
    for number, phase in enumerate(phases):
        member = group_member("g", f"m{number}")
        made.append(member.deleting() if phase == "leaving" else member.phase(phase) if phase else member)
    return made


@dataclass(frozen=True)
class Case:
    bounds: tuple[int, int]
    phases: list[str]
    creates: int = 0
    deletes: tuple[str, ...] = ()
    ready: str = "False"
    reason: str = "WaitingForSlices"


CASES = {
    "none wanted": Case((0, 3), [], ready="True", reason="MinSlicesReady"),
    "first": Case((1, 3), [], 1),
    "all of them at once": Case((3, 3), [], 3),
    "booting ones count": Case((2, 3), ["Booting", ""], 0),
    "degraded ones count": Case((1, 3), ["Degraded"], 0),
    "enough": Case((1, 3), ["Ready"], ready="True", reason="MinSlicesReady"),
    "more than the minimum stay": Case((1, 3), ["Ready", "Ready"], ready="True", reason="MinSlicesReady"),
    "a failed one is replaced, room for both": Case((1, 2), ["Failed"], 1),
    "a failed one makes room": Case((1, 1), ["Failed"], 0, ("m0",), reason="AtMaxSlices"),
    "no more failed ones than needed make room": Case(
        (2, 3), ["Failed", "Failed", "Failed"], 0, ("m0", "m1"), reason="AtMaxSlices"
    ),
    "some room, and some made": Case((2, 3), ["Failed", "Failed"], 1, ("m0",)),
    "leaving ones keep their place": Case((1, 1), ["leaving"], 0, reason="AtMaxSlices"),
    "leaving ones are replaced when there is room": Case((1, 2), ["leaving"], 1),
    "a failed one beside enough good ones stays readable": Case(
        (1, 3), ["Ready", "Failed"], ready="True", reason="MinSlicesReady"
    ),
}  # fmt: skip


def _plan(case: Case) -> GroupPlan:
    tokens = (f"new{number}" for number in itertools.count())
    built = group(minSlices=case.bounds[0], maxSlices=case.bounds[1]).build()
    return plan_group(built, [one.build() for one in _own(*case.phases)], lambda: next(tokens), NOW)


@pytest.mark.parametrize("name", CASES)
def test_group(name: str) -> None:
    case = CASES[name]
    plan = _plan(case)
    assert [one.name for one in plan.create] == [f"g-new{number}" for number in range(case.creates)]
    assert tuple(one.metadata.name for one in plan.delete) == case.deletes
    ready = find_condition(plan.status.conditions, "Ready")
    assert ready is not None and (ready.status, ready.reason) == (case.ready, case.reason)
    assert len(case.phases) + len(plan.create) <= case.bounds[1]


def test_status_counts() -> None:
    status = _plan(Case((1, 9), ["Ready", "Booting", "", "Failed", "leaving"])).status
    assert (status.slices, status.ready, status.booting, status.failed, status.bounds) == (5, 1, 2, 1, "1-9")


def test_a_deleted_group_makes_nothing() -> None:
    assert plan_group(group().deleting().build(), [], lambda: "x", NOW).create == ()


def test_words() -> None:
    assert _plan(CASES["first"]).status.message == "keeps 1 slice (minSlices), has 0: making 1"
    assert (
        "and 1 failed (m0): can't make 1 more, at maxSlices 1" in _plan(CASES["a failed one makes room"]).status.message
    )
    assert _plan(CASES["enough"]).notes == ()


def test_names_are_bounded() -> None:
    plan = plan_group(group("g" * 63).build(), [], lambda: "abcde", NOW)
    assert len(plan.create[0].name) <= 50
