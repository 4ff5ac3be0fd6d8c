"""A ledger kept from pass to pass says what a new one says."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from iris_operator.plan.groups.fleet import FleetPlan, FleetView, plan_fleet
from iris_operator.plan.placement.ledger import Ledger
from iris_operator.plan.placement.placement import PlacementPlan, PlacementView, plan_placement
from tests.builders import NAMESPACE, NOW, at, cluster, group, slice_, task
from tests.unit.iris_operator.plan.fleets import booting, failed, idle, old, retiring

_SETTINGS = [
    cluster(), cluster(autoscaler={"scaleUpDelaySeconds": 0}), cluster().deleting(),
    cluster(defaults={"taskRequests": {"cpu": "2"}}), cluster(policy={"allowPrivileged": True}),
    cluster(worker={"runtime": "docker", "volumeClaims": [{"claimName": "c"}]}),
]  # fmt: skip
_GROUPS = [
    group(minSlices=0, maxSlices=3), group(minSlices=2, maxSlices=3), group(minSlices=0, maxSlices=3, bufferSlices=1),
    group(minSlices=1, template={"spec": {"instanceType": "other"}}).meta(generation=2),
]  # fmt: skip
_SLICES: list[Any] = [
    None, idle("x"), idle("x").deleting(), booting("x"), failed("x"), old(idle("x")), retiring(idle("x")),
    idle("x").spec(availability="Cordoned"), slice_("x").ready({"cpu": "8", "memory": "16Gi"}),
    idle("x").status(phase="Degraded", nodes=[{"rank": 0, "ready": False, "lostSince": at(9999)}]),
]  # fmt: skip
_TASKS: list[Any] = [
    None, task("x"), task("x").limits(cpu=3), task("x").limits(cpu=3).bound("s0"), task("x").bound("s1").phase("Running"),
    task("x").bound("s0").phase("Succeeded"), task("x").spec(placement={"scaleGroupName": "g"}), task("x").limits(cpu=99),
    task("x").spec(placement={"sliceName": "s1"}), task("x").bound("s0").status(endedAttempt=1),
    task("x").spec(clusterName="none"), task("x").made(5), task("x").spec(securityContext={"privileged": True}),
    task("x").spec(runtime="docker"), task("x").status(phase="Pending", retryAfter=at(-9), endedAttempt=1),
    task("x").spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
]  # fmt: skip


def _named(choice: Any, name: str) -> Any:
    """The same under another name, as a new object."""
    renamed = choice.meta(name=name, uid=f"uid-{name}")
    if "nodes" not in choice.body().get("status", {}):
        return renamed
    nodes = [{**node, "workerUid": f"uid-{name}-worker-{node['rank']}"} for node in choice.body()["status"]["nodes"]]
    return renamed.status(nodes=nodes)


# What there is at one moment: settings, group, three slices, four Tasks; an index 0 is an object that isn't there.
_MOMENT = st.tuples(
    st.integers(0, len(_SETTINGS) - 1),
    st.integers(0, len(_GROUPS) - 1),
    st.lists(st.integers(0, len(_SLICES) - 1), min_size=3, max_size=3),
    st.lists(st.integers(0, len(_TASKS) - 1), min_size=4, max_size=4),
)


def _pick(known: dict[Any, Any], kind: str, choices: list[Any], index: int, name: str) -> Any:
    """One object per choice and name: an object that did not change stays the same one, as in the cache."""
    if choices[index] is None:
        return None
    key = (kind, index, name)
    if key not in known:
        known[key] = _named(choices[index], name).build()
    return known[key]


def _plans(view: PlacementView, groups: tuple[Any, ...], ledger: Ledger | None) -> tuple[PlacementPlan, FleetPlan]:
    placement = plan_placement(view, NOW, ledger)
    whole = FleetView(view.namespace, view.clusters, groups, view.slices, view.tasks)
    return placement, plan_fleet(whole, placement, NOW, ledger)


def _told(placement: PlacementPlan, fleet: FleetPlan) -> object:
    """Without shapes, which are each ledger's own."""
    return (
        [(one.task.metadata.name, one.binding) for one in placement.bindings],
        [(one.task.metadata.name, one.reason, one.message) for one in placement.unplaced],
        [(one.task.metadata.name, one.message) for one in placement.denied],
        placement.wake,
        fleet.groups,
        sorted((one.task.metadata.name, one.reason, one.message) for one in fleet.waiting),
        fleet.look_again_seconds,
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(_MOMENT, min_size=2, max_size=5))
def test_kept_or_new(moments: list[tuple[int, int, list[int], list[int]]]) -> None:
    kept, known = Ledger(), dict[Any, Any]()
    for setting, which, slices, tasks in moments:
        made = [_pick(known, "slice", _SLICES, index, f"s{n}") for n, index in enumerate(slices)]
        work = [_pick(known, "task", _TASKS, index, f"t{n}") for n, index in enumerate(tasks)]
        settings_ = _pick(known, "cluster", _SETTINGS, setting, "default")
        groups = (_pick(known, "group", _GROUPS, which, "g"),)
        view = PlacementView(
            NAMESPACE, (settings_,), tuple(one for one in made if one), tuple(one for one in work if one)
        )
        assert _told(*_plans(view, groups, kept)) == _told(*_plans(view, groups, None))


def test_changed_settings_count_at_once() -> None:
    ledger = Ledger()
    groups = (group(minSlices=0).build(),)
    waiting = (task("t").made(5).build(),)
    for delay, makes in ((60, 0), (0, 1), (60, 0)):
        settings_ = cluster(autoscaler={"scaleUpDelaySeconds": delay}).build()
        view = PlacementView(NAMESPACE, (settings_,), (), waiting)
        (plan,) = _plans(view, groups, ledger)[1].groups
        assert len(plan.actions) == makes
