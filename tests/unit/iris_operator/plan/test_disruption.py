"""Which slices go, how many at once, and that they go in two steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.builders import SliceBuilder, TaskBuilder, at, group, task
from tests.unit.iris_operator.plan.fleets import acted, booting, created, failed, fleet, idle, old, only, retiring


@dataclass(frozen=True)
class Case:
    slices: list[SliceBuilder]
    acts: list[str]
    spec: dict[str, Any] = field(default_factory=dict)
    tasks: list[TaskBuilder] = field(default_factory=list)
    decides: list[str] = field(default_factory=list)


def _on(name: str) -> list[TaskBuilder]:
    return [task("work").requests(cpu="1").bound(name)]


def _lost(name: str, ago: float = 1000, **status: Any) -> SliceBuilder:
    node = {"rank": 0, "name": "n", "ready": False, "lostSince": at(ago)}
    return idle(name).status(phase="Degraded", nodes=[node], readySince=at(90_000), idleSince=None, **status)


_HELD = {"holdUntil": at(-60)}
_ALL = {"disruption": {"maxUnavailable": "100%"}}
_TWO = [idle("a", 500), idle("b", 900)]

CASES = {
    # for want of work
    "the longest idle": Case(_TWO, ["Cordon b ScaleDown"], {"minSlices": 1}, decides=["ScaleDown Idle"]),
    "not before its delay": Case([idle("a", 299)], []),
    "at its delay": Case([idle("a", 300)], ["Cordon a ScaleDown"], decides=["ScaleDown Idle"]),
    "not below the minimum": Case(_TWO, [], {"minSlices": 2}),
    "not below the spares": Case(_TWO, [], {"bufferSlices": 2}),
    "never one with Tasks": Case([idle("a", 500)], [], tasks=_on("a")),
    "nor one that is given a Task now": Case([idle("a", 500)], [], tasks=[task("new").requests(cpu="1")]),
    "busy ones count for the minimum": Case(
        _TWO, ["Cordon a ScaleDown"], {"minSlices": 1}, _on("b"), ["ScaleDown Idle"]
    ),
    "booting ones don't": Case([idle("a", 500), booting("b")], [], {"minSlices": 1}),
    "never a held one": Case([idle("a", 500).spec(**_HELD)], []),
    "a hold that is over": Case(
        [idle("a", 500).spec(holdUntil=at(1))], ["Cordon a ScaleDown"], decides=["ScaleDown Idle"]
    ),
    "a share at once": Case([idle(f"s{n}", 500 + n) for n in range(5)], ["Cordon s4 ScaleDown"], decides=["ScaleDown Idle"]),
    "a larger share": Case(
        [idle(f"s{n}", 500 + n) for n in range(5)], ["Cordon s4 ScaleDown", "Cordon s3 ScaleDown"],
        {"disruption": {"maxUnavailable": "40%"}}, decides=["ScaleDown Idle"],
    ),
    "those on their way out count": Case([idle("a", 500), retiring(idle("b"), ago=3)], []),
    # the second step
    "after ten seconds": Case([retiring(idle("a"), ago=10)], ["Delete a ScaleDown"]),
    "not before": Case([retiring(idle("a"), ago=9)], []),
    "given work meanwhile": Case([retiring(idle("a"))], ["Uncordon a GivenWork"], tasks=_on("a"), decides=["ScaleUp GivenWork"]),
    "held meanwhile": Case([retiring(idle("a")).spec(**_HELD)], ["Uncordon a Held"], decides=["ScaleUp Held"]),
    "uncordoned by a person": Case(
        [retiring(idle("a", 9)).spec(availability="Schedulable")], ["Uncordon a Uncordoned"], decides=["ScaleUp Uncordoned"]
    ),
    "the minimum was raised meanwhile": Case(
        [retiring(idle("a"))], ["Uncordon a Wanted"], {"minSlices": 1}, decides=["ScaleUp Wanted"]
    ),
    "a time that is none": Case([retiring(idle("a"), ago=None)], ["Cordon a ScaleDown"]),
    "a clock that was set back": Case([retiring(idle("a"), ago=-500)], ["Cordon a ScaleDown"]),
    # rollouts
    "an old template, one at once": Case(
        [old(idle("a", 9)), old(idle("b", 9))], ["Cordon a Roll"], {"minSlices": 2}, decides=["Roll TemplateChanged"]
    ),
    "idle ones first": Case(
        [old(idle("a", 9)), old(idle("b", 9))], ["Cordon b Roll"], {"minSlices": 2}, _on("a"), ["Roll TemplateChanged"]
    ),
    "those with Tasks too, at last": Case([old(idle("a"))], ["Cordon a Roll"], tasks=_on("a"), decides=["Roll TemplateChanged"]),
    "the replacement must be Ready first": Case([old(idle("a", 9)), booting("b")], [], {"minSlices": 2, "maxSlices": 2}),
    "none while one is leaving": Case(
        [old(idle("a", 9)), retiring(old(idle("b", 9)), "Roll", 2)], [], {"minSlices": 2, "maxSlices": 2}
    ),
    "all at once if so wished": Case(
        [old(idle("a", 9)), old(idle("b", 9))], ["Cordon a Roll", "Cordon b Roll"], {"minSlices": 2, **_ALL},
        decides=["Roll TemplateChanged"],
    ),
    "never if so wished": Case([old(idle("a", 9))], [], {"minSlices": 1, "disruption": {"maxUnavailable": 0}}),
    "a held one is not rolled": Case([old(idle("a", 9)).spec(**_HELD)], [], {"minSlices": 1}),
    "nor a protected one with Tasks": Case([old(idle("a")).spec(deletionProtection=True)], [], tasks=_on("a")),
    "in flight they go at once": Case(
        [old(booting("a")), old(booting("b"))], ["Delete a Roll", "Delete b Roll"], {"maxSlices": 2},
        decides=["Roll TemplateChanged"],
    ),
    "the template came back": Case(
        [retiring(idle("a", 9), "Roll")], ["Uncordon a TemplateRestored"], {"minSlices": 1}, decides=["ScaleUp TemplateRestored"]
    ),
    "rolled with its Tasks, which move": Case([retiring(old(idle("a")), "Roll")], ["Delete a Roll"], tasks=_on("a")),
    "no rollout while nothing can be launched": Case(
        [old(idle("a", 9)), failed("f")], [], {"minSlices": 1}, decides=["Block NoCapacity"]
    ),
    # lifetimes
    "past its lifetime": Case(
        [idle("a", 9).spec(maxLifetimeSeconds=60).status(readySince=at(60))], ["Cordon a Expire"], {"minSlices": 1},
        decides=["Expire MaxLifetime"],
    ),
    "not yet": Case([idle("a", 9).spec(maxLifetimeSeconds=61).status(readySince=at(60))], [], {"minSlices": 1}),
    "extended meanwhile": Case(
        [retiring(idle("a", 9), "Expire").spec(maxLifetimeSeconds=9999)], ["Uncordon a LifetimeExtended"], {"minSlices": 1},
        decides=["ScaleUp LifetimeExtended"],
    ),
    # repairs
    "a node lost for longer than its delay": Case([_lost("a")], ["Cordon a Replace"], decides=["Replace NodeLost"]),
    "not for so long": Case([_lost("a", 899)], []),
    "policy Wait": Case([_lost("a").spec(repair={"policy": "Wait"})], []),
    "a share of them at once": Case(
        [_lost("a", 1000), _lost("b", 2000), _lost("c", 1500)], ["Cordon b Replace"], {"minSlices": 3, "maxSlices": 3},
        decides=["Replace NodeLost"],
    ),
    "the next when its replacement is Ready": Case(
        [_lost("a"), idle("new", 9)], ["Cordon a Replace"], {"minSlices": 2, "maxSlices": 2}, decides=["Replace NodeLost"]
    ),
    "not while one boots": Case([_lost("a"), booting("new")], [], {"minSlices": 2, "maxSlices": 2}),
    "the node came back": Case(
        [retiring(idle("a", 9), "Replace")], ["Uncordon a NodeCameBack"], {"minSlices": 1}, decides=["ScaleUp NodeCameBack"]
    ),
    # on their way to Ready
    "nobody wants it any more, but it may be wanted again": Case([booting("a", 2399)], []),
    "for too long": Case([booting("a", 2400)], ["Delete a ScaleDown"], decides=["ScaleDown NotNeeded"]),
    "the furthest from Ready first": Case(
        [booting("a", 2500), booting("b", 2600)], ["Delete a ScaleDown"], {"minSlices": 1}, decides=["ScaleDown NotNeeded"]
    ),
    "wanted ones stay": Case([booting("a", 9000)], [], tasks=[task("t").requests(cpu="1")]),
    "not launched yet costs nothing, and goes soon": Case(
        [booting("a", 60).status(launchedAt=None)], ["Delete a ScaleDown"], decides=["ScaleDown NotNeeded"]
    ),
    # failed ones
    "so many failed ones are kept to be read": Case(
        [failed(f"f{n}", ago=5000 + n) for n in range(5)], ["Delete f3 FailedHistory", "Delete f4 FailedHistory"]
    ),
    "none if so wished": Case([failed("f", ago=5000)], ["Delete f FailedHistory"], {"failedSlicesHistoryLimit": 0}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_disruption(name: str) -> None:
    case = CASES[name]
    spec = {"minSlices": 0, "maxSlices": 9, **case.spec}
    plan = only(fleet([group(**spec)], case.slices, case.tasks))
    assert acted(plan) == case.acts
    assert [f"{one.action} {one.reason}" for one in plan.status.decisions if one.reason not in _GROWTH] == case.decides


_GROWTH = ("MinSlices", "Demand", "Buffer")


def test_decisions_name_the_numbers_and_the_last_ten_are_kept() -> None:
    built = group(minSlices=1, maxSlices=9)
    before = [{"time": at(9), "action": "Roll", "reason": str(n), "message": ""} for n in range(10)]
    plan = only(fleet([built.status(decisions=before)], _TWO))
    assert len(plan.status.decisions) == 10
    first = plan.status.decisions[0]
    assert first.message == "slice b idle for 15 min (scaleDownDelaySeconds 300); 2 idle, 1 kept"
    assert [(one.reason, one.message) for one in plan.notes] == [("ScaleDown", first.message)]


@pytest.mark.parametrize(
    ("slices", "seconds"),
    [
        ([idle("a", 100)], 200),
        ([retiring(idle("a"), ago=3)], 7),
        ([booting("a", 400)], 2000),
        ([idle("a", 500).spec(holdUntil=at(-77))], 77),
        ([_lost("a", 800)], 100),
        ([idle("a", 9).spec(maxLifetimeSeconds=100).status(readySince=at(60))], 40),
        ([idle("a", 500)], 10),
        ([failed("a", ago=20)], 51),
    ],
)
def test_looks_again(slices: list[SliceBuilder], seconds: float) -> None:
    assert fleet([group(minSlices=0)], slices).look_again_seconds == pytest.approx(
        seconds, abs=12 if seconds == 51 else 0.1
    )


def test_losses_are_counted_when_they_are_given_up() -> None:
    gone = retiring(_lost("a"), "Replace")
    assert only(fleet([group(minSlices=0)], [_lost("a")])).status.losses == 0
    plan = only(fleet([group(minSlices=0).status(losses=2)], [gone]))
    assert (acted(plan), plan.status.losses, plan.status.spot_losses) == (["Delete a Replace"], 3, 0)
    spot = group(minSlices=0, template={"spec": {"instanceType": "cd-gp-i64-erapids", "computeClass": "spot"}})
    status = only(fleet([spot], [gone])).status
    assert (status.losses, status.spot_losses) == (0, 1)


def test_a_rolled_slice_is_replaced_as_it_goes() -> None:
    plan = only(fleet([group(minSlices=1, maxSlices=3)], [retiring(old(idle("a")), "Roll", 2)]))
    assert (created(plan), acted(plan)) == (["MinSlices"], [])
