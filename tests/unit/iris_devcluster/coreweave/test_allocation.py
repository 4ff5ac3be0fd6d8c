"""Who gets machines, by quota, capacity and order."""

from __future__ import annotations

from typing import Any

import pytest

from iris_devcluster.coreweave.model import Pool, Snapshot
from iris_devcluster.coreweave.plan.allocation import allocate
from iris_devcluster.coreweave.testing import CPU, GB200, H100, ago, machine, pool, snapshot

LIMITS: dict[str, tuple[dict[str, Any], tuple[int, bool, int]]] = {
    # settings -> add, over quota, waiting; the NodePool wants 4
    "no limits": ({}, (4, False, 0)),
    "quota is enough": ({"defaults": {"quota": 4}}, (4, False, 0)),
    "over quota": ({"defaults": {"quota": 3}}, (3, True, 0)),
    "no quota at all": ({"defaults": {"quota": 0}}, (0, True, 0)),
    "no capacity": ({"defaults": {"capacity": 0}}, (0, False, 4)),
    "partly filled": ({"defaults": {"capacity": 1}}, (1, False, 3)),
    "both": ({"defaults": {"quota": 3, "capacity": 1}}, (1, True, 2)),
    "the type's own limit wins": ({"defaults": {"quota": 0}, "instanceTypes": {H100: {"quota": 4}}}, (4, False, 0)),
    "another type's limit": ({"instanceTypes": {CPU: {"quota": 0}}}, (4, False, 0)),
}


@pytest.mark.parametrize(("rules", "expected"), LIMITS.values(), ids=LIMITS)
def test_limits(rules: dict[str, Any], expected: tuple[int, bool, int]) -> None:
    grant = allocate(snapshot([pool(nodes=4)], settings=rules))["pool"]
    assert (grant.add, grant.over_quota, grant.waiting) == expected


def test_limits_count_what_others_hold() -> None:
    old, new = pool("old", 2), pool("new", 2)
    held = [machine("a", old), machine("b", old)]
    grant = allocate(snapshot([old, new], held, settings={"defaults": {"quota": 3, "capacity": 9}}))["new"]
    assert (grant.add, grant.over_quota) == (1, True)


def test_a_machine_on_its_way_back_frees_quota_but_not_capacity() -> None:
    one = pool(nodes=2)
    going = machine("a", one, releasing=True)
    rules = {"defaults": {"quota": 2, "capacity": 2}}
    grant = allocate(snapshot([one], [going], settings=rules))["pool"]
    assert (grant.add, grant.waiting, grant.over_quota) == (1, 1, False)


def test_a_lowered_limit_takes_nothing_away() -> None:
    one = pool(nodes=2)
    seen = snapshot([one], [machine("a", one), machine("b", one)], settings={"defaults": {"quota": 0, "capacity": 0}})
    grant = allocate(seen)["pool"]
    assert (grant.add, grant.surplus, grant.over_quota, grant.waiting) == (0, 0, False, 0)


ORDER: dict[str, tuple[list[Pool], str]] = {
    "first come": ([pool("late", created=ago(1)), pool("early", created=ago(9))], "early"),
    "priority before age": ([pool("late", created=ago(1), priority=1), pool("early", created=ago(9))], "late"),
    "negative priority": ([pool("late", created=ago(1)), pool("early", created=ago(9), priority=-1)], "late"),
}


@pytest.mark.parametrize(("pools", "winner"), ORDER.values(), ids=ORDER)
def test_order(pools: list[Pool], winner: str) -> None:
    grants = allocate(snapshot(pools, settings={"defaults": {"capacity": 1}}))
    assert [name for name, grant in grants.items() if grant.add] == [winner]


INVALID: dict[str, tuple[Pool, str]] = {
    "unknown type": (pool(instance_type="gd-9xnothing"), "instance type does not exist in zone US-EAST-04A"),
    "reserved label": (pool(labels={"node.coreweave.cloud/x": "y"}), "reserved: node.coreweave.cloud/x"),
    "reserved taint": (pool(taints=({"key": "coreweave.com/x", "effect": "NoSchedule"},)), "reserved"),
    "a kubelet's own label": (pool(labels={"node-role.kubernetes.io/x": ""}), "a kubelet may not set"),
    "racks of a type without": (pool(nodes=None, target_racks=1), "targetRacks is only available"),
}


@pytest.mark.parametrize(("one", "text"), INVALID.values(), ids=INVALID)
def test_invalid_gets_nothing(one: Pool, text: str) -> None:
    grant = allocate(snapshot([one]))["pool"]
    assert text in grant.invalid
    assert grant.add == 0


@pytest.mark.parametrize("label", ["example.com/x", "plain", "node.kubernetes.io/x", "mycoreweave.com/x"])
def test_allowed_labels(label: str) -> None:
    assert not allocate(snapshot([pool(labels={label: "y"})]))["pool"].invalid


def test_racks_count_as_nodes() -> None:
    racks = pool(nodes=None, target_racks=2, instance_type=GB200)
    assert allocate(snapshot([racks]))["pool"].add == 36
    assert allocate(snapshot([racks], settings={"nodesPerRack": 2}))["pool"].add == 4


def test_nothing_before_the_finalizer_is_there() -> None:
    assert allocate(snapshot([pool(finalized=False)]))["pool"].add == 0


def test_a_deleted_pool_gives_everything_back() -> None:
    one = pool(nodes=2, deleting=True)
    seen: Snapshot = snapshot([one], [machine("a", one)])
    assert allocate(seen)["pool"].surplus == 1
