"""Status, conditions and Events as users see them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from iris_devcluster.coreweave.model import NodeFact, Power, Snapshot
from iris_devcluster.coreweave.plan import make_plan
from iris_devcluster.coreweave.testing import GB200, H100, NOW, applied, machine, pool, reasons, snapshot

TWO = pool(nodes=2)
BOOTING = machine("b", TWO, power=Power.OFF, registered=False)
UP = machine("a", TWO)

CASES: dict[str, tuple[Snapshot, dict[str, int], dict[str, str]]] = {
    "all there": (
        snapshot([TWO], [UP, machine("b", TWO)]),
        {"currentNodes": 2, "inProgress": 0, "queuedNodes": 0},
        {"Validated": "Valid", "Quota": "Under", "Capacity": "Sufficient", "AtTarget": "TargetMet"},
    ),
    "one boots": (
        snapshot([TWO], [UP, BOOTING]),
        {"currentNodes": 1, "inProgress": 1, "queuedNodes": 0},
        {"Validated": "Valid", "Quota": "Under", "Capacity": "Sufficient", "AtTarget": "UnderTarget"},
    ),
    "no capacity": (
        snapshot([TWO], settings={"defaults": {"capacity": 0}}),
        {"currentNodes": 0, "inProgress": 0, "queuedNodes": 2},
        {"Quota": "Under", "Capacity": "QueuedAwaitingCapacity", "AtTarget": "UnderTarget"},
    ),
    "partly filled": (
        snapshot([TWO], [UP], settings={"defaults": {"capacity": 1}}),
        {"currentNodes": 1, "inProgress": 0, "queuedNodes": 1},
        {"Quota": "Under", "Capacity": "QueuedAwaitingCapacity", "AtTarget": "UnderTarget"},
    ),
    "over quota": (
        snapshot([TWO], [UP], settings={"defaults": {"quota": 1}}),
        {"currentNodes": 1, "queuedNodes": 1},
        {"Quota": "Over", "Capacity": "CapacityUnknown"},
    ),
    "no quota": (
        snapshot([TWO], settings={"instanceTypes": {H100: {"quota": 0}}}),
        {"currentNodes": 0, "queuedNodes": 2},
        {"Quota": "NotSet", "Capacity": "CapacityUnknown"},
    ),
    "invalid": (
        snapshot([pool(nodes=2, instance_type="nonsense")]),
        {"currentNodes": 0, "inProgress": 0, "queuedNodes": 2},
        {"Validated": "Invalid", "Quota": "QuotaUnknown", "Capacity": "CapacityUnknown", "AtTarget": "UnderTarget"},
    ),
    "a dead node still counts": (
        snapshot([TWO], [UP, machine("b", TWO, power=Power.OFF)], settings={"nodes": {"b": {"power": "off"}}}),
        {"currentNodes": 2},
        {"AtTarget": "TargetMet"},
    ),
    "nobody wants anything": (snapshot([pool(nodes=0)]), {"currentNodes": 0, "queuedNodes": 0}, {"AtTarget": "TargetMet"}),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "counts", "conditions"), CASES.values(), ids=CASES)
def test_status(seen: Snapshot, counts: dict[str, int], conditions: dict[str, str]) -> None:
    status = make_plan(seen, NOW).statuses["pool"]
    assert {key: status[key] for key in counts} == counts
    assert {**reasons(status), **conditions} == reasons(status)


EVENTS: dict[str, tuple[Snapshot, list[str]]] = {
    "assigned": (snapshot([TWO]), ["CWNodePoolScaledUp", "CWNodeAssigned", "CWNodeAssigned"]),
    "registered": (
        snapshot([TWO], [UP, replace(BOOTING, power=Power.ON)], nodes={"a": NodeFact("a"), "b": NodeFact("b")}),
        ["CWNodeRegistered"],
    ),
    "scaled down": (snapshot([pool(nodes=0)], [machine("a", pool())]), ["CWNodePoolScaledDown"]),
    "no capacity": (snapshot([TWO], settings={"defaults": {"capacity": 0}}), ["CWInsufficientCapacity"]),
    "no quota": (snapshot([TWO], settings={"defaults": {"quota": 0}}), ["CWOverQuota"]),
    "invalid": (snapshot([pool(instance_type="nonsense")]), ["CWInvalidNodePool"]),
}


@pytest.mark.parametrize(("seen", "expected"), EVENTS.values(), ids=EVENTS)
def test_events(seen: Snapshot, expected: list[str]) -> None:
    plan = make_plan(seen, NOW)
    assert [event.reason for event in plan.events] == expected
    again = make_plan(applied(seen, plan), NOW + timedelta(seconds=1))
    assert not again.events


def test_times_of_conditions_move_only_with_their_status() -> None:
    seen = snapshot([TWO], [UP, BOOTING], settings={"defaults": {"boot": "never"}})
    first = applied(seen, make_plan(seen, NOW))
    later = make_plan(
        replace(first, machines={"a": UP, "b": machine("b", TWO)}, nodes={**seen.nodes, "b": seen.nodes["a"]}),
        NOW + timedelta(hours=1),
    )
    times = {row["type"]: row["lastTransitionTime"] for row in later.statuses["pool"]["conditions"]}
    assert times["Validated"] == "2026-11-21T12:00:00Z"
    assert times["AtTarget"] == "2026-11-21T13:00:00Z"


def test_a_changed_image_is_staged_until_nobody_runs_the_old_one() -> None:
    seen = snapshot([TWO], [UP, machine("b", TWO)])
    old = make_plan(seen, NOW).statuses["pool"]
    changed = replace(TWO, gpu_version="570", status=old)
    plan = make_plan(replace(seen, pools=(changed,)), NOW)
    status = plan.statuses["pool"]
    assert status["nodeProfile"] == old["nodeProfile"]
    assert status["pendingNodeConfiguration"]["summary"] == ['gpu: "570"']
    assert [event.reason for event in plan.events] == ["CWNodeConfigStaged"]
    empty = make_plan(snapshot([replace(changed, target_nodes=0)]), NOW).statuses["pool"]
    assert (empty["nodeProfile"] != old["nodeProfile"], empty["pendingNodeConfiguration"]) == (True, None)


def test_racks() -> None:
    racks = pool(nodes=None, target_racks=2, instance_type=GB200)
    held = [machine(name, racks) for name in ("a", "b", "c")]
    seen = snapshot([racks], held, settings={"nodesPerRack": 2, "defaults": {"capacity": 3}})
    status = make_plan(seen, NOW).statuses["pool"]
    assert status["rackStatus"] == {"target": 2, "current": 1, "queued": 1}
