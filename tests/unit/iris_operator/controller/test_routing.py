"""Whom a change concerns."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.controller.cache import Cache
from iris_operator.controller.routing import CLUSTER, ENDPOINT, ORPHANS, PLACE, REPLICAS, SLICE, TASK, WORKER, route
from iris_operator.controller.workqueue import Key
from iris_operator.ports.kube import (
    ENDPOINT_SLICES,
    IRIS_CLUSTERS,
    LEASES,
    NODEPOOLS,
    NODES,
    PODS,
    SCALE_GROUPS,
    SLICES,
    TASKS,
    Kind,
)
from tests.builders import Builder, cluster, endpoint_slice, group, lease, member, node, node_pool, slice_, task, worker

_SLICE, _PLACE, _CLUSTER = Key(SLICE, "team/s"), Key(PLACE, "team"), Key(CLUSTER, "team")
_A, _ORPHANS = Key(TASK, "team/a"), Key(ORPHANS, "")

Built = Builder[Any]

# kind, the object now, the object before -> keys at once, keys after a while
CASES: dict[str, tuple[Kind, Built, Built | None, set[Key], set[Key]]] = {
    "a new Task": (TASKS, task("a"), None, {_PLACE}, {_CLUSTER}),
    "a bound Task": (TASKS, task("a").bound(), task("a"), {_A}, {_CLUSTER, _SLICE}),
    "an ended Task makes room": (TASKS, task("a").bound().phase("Failed"), None, {_A, _PLACE}, {_CLUSTER, _SLICE}),
    "a Task that leaves": (TASKS, task("a").bound().deleting(), None, {_A, _PLACE}, {_CLUSTER, _SLICE}),
    "a Task of another priority now": (
        TASKS, task("a", priority=1).bound(), task("a").bound(), {_A, _PLACE}, {_CLUSTER, _SLICE}
    ),
    "a Task that ended unplaced": (TASKS, task("a").phase("Killed"), None, set(), {_CLUSTER}),
    "a Task between two attempts": (TASKS, task("a"), task("a").bound(), {_SLICE, _PLACE}, {_CLUSTER}),
    "a Task that leaves between two attempts": (
        TASKS, task("a").bound().spec(binding=None).deleting(), None, {_A, _PLACE}, {_CLUSTER}
    ),
    "a Task of a Service": (
        TASKS, task("a", serviceName="web").bound(), task("a"), {_A, Key(ENDPOINT, "team/a")}, {_CLUSTER, _SLICE}
    ),
    "a Task of several replicas": (TASKS, task("a", replicas=2), None, {_PLACE, Key(REPLICAS, "team/a")}, {_CLUSTER}),
    "one that runs": (
        TASKS, task("a", replicas=2).phase("Running"), task("a", replicas=2), {_PLACE, Key(REPLICAS, "team/a")}, {_CLUSTER}
    ),
    "a member": (TASKS, member("a"), None, {_PLACE}, {_CLUSTER, Key(REPLICAS, "team/a")}),
    "a member that runs": (
        TASKS, member("a").bound().phase("Running"), member("a"), {Key(TASK, "team/a-0")},
        {_CLUSTER, _SLICE, Key(REPLICAS, "team/a")},
    ),
    "a member that leaves": (
        TASKS, member("a").bound().deleting(), None, {Key(TASK, "team/a-0"), _PLACE, Key(REPLICAS, "team/a")},
        {_CLUSTER, _SLICE},
    ),
    "an EndpointSlice of a Task": (ENDPOINT_SLICES, endpoint_slice("a"), None, {Key(ENDPOINT, "team/a")}, set()),
    "an EndpointSlice of nobody": (
        ENDPOINT_SLICES, endpoint_slice("a").meta(ownerReferences=[]), None, set(), set()
    ),
    "a slice": (SLICES, slice_(), None, {_SLICE, _PLACE}, {_CLUSTER}),
    "a group's slice": (SLICES, slice_(scaleGroupName="g"), None, {_SLICE, _PLACE}, {_CLUSTER}),
    "a NodePool of ours": (NODEPOOLS, node_pool(), None, {_SLICE}, set()),
    "a NodePool that comes on": (NODEPOOLS, node_pool().validated(), node_pool(), set(), {_SLICE}),
    "a NodePool over quota": (NODEPOOLS, node_pool().condition("Quota", "False"), node_pool(), {_SLICE}, set()),
    "a NodePool within quota again": (NODEPOOLS, node_pool(), node_pool().condition("Quota", "False"), {_SLICE}, set()),
    "a NodePool of an earlier slice": (
        NODEPOOLS, node_pool().meta(annotations={"iris.dev/slice": "team/s", "iris.dev/slice-uid": "old"}), None,
        {_SLICE, _ORPHANS}, set(),
    ),
    "a NodePool without its slice": (NODEPOOLS, node_pool("other"), None, {Key(SLICE, "team/other"), _ORPHANS}, set()),
    "a NodePool that was marked": (
        NODEPOOLS,
        node_pool().meta(annotations={**node_pool().body()["metadata"]["annotations"], "iris.dev/orphaned-since": "x"}),
        None, {_SLICE, _ORPHANS}, set(),
    ),
    "a stranger's NodePool": (NODEPOOLS, node_pool().meta(annotations={}), None, set(), set()),
    "a node of ours": (NODES, node(), None, {_SLICE}, set()),
    "a node's heartbeat": (NODES, node().meta(resourceVersion="9"), node(), set(), set()),
    "a node that turned NotReady": (NODES, node().not_ready(), node(), {_SLICE}, set()),
    "a node's small words": (NODES, node().status(images=[1], capacity={"cpu": "9"}), node(), set(), {_SLICE}),
    "a node whose GPUs came": (NODES, node(gpu=8), node(), {_SLICE}, set()),
    "a node of nobody's slice": (NODES, node("other"), None, set(), set()),
    "a worker": (PODS, worker(), None, {_SLICE, _A}, set()),
    "a worker that leaves": (PODS, worker().deleting(), None, {_SLICE, _A, Key(WORKER, "team/s-worker-0")}, set()),
    "a worker that is being started": (PODS, worker().status(reason="x"), worker(), set(), {_SLICE}),
    "a worker that is ready": (PODS, worker().ready(), worker(), {_SLICE}, set()),
    "a stranger's Pod": (PODS, worker().meta(labels={}), None, set(), set()),
    "a new Lease": (LEASES, lease(), None, {_SLICE}, set()),
    "a renewal": (LEASES, lease(ago=2), lease(ago=12), set(), set()),
    "a late renewal": (LEASES, lease(ago=2), lease(ago=18), {_SLICE}, set()),
    "another holder": (LEASES, lease().spec(holderIdentity="new"), lease(), {_SLICE}, set()),
    "an agent's problem": (LEASES, lease(problem="no containerd"), lease(), {_SLICE}, set()),
    "an agent's full disk": (LEASES, lease(disk="full"), lease(), {_SLICE}, set()),
    "an agent's disk with room again": (LEASES, lease(), lease(disk="full"), {_SLICE}, set()),
    "an agent's problem solved": (LEASES, lease(), lease(problem="no containerd"), {_SLICE}, set()),
    "a group": (SCALE_GROUPS, group(), None, {_PLACE}, set()),
    "a group that is scaled": (SCALE_GROUPS, group().meta(generation=2), group(), {_PLACE}, set()),
    "a group that leaves": (SCALE_GROUPS, group().deleting(), group(), {_PLACE}, set()),
    "new settings": (IRIS_CLUSTERS, cluster().meta(generation=2), cluster(), {_CLUSTER, _PLACE, _SLICE}, set()),
    "a cluster's own status": (IRIS_CLUSTERS, cluster().status(operatorVersion="1"), cluster(), {_CLUSTER}, set()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_routes(name: str) -> None:
    """Around: slice s, and Task a bound to its worker, which the cache doesn't hold (any more)."""
    kind, now, before, at_once, later = CASES[name]
    cache = Cache()
    cache.put(SLICES, slice_().body())
    cache.put(TASKS, task("a").bound().body())
    if kind in (NODES, NODEPOOLS) or (kind is PODS and before is not None):
        cache.put(kind, now.body())
    found = list(route(kind, now.build(), before.build() if before else None, cache))
    assert {key for key, delay in found if not delay} == at_once
    assert {key for key, delay in found if delay} == later


def test_what_a_slice_left_behind_is_looked_for() -> None:
    gone = slice_().status(nodePoolName="team-s").build()
    assert _ORPHANS in [key for key, _ in route(SLICES, gone, gone, Cache())]


def test_a_node_pool_or_node_that_is_gone_is_news_at_once() -> None:
    cache = Cache()
    cache.put(SLICES, slice_().body())
    pool, left = node_pool().build(), node().build()
    assert list(route(NODEPOOLS, pool, pool, cache)) == [(_SLICE, 0)]
    assert list(route(NODES, left, left, cache)) == [(_SLICE, 0)]


def test_a_worker_that_stands_loses_nobody() -> None:
    cache = Cache()
    cache.put(TASKS, task("a").bound().body())
    cache.put(PODS, worker().body())
    assert [key for key, _ in route(PODS, worker().build(), None, cache)] == [_SLICE]


def test_a_node_that_went_frees_the_workers_on_it() -> None:
    cache = Cache()
    cache.put(SLICES, slice_().body())
    cache.put(PODS, worker().deleting().body())
    cache.put(PODS, worker(rank=1).deleting().body())
    gone = node().build()
    assert {key for key, _ in route(NODES, gone, gone, cache)} == {_SLICE, Key(WORKER, "team/s-worker-0")}


def test_a_group_s_own_status_is_no_news() -> None:
    cache = Cache()
    cache.put(SCALE_GROUPS, group().body())
    assert list(route(SCALE_GROUPS, group().status(ready=1).build(), group().build(), cache)) == []
