"""What holds of every preemption: by pass, and from the first pass until nothing is left to do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from iris_operator.api.cluster import Defaults
from iris_operator.api.quantity import amounts, shortage
from iris_operator.plan.groups.fleet import FleetPlan, FleetView, plan_fleet
from iris_operator.plan.placement.ledger import Ledger
from iris_operator.plan.placement.placement import PlacementView, plan_placement
from iris_operator.plan.tasks.requests import task_requests
from tests.builders import NAMESPACE, NOW, SliceBuilder, TaskBuilder, cluster, slice_, task

_MANY_PASSES = 60
_SETTINGS = (cluster(worker={"maxTasks": 4}).build(),)


@dataclass
class Play:
    """One namespace without groups. `on`: Task -> (slice, rank, attempt, whom it is stopped for, None: it goes on)."""

    slices: list[SliceBuilder]
    tasks: dict[str, TaskBuilder]
    on: dict[str, tuple[str, int, int, str | None]] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)  # passes in which others were stopped for a Task
    ledger: Ledger = field(default_factory=Ledger)

    def built(self) -> tuple[Any, ...]:
        """The Tasks as they are."""
        return tuple(self._build(name) for name in self.tasks)

    def _build(self, name: str) -> Any:
        if name not in self.on:
            return self.tasks[name].status(endedAttempt=self.attempts[name] or None).build()
        where, rank, attempt, whom = self.on[name]
        stop = {} if whom is None else {"stopReason": "Preempted", "stopFor": whom}
        ago = 1000 - sum(map(ord, name)) % 900
        return self.tasks[name].bound(where, rank, ago=ago, attempt=attempt, **stop).phase("Running").build()

    def step(self) -> FleetPlan:
        """One pass, carried out."""
        slices, tasks = tuple(one.build() for one in self.slices), self.built()
        placement = plan_placement(PlacementView(NAMESPACE, _SETTINGS, slices, tasks), NOW, self.ledger)
        plan = plan_fleet(FleetView(NAMESPACE, _SETTINGS, (), slices, tasks), placement, NOW, self.ledger)
        for one in placement.bindings:
            binding = one.binding
            self.on[one.task.metadata.name] = (binding.slice_name, binding.rank, binding.attempt, None)
            self.attempts[one.task.metadata.name] = binding.attempt
        self._check_capacity()
        for preempt in plan.preempts:
            name = preempt.task.metadata.name
            assert name not in self.on
            self.asked[name] += 1
            for stop in preempt.stops:
                victim = stop.task.metadata.name
                assert self.priority(victim) < self.priority(name), f"{victim} ends for {name}"
                where, rank, attempt, whom = self.on[victim]
                assert whom is None, f"{victim} ends twice, for {whom} and {name}"
                self.on[victim] = (where, rank, attempt, name)
        return plan

    def end(self, name: str) -> None:
        """A Task that was told to stop has ended."""
        del self.on[name]

    def leaving(self) -> list[str]:
        """Those on their way out."""
        return [name for name, (_, _, _, whom) in self.on.items() if whom is not None]

    def priority(self, name: str) -> int:
        """Its priority."""
        return int(self.tasks[name].build().spec.priority)

    def wants(self, name: str) -> dict[str, int]:
        """What it is counted with."""
        return task_requests(self.tasks[name].build(), Defaults())

    def _check_capacity(self) -> None:
        for owner in self.slices:
            for node in owner.build().status.nodes:
                used: Counter[str] = Counter()
                here = [
                    name
                    for name, (where, rank, _, _) in self.on.items()
                    if (where, rank) == (owner.build().metadata.name, node.rank)
                ]
                for name in here:
                    used.update(self.wants(name))
                assert not shortage(used, amounts(node.allocatable)), (
                    f"{here} are too much for {owner.build().metadata.name}"
                )


_NEEDS = st.fixed_dictionaries({"cpu": st.integers(1, 4).map(str)}, optional={"gpu": st.integers(1, 4)})


@st.composite
def plays(draw: st.DrawFn, *, alike: bool = False) -> Play:
    """Up to three slices of up to two nodes, filled with what is low; then what is high comes. `alike`: all high ones are."""
    nodes = st.fixed_dictionaries(
        {"cpu": st.integers(2, 8).map(str), "gpu": st.integers(0, 6), "memory": st.just("64Gi")}
    )
    shapes = draw(st.lists(st.lists(nodes, min_size=1, max_size=2), min_size=1, max_size=3))
    slices = [slice_(f"s{number}").ready(*each) for number, each in enumerate(shapes)]
    low = draw(st.lists(st.tuples(_NEEDS, st.integers(-1, 1), st.integers(0, 99)), min_size=1, max_size=10))
    tasks = {
        f"low{number}": task(f"low{number}", priority=priority).limits(memory="1Gi", **needs).made(ago + 100)
        for number, (needs, priority, ago) in enumerate(low)
    }
    play = Play(slices, tasks)
    while play.step().preempts:  # those of 1 push out those of -1
        for name in play.leaving():
            play.end(name)
    same = draw(_NEEDS)
    high = draw(
        st.lists(
            st.tuples(st.just(same) if alike else _NEEDS, st.integers(1, 3), st.integers(0, 99)), min_size=1, max_size=4
        )
    )
    for number, (needs, priority, ago) in enumerate(high):
        name = f"high{number}"
        play.tasks[name] = task(name, priority=5 if alike else priority).limits(memory="1Gi", **needs).made(ago)
    play.asked.clear()
    return play


def _run(play: Play, dice: Any) -> None:
    """Until nothing happens any more; those told to stop end one by one, in any order."""
    for _ in range(_MANY_PASSES):
        before = dict(play.on)
        play.step()
        leaving = play.leaving()
        if leaving and dice.random() < 0.7:
            play.end(dice.choice(leaving))
        elif not leaving and play.on == before:
            return
        note(str(play.on))
    raise AssertionError(f"{_MANY_PASSES} passes, and still {play.leaving()} are told to stop, by {play.asked}")


@given(plays(), st.randoms(use_true_random=False))
def test_it_comes_to_an_end_and_who_is_first_is_served(play: Play, dice: Any) -> None:
    _run(play, dice)
    top = max(map(play.priority, play.tasks))
    asked = [name for name in play.asked if play.priority(name) == top]  # others may be pushed out again
    placed = [name for name in play.on if name.startswith("high") and play.priority(name) == top]
    # An older one of the same priority may have taken the place of one that others ended for: then that one waits.
    assert len(placed) >= len(asked), f"others ended for {asked}, but only {placed} run"


@given(plays(alike=True), st.randoms(use_true_random=False))
def test_nobody_has_others_end_twice(play: Play, dice: Any) -> None:
    _run(play, dice)
    again = {name: number for name, number in play.asked.items() if name.startswith("high") and number > 1}
    assert not again, f"{again} asked again"


@given(plays())
def test_no_more_than_needed(play: Play) -> None:
    """Of the first that others end for, with nobody leaving yet: without any one of them it would not fit."""
    plan = play.step()
    if not plan.preempts:
        return
    first = plan.preempts[0]
    name, victims = first.task.metadata.name, [stop.task.metadata.name for stop in first.stops]
    assert victims
    (where,) = {play.on[victim][:2] for victim in victims}
    node = next(one.build().status.nodes[where[1]] for one in play.slices if one.build().metadata.name == where[0])
    staying = [other for other, row in play.on.items() if row[:2] == where and other not in victims]
    assert _fits(play, [*staying, name], node.allocatable)
    for spared in victims:
        assert not _fits(play, [*staying, spared, name], node.allocatable), f"{spared} need not end for {name}"


def _fits(play: Play, names: list[str], allocatable: dict[str, Any]) -> bool:
    used: Counter[str] = Counter()
    for name in names:
        used.update(play.wants(name))
    return len(names) <= 4 and not shortage(used, amounts(allocatable))
