"""Ranks through losses and returns, since when a node is lost, and where it stands in the fabrics."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from iris_operator.api.slice import Slice, SliceStatus
from iris_operator.plan.conditions import find_condition
from iris_operator.plan.slices.lifecycle import plan_live_slice
from iris_operator.plan.slices.snapshot import SliceView
from tests.builders import NOW, NodeBuilder, lease, node, node_pool, slice_, worker
from tests.unit.iris_operator.plan.views import healthy, view

_POOL = node_pool().validated().made(10**4)


def _of(size: int, *nodes: NodeBuilder, workers: tuple[int, ...] = (), status: SliceStatus | None = None) -> SliceView:
    """A slice that was Ready once, with these nodes, and workers of these ranks that are well."""
    owner = slice_(nodeCount=size, repair={"policy": "Wait"}).phase("Ready")
    if status is not None:
        owner = owner.status(**status.wire())
    else:
        owner = owner.status(nodes=[{"rank": rank, "name": f"s-n{rank}", "ready": True} for rank in range(size)])
    pods = [worker(rank=rank).ready() for rank in workers]
    return view(owner, _POOL, nodes, pods, [lease(rank=rank) for rank in workers])


def _names(status: SliceStatus) -> list[str]:
    return [one.name for one in status.nodes]


def test_a_lost_node_keeps_its_name_and_gets_its_rank_back() -> None:
    """Though the lowest rank is free as well."""
    lost = plan_live_slice(_of(3, node(rank=2), workers=(2,)), NOW).status
    assert _names(lost) == ["s-n0", "s-n1", "s-n2"]
    assert [one.ready for one in lost.nodes] == [False, False, True]
    assert lost.nodes[1].message == "node s-n1 is gone, waits for it or another"
    back = plan_live_slice(_of(3, node(rank=1), node(rank=2), workers=(2,), status=lost), NOW).status
    assert _names(back) == ["s-n0", "s-n1", "s-n2"]
    assert back.nodes[1].message == "its worker Pod is being made"
    assert back.nodes[0].message == "node s-n0 is gone, waits for it or another"


def test_two_that_are_lost_are_replaced_in_order_of_rank_and_name() -> None:
    lost = plan_live_slice(_of(3, node(rank=1), workers=(1,)), NOW).status
    new = (node(name="b"), node(name="a"), node(rank=1))
    assert _names(plan_live_slice(_of(3, *new, workers=(1,), status=lost), NOW).status) == ["a", "s-n1", "b"]
    one = plan_live_slice(_of(3, node(name="b"), node(rank=1), workers=(1,), status=lost), NOW).status
    assert _names(one) == ["b", "s-n1", "s-n2"]
    both = plan_live_slice(_of(3, node(name="b"), node(name="a"), node(rank=1), workers=(1,), status=one), NOW).status
    assert _names(both) == ["b", "s-n1", "a"]


def test_lost_since_begins_with_the_loss_and_ends_with_the_return() -> None:
    lost = plan_live_slice(_of(1), NOW).status
    assert lost.nodes[0].lost_since == NOW
    later = NOW + timedelta(seconds=60)
    still = plan_live_slice(_of(1, node().not_ready(), status=lost), later).status
    assert still.nodes[0].lost_since == NOW
    coming = plan_live_slice(_of(1, node(), status=still), later).status
    assert coming.nodes[0].lost_since == NOW  # its agent is not there yet
    back = plan_live_slice(_of(1, node(), workers=(0,), status=coming), NOW).status
    assert back.nodes[0].ready and back.nodes[0].lost_since is None
    assert "lostSince" not in back.nodes[0].wire()


def test_a_node_that_was_never_ready_is_not_lost() -> None:
    booting = view(slice_().status(nodes=[{"rank": 0, "name": "s-n0"}]), _POOL.made(10), [node().not_ready()])
    assert plan_live_slice(booting, NOW).status.nodes[0].lost_since is None


def test_ready_only_when_every_agent_is() -> None:
    nodes = [node(rank=rank) for rank in range(3)]
    assert plan_live_slice(_of(3, *nodes, workers=(0, 1, 2)), NOW).status.nodes_ready == "3/3"
    fresh: Any = slice_(nodeCount=3)
    for there in (0, 1, 2):
        pods, leases = [worker(rank=r).ready() for r in range(there)], [lease(rank=r) for r in range(there)]
        plan = plan_live_slice(view(fresh, _POOL.made(10), nodes, pods, leases), NOW)
        assert (plan.status.phase, plan.status.nodes_ready) == ("Initializing", f"{there}/3")


def test_a_stale_lease_is_a_node_whose_status_is_unknown() -> None:
    """Before the Pod's own words: a dead kubelet leaves the last good ones standing."""
    plan = plan_live_slice(healthy(slice_().phase("Ready"), leases=[lease(ago=41)]), NOW)
    agents = next(one for one in plan.status.conditions if one.type == "AgentsReady")
    assert (agents.status, agents.reason) == ("False", "NodeStatusUnknown")
    fresh = plan_live_slice(healthy(slice_().phase("Ready"), leases=[lease(ago=30)]), NOW)
    assert fresh.recheck_seconds == 11  # within 15 s of its end


def test_domains_are_carried() -> None:
    labels = {
        "backend.coreweave.cloud/leafgroup": "7", "ds.coreweave.com/nvlink.domain": "d1", "ib.coreweave.cloud/fabric": "f",
        "ib.coreweave.cloud/speed": "400G", "another": "x",
    }  # fmt: skip
    plan = plan_live_slice(healthy(slice_().phase("Ready"), nodes=[node().labelled(**labels)]), NOW)
    assert plan.status.nodes[0].topology == {
        "backend.coreweave.cloud/leafgroup": "7", "ds.coreweave.com/nvlink.domain": "d1", "ib.coreweave.cloud/fabric": "f",
    }  # fmt: skip
    bare: Slice = healthy(slice_().phase("Ready")).slice
    assert "topology" not in plan_live_slice(healthy(slice_().phase("Ready")), NOW).status.nodes[0].stated(), bare


def test_words_of_many_nodes_are_bounded() -> None:
    """The API takes 32768 characters of a condition's message."""
    plan = plan_live_slice(view(slice_(nodeCount=1024), _POOL.made(10)), NOW)
    nodes = next(one for one in plan.status.conditions if one.type == "NodesReady")
    assert nodes.message.endswith("waits for its node and 1019 more")
    assert max(len(one.message) for one in plan.status.conditions) < 500


def test_a_full_disk_is_said_and_is_no_loss() -> None:
    before = _of(2, node(rank=0), node(rank=1), workers=(0, 1))
    full = replace(before, leases={**before.leases, "s-worker-1": lease(rank=1, disk="the disk is full").build()})
    plan = plan_live_slice(full, NOW)
    assert [one.refuses for one in plan.status.nodes] == ["", "the disk is full"]
    assert [one.ready for one in plan.status.nodes] == [True, True]
    told = find_condition(plan.status.conditions, "DiskPressure")
    assert told is not None
    assert (told.status, told.reason, told.message) == ("True", "DiskFull", "s-n1: the disk is full")
    after = plan_live_slice(_of(2, node(rank=0), node(rank=1), workers=(0, 1), status=plan.status), NOW).status
    told = find_condition(after.conditions, "DiskPressure")
    assert told is not None
    assert (told.status, [one.refuses for one in after.nodes]) == ("False", ["", ""])
    assert find_condition(plan_live_slice(before, NOW).status.conditions, "DiskPressure") is None
