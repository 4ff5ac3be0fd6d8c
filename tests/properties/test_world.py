"""Random schedules of demand, faults, restarts and clock jumps, through the real planners. See scenario.py."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, note

from iris_operator.api.core import Node
from iris_operator.api.nodepool import NodePool
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice, SlicePhase
from iris_operator.api.task import Task
from tests.properties.driver import BOOT_SECONDS, STRANGERS, Play
from tests.properties.invariants import Watch
from tests.properties.scenario import (
    HORIZON,
    NODE_CPUS,
    RUSH_DELAY_SECONDS,
    Scenario,
    good_vendor,
    partitions,
    rush,
    scenarios,
)

_LOOK_SECONDS = 100.0
# From healing on: backoffs run out, what failed is replaced, everything that fits has its turn.
_CALM_SECONDS = 4 * 3600.0
_LEAVE_SECONDS = 2 * 3600.0
_QUIET_SECONDS = 1800.0


def _through(play: Play, watch: Watch, until: float) -> None:
    while play.world.agenda.seconds < until:
        play.until(min(until, play.world.agenda.seconds + _LOOK_SECONDS))
        watch.check()


def _assert_whole(watch: Watch) -> None:
    assert not watch.broken, "\n".join(watch.broken)


@given(scenarios())
def test_whatever_happens(scenario: Scenario) -> None:
    play = Play(scenario)
    watch = Watch(play.world)
    play.begin()
    _through(play, watch, HORIZON)
    play.heal()
    _through(play, watch, HORIZON + _CALM_SECONDS)
    _assert_whole(watch)
    _assert_no_task_lost(play)
    _assert_min_is_kept(play)
    _assert_settled(play, "with all demand met")

    play.to_zero()
    _through(play, watch, play.world.agenda.seconds + _LEAVE_SECONDS)
    _assert_whole(watch)
    _assert_nothing_left(play)
    _assert_settled(play, "with nothing there")


def _assert_no_task_lost(play: Play) -> None:
    """Each ended, or says why it waits; and what fits somewhere has ended."""
    for task in play.world.store.all(Task).values():
        if task.ended:
            continue
        assert task.status.reason and task.status.message, f"{task.key} waits and does not say why: {task.status}"
        note(f"{task.key}: {task.status.reason}: {task.status.message}")
        assert not _fits_somewhere(play, task), (
            f"{task.key} fits and has waited since {task.metadata.creation_timestamp}: "
            f"{task.status.reason}: {task.status.message}; {_groups_text(play)}"
        )


def _fits_somewhere(play: Play, task: Task) -> bool:
    cpu = int(task.spec.resources.requests["cpu"])
    where = task.spec.placement.scale_group_name
    return any(
        group.spec.max_slices > 0
        and where in ("", group.metadata.name)
        and cpu < NODE_CPUS[group.spec.template.spec.instance_type]
        for group in play.world.store.all(ScaleGroup).values()
    )


def _groups_text(play: Play) -> str:
    return "; ".join(
        f"{one.metadata.name}: {one.status.message}, backoff {one.status.backoff}"
        for one in play.world.store.all(ScaleGroup).values()
    )


def _assert_min_is_kept(play: Play) -> None:
    for group in play.world.store.all(ScaleGroup).values():
        ready = sum(
            one.status.phase is SlicePhase.READY and one.spec.scale_group_name == group.metadata.name
            for one in play.world.store.all(Slice).values()
        )
        assert ready >= group.spec.min_slices, f"{ready} Ready of {group.spec.min_slices}: {_groups_text(play)}"


def _assert_nothing_left(play: Play) -> None:
    pools = [one for one in play.world.store.all(NodePool) if one.strip("/") not in STRANGERS]
    slices = {one.key: one.status.message for one in play.world.store.all(Slice).values()}
    assert not pools, f"{pools} bill on; slices: {slices}; {_groups_text(play)}"
    assert not play.world.store.all(Node), "nodes stand without a NodePool"
    assert all(play.world.store.get(NodePool, f"/{name}") is not None for name in STRANGERS)


def _assert_settled(play: Play, when: str) -> None:
    before, writes = play.world.operator_writes, play.world.store.writes.copy()
    play.until(play.world.agenda.seconds + _QUIET_SECONDS)
    assert play.world.operator_writes == before, f"{when} it goes on writing: {play.world.store.writes - writes}"


@given(scenarios(kinds=("kill operator", "user deletes slice", "pod deleted"), crashes=3))
def test_min_is_never_missed_for_longer_than_a_boot(scenario: Scenario) -> None:
    """The vendor gives all that is asked for; operators are killed, and people delete what they please."""
    scenario = replace(scenario, behaviour=good_vendor())
    play = Play(scenario)
    watch = Watch(play.world)
    play.begin()
    short: dict[str, float] = {}
    last = 0.0
    events = sorted(fault.at for fault in scenario.faults)
    while play.world.agenda.seconds < HORIZON + 2 * BOOT_SECONDS:
        play.until(play.world.agenda.seconds + _LOOK_SECONDS)
        now = play.world.agenda.seconds
        last = max([0.0, *(at for at in events if at <= now)])
        for group in play.world.store.all(ScaleGroup).values():
            name = group.metadata.name
            if _ready(play, name) >= group.spec.min_slices:
                short.pop(name, None)
                continue
            since = max(short.setdefault(name, now), last)
            assert now - since <= BOOT_SECONDS, f"{name} is below min for {now - since:.0f}s: {_groups_text(play)}"
    _assert_whole(watch)


@given(scenarios(kinds=("finalizers forced off", "kill operator", "deletes refused", "clock back"), crashes=2))
def test_no_node_pool_outlives_its_slice_by_more_than_the_grace(scenario: Scenario) -> None:
    scenario = replace(scenario, behaviour=good_vendor())
    play = Play(scenario)
    watch = Watch(play.world)
    play.begin()
    _through(play, watch, HORIZON)
    play.heal()
    _through(play, watch, 2 * HORIZON)
    _assert_whole(watch)


@given(rush())
def test_no_slice_with_work_is_scaled_down(scenario: Scenario) -> None:
    play = Play(scenario, scale_down_seconds=RUSH_DELAY_SECONDS)
    watch = Watch(play.world)
    play.begin()
    play.until(HORIZON)
    _assert_whole(watch)
    late = [task.key for task in play.world.store.all(Task).values() if not task.ended]
    assert not late, f"{late} had not ended: {_groups_text(play)}"


@given(partitions())
def test_no_task_runs_twice_at_once(scenario: Scenario) -> None:
    play = Play(scenario)
    watch = Watch(play.world)
    play.begin()
    play.until(HORIZON)
    play.heal()
    play.until(4 * HORIZON)
    _assert_whole(watch)
    _assert_no_task_lost(play)


def _ready(play: Play, name: str) -> int:
    return sum(
        one.status.phase is SlicePhase.READY and one.spec.scale_group_name == name
        for one in play.world.store.all(Slice).values()
    )
