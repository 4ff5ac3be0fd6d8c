"""Who ends for whom, where, and what each is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.plan.groups.fleet import FleetPlan, FleetView, plan_fleet
from iris_operator.plan.placement.ledger import Ledger
from iris_operator.plan.placement.placement import PlacementView, plan_placement
from tests.builders import (
    NAMESPACE,
    NOW,
    Builder,
    SliceBuilder,
    TaskBuilder,
    at,
    cluster,
    group,
    group_member,
    member,
    slice_,
    task,
)
from tests.unit.iris_operator.plan.fleets import booting, failed, fleet, idle, retiring

_NODE = {"cpu": "8", "memory": "16Gi"}
_S = slice_("s").ready(_NODE)


def _low(
    name: str, cpu: int, ago: float = 60, priority: int = 0, on: str = "s", rank: int = 0, **spec: Any
) -> TaskBuilder:
    """Runs since so many seconds."""
    made = task(name, priority=priority, **spec).limits(cpu=cpu, memory="1Gi").bound(on, rank, ago=ago).phase("Running")
    return made.status(startTime=at(ago))


def _high(cpu: int = 8, priority: int = 10, name: str = "high", **spec: Any) -> TaskBuilder:
    return task(name, priority=priority, **spec).limits(cpu=cpu, memory="1Gi").made(300)


def _squad(
    name: str, replicas: int, cpu: int, priority: int = 10, on: Sequence[tuple[str, int]] = ()
) -> list[TaskBuilder]:
    """A Task of several replicas, and its members; `on`: slice and rank of each, when they run."""
    wants = {"priority": priority, "resources": {"limits": {"cpu": str(cpu), "memory": "1Gi"}}}
    members = [member(name, rank, **wants) for rank in range(replicas)]
    if on:
        members = [
            one.bound(*where).phase("Running").status(startTime=at(60)) for one, where in zip(members, on, strict=True)
        ]
    return [task(name, replicas=replicas, **wants).made(300), *members]


def _ended(plan: FleetPlan) -> dict[str, list[str]]:
    """Who ends, by for whom."""
    return {one.task.metadata.name: [each.task.metadata.name for each in one.stops] for one in plan.preempts}


@dataclass(frozen=True)
class Case:
    tasks: list[TaskBuilder]
    ends: dict[str, list[str]]
    slices: list[SliceBuilder] = field(default_factory=lambda: [_S])
    groups: list[Builder[ScaleGroup]] = field(default_factory=list)


_FULL = group("g", minSlices=0, maxSlices=1)
_MEMBER = group_member("g", "s").ready(_NODE)
_PORT = [{"name": "p", "containerPort": 80}]
_TOLD = _low("a", 4).bound("s", stopReason="Preempted", stopFor="high")
CASES = {
    "who fills the node": Case([_low("a", 8), _high()], {"high": ["a"]}),
    "nobody of the same priority": Case([_low("a", 8, priority=10), _high()], {}),
    "nobody of higher priority": Case([_low("a", 8, priority=11), _low("z", 0, priority=-5), _high()], {}),
    "by negative priorities": Case([_low("a", 8, priority=-1), _high(priority=0)], {"high": ["a"]}),
    "nobody while there is room": Case([_low("a", 8, on="x"), _high()], {}, [_S, slice_("x").ready(_NODE)]),
    "the lowest priority first": Case([_low("a", 4, priority=2), _low("b", 4, priority=1), _high(4)], {"high": ["b"]}),
    "then the youngest": Case([_low("a", 4, ago=90), _low("b", 4, ago=30), _high(4)], {"high": ["b"]}),
    "a lower priority rather than less work": Case(
        [_low("a", 4, ago=10, priority=2), _low("b", 4, ago=9000, priority=1), _high(4)], {"high": ["b"]}
    ),
    "one that is enough rather than several": Case(
        [_low("a", 1, ago=50), _low("b", 1, ago=55), _low("c", 2, ago=60), _low("d", 4, ago=999), _high(2)], {"high": ["c"]}
    ),
    "as many as it takes": Case([_low("a", 3), _low("b", 3), _low("c", 2), _high(6)], {"high": ["a", "b"]}),
    "what is free need not be taken": Case([_low("a", 2), _low("b", 2), _high(6)], {"high": ["a"]}),
    "not those that turn out not to be needed": Case(
        [_low("a", 1, ago=10), _low("b", 7, ago=20), _high(7)], {"high": ["b"]}
    ),
    "not those that have nothing of what is short": Case(
        [_low("a", 0, ago=1), _low("b", 8, ago=50), _high()], {"high": ["b"]}
    ),
    "the node where it costs least": Case(
        [_low("a", 8, ago=100), _low("b", 8, ago=50, on="x"), _high()], {"high": ["b"]}, [_S, slice_("x").ready(_NODE)]
    ),
    "all on one node": Case(
        [_low("a", 4, ago=500), _low("b", 4, ago=500), _low("c", 4, ago=10, on="x"), _low("d", 4, priority=10, on="x"), _high()],
        {"high": ["a", "b"]}, [_S, slice_("x").ready(_NODE)],
    ),
    "on the slice that it names": Case(
        [_low("a", 8, ago=500), _low("b", 8, ago=1, on="x"), _high(placement={"sliceName": "s"})], {"high": ["a"]},
        [_S, slice_("x").ready(_NODE)],
    ),
    "nobody for what is too large for the node": Case([_low("a", 8), _high(9)], {}),
    "nobody when those below are not enough": Case([_low("a", 4), _low("b", 4, priority=10), _high(5)], {}),
    "who is first is served first": Case(
        [_low("a", 8), _high(priority=5, name="mid"), _high(priority=10)], {"high": ["a"]}
    ),
    "several at once": Case(
        [_low("a", 4, ago=10), _low("b", 4, ago=20), _high(4), _high(4, priority=9, name="mid")], {"high": ["a"], "mid": ["b"]}
    ),
    "what one leaves over is the next one's": Case(
        [_low("a", 8), _high(4), _high(4, priority=9, name="mid")], {"high": ["a"]}
    ),
    "nobody twice": Case([_low("a", 8).bound("s", stopReason="Preempted", stopFor="high"), _high()], {}),
    "only who is missing, when some were told": Case(
        [_TOLD, _low("b", 4), _high()], {"high": ["b"]}
    ),
    "nobody where somebody leaves anyway": Case([_low("a", 8).deleting(), _high()], {}),
    "another, when the room that is left is for who is first": Case(
        [_TOLD, _low("b", 4), _high(4), _high(4, priority=9, name="mid")],
        {"mid": ["b"]},
    ),
    "not who is leaving already": Case([_low("a", 8).deleting(), _low("b", 8, on="x"), _high(), _high(name="more")],
        {"more": ["b"]}, [_S, slice_("x").ready(_NODE)]),
    "not on a node that refuses": Case(
        [_low("a", 8), _high()], {}, [_S.status(nodes=[{**_S.body()["status"]["nodes"][0], "refuses": "its disk is full"}])]
    ),
    "not on a cordoned slice": Case([_low("a", 8), _high()], {}, [_S.spec(availability="Cordoned")]),
    "who has the port": Case(
        [_low("a", 1, ports=_PORT), _low("b", 1, ago=1), _high(1, ports=_PORT)],
        {"high": ["a"]},
    ),
    "who has the port and who has the room": Case(
        [_low("a", 1, ports=_PORT), _low("b", 7, ago=1), _high(4, ports=_PORT)],
        {"high": ["b", "a"]},
    ),
    "not who rests after a failure": Case([_low("a", 8), _high().status(retryAfter=at(-60))], {}),
    "a slice boots": Case([_low("a", 8), _high()], {}, [_MEMBER, booting("b")], [group("g", minSlices=0, maxSlices=2)]),
    "a slice can be made": Case([_low("a", 8), _high()], {}, [_MEMBER], [group("g", minSlices=0, maxSlices=2)]),
    "a slice made by hand boots": Case([_low("a", 8), _high()], {}, [_S, slice_("x").phase("Booting")]),
    "a slice on its way out is kept": Case(
        [_low("a", 8), _high()], {}, [_MEMBER, retiring(idle("x", node=_NODE))], [group("g", minSlices=0, maxSlices=2)]
    ),
    "the group is at its maximum": Case([_low("a", 8), _high()], {"high": ["a"]}, [_MEMBER], [_FULL]),
    "the group is at its maximum, for one it was to wait for": Case(
        [_low("a", 8), _high().made(1)], {}, [_MEMBER], [_FULL]
    ),
    "the group is blocked": Case(
        [_low("a", 8), _high()], {"high": ["a"]}, [_MEMBER, failed("f", "OverQuota")], [group("g", minSlices=0, maxSlices=4)]
    ),
    "a Task of several replicas whole": Case(
        [*_squad("crew", 2, 8, 0, [("s", 0), ("s", 1)]), _high()], {"high": ["crew-0", "crew-1"]},
        [slice_("s").ready(_NODE, _NODE)],
    ),
    "not the larger crew": Case(
        [*_squad("crew", 2, 8, 0, [("s", 0), ("s", 1)]), _low("a", 8, on="x"), _high()], {"high": ["a"]},
        [slice_("s").ready(_NODE, _NODE), slice_("x").ready(_NODE)],
    ),
    "for all replicas, on one slice": Case(
        [_low("a", 8), _low("b", 8, rank=1), _low("c", 1, ago=1, on="x"), *_squad("crew", 2, 8)], {"crew": ["a", "b"]},
        [slice_("s").ready(_NODE, _NODE), slice_("x").ready(_NODE)],
    ),
    "for those replicas that don't fit": Case(
        [_low("a", 8), *_squad("crew", 2, 8)], {"crew": ["a"]}, [slice_("s").ready(_NODE, _NODE)]
    ),
    "for replicas that share a node": Case([_low("a", 4), _low("b", 4), *_squad("crew", 2, 4)], {"crew": ["a", "b"]}),
    "nobody for a part of the replicas": Case(
        [_low("a", 8), _low("b", 8, rank=1, priority=10), *_squad("crew", 2, 8)], {}, [slice_("s").ready(_NODE, _NODE)]
    ),
    "one crew for another": Case(
        [*_squad("old", 2, 8, 0, [("s", 0), ("s", 1)]), *_squad("crew", 2, 8)], {"crew": ["old-0", "old-1"]},
        [slice_("s").ready(_NODE, _NODE)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_who_ends(case: Case) -> None:
    assert _ended(fleet(case.groups, case.slices, case.tasks)) == case.ends


_TIRED = _low("a", 4).status(retries={"preemption": 2})


def test_what_each_is_told() -> None:
    plan = fleet([], [_S], [_TIRED, _low("b", 4, retryPolicy={"preemption": 0}), _high()])
    (found,) = plan.preempts
    needs = "needs cpu 8, memory 1Gi"
    assert found.note.reason == "Preempting"
    assert found.note.message == (
        f"{needs}, priority 10; has 2 Tasks of lower priority end on slice s: a (priority 0), b (priority 0)"
    )
    for_whom = f"makes room on slice s for Task high (priority 10), which {needs}; this one has priority 0 and "
    assert [(one.reason, one.stop_for, one.note.reason, one.note.message) for one in found.stops if one.note] == [
        ("Preempted", "high", "Preempted", f"{for_whom}is placed again (retry 3 of 100)"),
        ("Preempted", "high", "Preempted", f"{for_whom}ends: retryPolicy.preemption 0"),
    ]
    (waits,) = plan.waiting
    assert (waits.reason, waits.message) == (
        "Preempting", f"{needs}; waits for 2 Tasks of lower priority to end on slice s: a, b"
    )  # fmt: skip


WAITS = {
    "for those it has end": (
        [_low("a", 4).bound(stopReason="Preempted", stopFor="high"), _low("b", 4).deleting()],
        "waits for 1 Task of lower priority to end on slice s: a",
    ),
    "for those that end anyway": ([_low("a", 4), _low("b", 8).deleting()], "waits for 1 Task to end on slice s: b"),
}


@pytest.mark.parametrize("name", WAITS)
def test_what_waits_for_the_end_of_others_says_so(name: str) -> None:
    tasks, words = WAITS[name]
    plan = fleet([_FULL], [_MEMBER], [*tasks, _high()])
    assert plan.preempts == ()
    (waits,) = plan.waiting
    assert (waits.reason, waits.message) == ("Preempting", f"needs cpu 8, memory 1Gi; {words}")


def test_many_are_stopped_in_several_passes() -> None:
    slices = [slice_(f"s{number:02}").ready(_NODE) for number in range(40)]
    low = [_low(f"a{number:02}", 8, on=f"s{number:02}") for number in range(40)]
    high = [_high(name=f"high{number:02}") for number in range(40)]
    plan = fleet([], slices, [*low, *high])
    assert sorted(_ended(plan)) == [f"high{number:02}" for number in range(32)]
    assert len({who for ended in _ended(plan).values() for who in ended}) == 32
    assert plan.look_again_seconds == 0.5
    told = [
        one.bound(f"s{number:02}", stopReason="Preempted", stopFor=f"high{number:02}")
        for number, one in enumerate(low[:32])
    ]
    plan = fleet([], slices, [*told, *low[32:], *high])
    assert sorted(_ended(plan)) == [f"high{number:02}" for number in range(32, 40)]
    assert plan.look_again_seconds is None


def _passes(before: Sequence[TaskBuilder], after: Sequence[TaskBuilder]) -> FleetPlan:
    """The fleet pass sees Tasks that changed since the placement."""
    ledger, settings = Ledger(), (cluster().build(),)
    slices = (_S.build(),)
    first = {one.metadata.name: one for one in (each.build() for each in before)}
    then = tuple(first[built.metadata.name] if first.get(built.metadata.name) == built else built
                 for built in (each.build() for each in after))  # fmt: skip
    placement = plan_placement(PlacementView(NAMESPACE, settings, slices, tuple(first.values())), NOW, ledger)
    return plan_fleet(FleetView(NAMESPACE, settings, (), slices, then), placement, NOW, ledger)


def test_what_happened_since_the_placement_counts() -> None:
    before = [_low("a", 8), _high()]
    assert _ended(_passes(before, before)) == {"high": ["a"]}
    assert _ended(_passes(before, [_low("a", 8).phase("Succeeded"), _high()])) == {}  # it has room by now
    assert _ended(_passes(before, [_low("a", 8), _high().deleting()])) == {}
    assert _ended(_passes(before, [_low("a", 8), _high(priority=0)])) == {}


def test_bindings_that_are_not_seen_yet_take_their_room() -> None:
    """The first of two takes what is free; the second must not be told that there is room."""
    before = [_low("a", 4), _high(4, priority=10), _high(4, priority=9, name="mid")]
    plan = _passes(before, before)
    assert _ended(plan) == {"mid": ["a"]}


def test_replicas_that_have_room_by_now_stop_nobody() -> None:
    crew = _squad("crew", 2, 4)
    before = [_low("a", 4, priority=10), _low("b", 4), *crew]
    assert _ended(_passes(before, before)) == {}
    before = [_low("a", 8), *crew]
    assert _ended(_passes(before, before)) == {"crew": ["a"]}
    assert _ended(_passes(before, [_low("a", 8).phase("Succeeded"), *crew])) == {}
