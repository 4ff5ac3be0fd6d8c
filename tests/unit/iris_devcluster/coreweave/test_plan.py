"""Whole plans: assignment, boot, faults, release, adoption."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from iris_devcluster.coreweave.model import REMOVE_LABEL, Machine, NodeFact, Pool, Power, Snapshot
from iris_devcluster.coreweave.plan import DeviceOffer, Plan, StepKind, make_plan
from iris_devcluster.coreweave.testing import CPU, H100, NOW, ago, applied, machine, pool, reasons, snapshot

POOL = pool()


def steps(plan: Plan) -> list[tuple[str, str]]:
    return [(str(step.kind), step.machine) for step in plan.steps]


def released(plan: Plan) -> list[str]:
    return [record.name for record in plan.records if record.releasing]


def test_a_new_pool_first_gets_the_finalizer() -> None:
    plan = make_plan(snapshot([pool(finalized=False)]), NOW)
    assert plan.add_finalizer == ("pool",)
    assert not plan.records


def test_machines_are_assigned_and_boot_after_the_delay() -> None:
    first = make_plan(snapshot([pool(nodes=2)]), NOW)
    assert len({record.name for record in first.records}) == 2
    assert not first.steps
    assert first.wake_at == NOW + timedelta(seconds=2)
    later = make_plan(applied(snapshot([pool(nodes=2)]), first), NOW + timedelta(seconds=2))
    assert [kind for kind, _ in steps(later)] == ["boot", "boot"]
    assert first.statuses["pool"]["inProgress"] == 2


def test_names_are_short_and_never_given_twice() -> None:
    names = {record.name for record in make_plan(snapshot([pool(nodes=50)]), NOW).records}
    again = {record.name for record in make_plan(snapshot([pool(nodes=50)]), NOW + timedelta(seconds=1)).records}
    assert all(len(name) == 7 and name.isalnum() and name.islower() for name in names)
    assert len(names | again) == 100


BOOTS: dict[str, tuple[dict[str, Any], float, bool]] = {
    # settings, seconds since the assignment -> boots now
    "in time": ({}, 2, True),
    "too early": ({}, 1.9, False),
    "as long as in real life": ({"defaults": {"bootSeconds": 1500}}, 1499, False),
    "slow takes ten times as long": ({"defaults": {"boot": "slow"}}, 19, False),
    "slow, but it comes": ({"defaults": {"boot": "slow"}}, 20, True),
    "never": ({"nodePools": {"pool": {"boot": "never"}}}, 1e6, False),
    "the node's own delay": ({"nodes": {"a": {"bootSeconds": 0}}}, 0, True),
    "another pool's fault": ({"nodePools": {"other": {"boot": "never"}}}, 2, True),
    "no power": ({"nodes": {"a": {"power": "off"}}}, 2, False),
}


@pytest.mark.parametrize(("rules", "seconds", "boots"), BOOTS.values(), ids=BOOTS)
def test_boot(rules: dict[str, Any], seconds: float, boots: bool) -> None:
    waiting = machine("a", POOL, assigned_at=ago(seconds), power=Power.OFF, registered=False)
    plan = make_plan(snapshot([POOL], [waiting], settings=rules), NOW)
    assert steps(plan) == ([("boot", "a")] if boots else [])
    assert plan.statuses["pool"]["inProgress"] == 1


POWER: dict[str, tuple[Power, str, list[tuple[str, str]]]] = {
    "on and wanted on": (Power.ON, "on", []),
    "power cut": (Power.ON, "off", [("cut", "a")]),
    "stays off": (Power.OFF, "off", []),
    "power comes back": (Power.OFF, "on", [("boot", "a")]),
    "kubelet stops": (Power.ON, "frozen", [("freeze", "a")]),
    "kubelet stays stopped": (Power.FROZEN, "frozen", []),
    "kubelet goes on": (Power.FROZEN, "on", [("thaw", "a")]),
    "power cut of a stopped one": (Power.FROZEN, "off", [("cut", "a")]),
    "frozen from off boots first": (Power.OFF, "frozen", [("boot", "a")]),
}


@pytest.mark.parametrize(("power", "wanted", "expected"), POWER.values(), ids=POWER)
def test_power(power: Power, wanted: str, expected: list[tuple[str, str]]) -> None:
    seen = snapshot([POOL], [machine("a", POOL, power=power)], settings={"nodes": {"a": {"power": wanted}}})
    assert steps(make_plan(seen, NOW)) == expected


def test_a_busy_machine_is_left_alone() -> None:
    seen = snapshot([POOL], [machine("a", POOL, power=Power.OFF)], busy=frozenset({"a"}))
    assert not make_plan(seen, NOW).steps


def test_a_machine_that_the_host_lost_boots_again() -> None:
    seen = snapshot([POOL], [machine("a", POOL)], running=frozenset())
    assert steps(make_plan(seen, NOW)) == [("boot", "a")]


def test_what_a_node_boots_with() -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    one = pool(labels={"mine": "1"}, annotations={"note": "x"}, taints=(taint,))
    waiting = machine("a", one, power=Power.OFF, registered=False)
    (step,) = make_plan(snapshot([one], [waiting]), NOW).steps
    assert step.spec is not None
    assert step.spec.labels["mine"] == "1"
    assert step.spec.labels["node.kubernetes.io/instance-type"] == H100
    assert step.spec.labels["compute.coreweave.com/node-pool"] == "pool"
    assert step.spec.labels["gpu.nvidia.com/class"] == "H100_NVLINK_80GB"
    assert step.spec.annotations == {"note": "x"}
    assert step.spec.taints == (taint,)
    # 8 cores and 32 GiB in the computer, 2 and 4 GiB in a node
    assert step.spec.system_reserved == {"cpu": "6000m", "memory": f"{28 * 2**20}Ki"}


OFFERS: dict[str, tuple[str, dict[str, Any], DeviceOffer]] = {
    "all it has": (H100, {}, DeviceOffer(gpus=8, rdma=64)),
    "no GPUs in a CPU node": (CPU, {}, DeviceOffer()),
    "without its GPUs": (H100, {"nodePools": {"pool": {"gpus": 0}}}, DeviceOffer(gpus=0, rdma=64)),
    "one fewer": (H100, {"nodes": {"a": {"gpus": 7}}}, DeviceOffer(gpus=7, rdma=64)),
    "no more than the type has": (H100, {"nodes": {"a": {"gpus": 99}}}, DeviceOffer(gpus=8, rdma=64)),
    "sick ones": (H100, {"nodes": {"a": {"sickGpus": 2}}}, DeviceOffer(gpus=8, sick_gpus=2, rdma=64)),
}


@pytest.mark.parametrize(("kind", "rules", "offer"), OFFERS.values(), ids=OFFERS)
def test_devices(kind: str, rules: dict[str, Any], offer: DeviceOffer) -> None:
    one = pool(instance_type=kind)
    assert make_plan(snapshot([one], [machine("a", one)], settings=rules), NOW).devices == {"a": offer}


def test_a_node_without_power_offers_no_devices() -> None:
    off = {"nodes": {"a": {"power": "off"}}}
    assert make_plan(snapshot([POOL], [machine("a", POOL, power=Power.OFF)], settings=off), NOW).devices == {}


def test_plugins_wait_for_a_node_that_boots() -> None:
    booting = machine("a", POOL, power=Power.OFF, registered=False)
    assert set(make_plan(snapshot([POOL], [booting], busy=frozenset({"a"})), NOW).devices) == {"a"}


def scaled(**values: Any) -> Snapshot:
    """Three nodes, one too many."""
    one = pool(nodes=2, **values)
    return snapshot([one], [machine("a", one), machine("b", one, assigned_at=ago(30)), machine("c", one)])


SCALE_DOWN: dict[str, tuple[Snapshot, list[str]]] = {
    "the youngest": (scaled(), ["b"]),
    "not one in use": (replace(scaled(), in_use=frozenset({"b", "c"})), ["a"]),
    "nobody while all are in use": (replace(scaled(), in_use=frozenset({"a", "b", "c"})), []),
    "PreferIdle takes one in use": (replace(scaled(prefer_idle=True), in_use=frozenset({"a", "b", "c"})), ["b"]),
    "PreferIdle prefers idle": (replace(scaled(prefer_idle=True), in_use=frozenset({"b", "c"})), ["a"]),
    "the one that was marked": (
        replace(scaled(), nodes={"a": NodeFact("a"), "b": NodeFact("b"), "c": NodeFact("c", {REMOVE_LABEL: "true"})}),
        ["c"],
    ),
}


@pytest.mark.parametrize(("seen", "expected"), SCALE_DOWN.values(), ids=SCALE_DOWN)
def test_scale_down(seen: Snapshot, expected: list[str]) -> None:
    plan = make_plan(seen, NOW)
    assert released(plan) == expected
    assert [name for kind, name in steps(plan) if kind == "remove"] == expected
    assert reasons(plan.statuses["pool"])["AtTarget"] == "OverTarget"


def test_one_that_has_not_registered_goes_first() -> None:
    one = pool(nodes=1)
    old, new = machine("a", one), machine("b", one, power=Power.OFF, registered=False, assigned_at=ago(1))
    assert released(make_plan(snapshot([one], [old, new]), NOW)) == ["b"]


def test_deletion_takes_all_and_ends_with_the_finalizer() -> None:
    gone = pool(nodes=1, deleting=True)
    seen = snapshot([gone], [machine("a", gone)], in_use=frozenset({"a"}))
    first = make_plan(seen, NOW)
    assert (released(first), first.drop_finalizer) == (["a"], ())
    assert reasons(first.statuses["pool"])["NodesRemoved"] == "Pending"
    last = make_plan(snapshot([gone]), NOW)
    assert last.drop_finalizer == ("pool",)


@pytest.mark.parametrize("pools", [[], [replace(POOL, uid="another")]], ids=["pool gone", "a namesake came"])
def test_machines_of_a_vanished_pool_go(pools: list[Pool]) -> None:
    assert steps(make_plan(snapshot(pools, [machine("a", POOL)]), NOW)) == [("remove", "a")]


def test_a_dead_machine_is_exchanged_only_when_asked() -> None:
    dead = machine("a", POOL, power=Power.OFF, dead_since=ago(30))
    off = {"nodes": {"a": {"power": "off"}}}
    assert not released(make_plan(snapshot([POOL], [dead], settings=off), NOW))
    plan = make_plan(snapshot([POOL], [dead], settings={**off, "replaceSeconds": 30}), NOW)
    assert released(plan) == ["a"]
    waits = make_plan(snapshot([POOL], [dead], settings={**off, "replaceSeconds": 40}), NOW)
    assert waits.wake_at == NOW + timedelta(seconds=10)


def test_labels_of_the_pool_reach_nodes_that_run() -> None:
    one = pool(labels={"new": "1"}, annotations={"note": "x"})
    (patch,) = make_plan(snapshot([one], [machine("a", one)]), NOW).node_patches
    assert patch.labels["new"] == "1"
    assert patch.annotations == {"note": "x"}
    same = {"a": NodeFact("a", patch.labels, patch.annotations)}
    assert not make_plan(snapshot([one], [machine("a", one)], nodes=same), NOW).node_patches


def test_a_second_look_finds_nothing_to_do() -> None:
    one = pool(nodes=2, labels={"mine": "1"})
    held = [machine("a", one), machine("b", one)]
    seen = snapshot([one], held)
    first = make_plan(seen, NOW)
    nodes = {patch.node: NodeFact(patch.node, patch.labels, patch.annotations) for patch in first.node_patches}
    second = make_plan(replace(applied(seen, first), nodes=nodes), NOW + timedelta(seconds=60))
    nothing = (second.records, second.steps, second.node_patches, second.statuses, second.events, second.wake_at)
    assert nothing == ((), (), (), {}, (), None)


def test_records_survive_json() -> None:
    full = machine("a", POOL, power=Power.FROZEN, releasing=True, dead_since=NOW)
    assert Machine.from_data("a", full.to_data()) == full
    assert StepKind("boot") is StepKind.BOOT
