"""NodePools without a Slice, on the API in memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from iris_operator.ports.kube import EVENTS, IRIS_CLUSTERS, NODEPOOLS, SLICES
from tests.builders import cluster
from tests.unit.iris_operator.controller.slice_world import SliceWorld

TOTAL = "iris_orphaned_nodepools_total"


def _pool(name: str = "team-gone", namespace: str = "team", **annotations: str) -> dict[str, Any]:
    notes = {"iris.dev/slice": f"{namespace}/gone", "iris.dev/slice-uid": "uid-gone", **annotations}
    metadata = {"name": name, "labels": {"iris-managed": "true"}, "annotations": notes}
    spec = {"instanceType": "a-type", "targetNodes": 0, "nodeLabels": {}}
    return {"apiVersion": NODEPOOLS.api_version, "kind": "NodePool", "metadata": metadata, "spec": spec}


async def _world() -> SliceWorld:
    world = SliceWorld()
    await world.api.create(IRIS_CLUSTERS, cluster().body(), "team")
    return world


async def test_marked_then_deleted_and_counted() -> None:
    world = await _world()
    await world.api.create(NODEPOOLS, _pool())
    await world.turns(3)
    (pool,) = await world.all(NODEPOOLS)
    assert pool["metadata"]["annotations"]["iris.dev/orphaned-since"] == world.time.isoformat()
    assert world.controller.counters[TOTAL] == 0
    world.time += timedelta(seconds=299)
    await world.turns(3)
    assert len(await world.all(NODEPOOLS)) == 1
    world.time += timedelta(seconds=1)
    await world.turns(3)
    assert await world.all(NODEPOOLS) == []
    assert world.controller.counters[TOTAL] == 1
    assert await world.event_reasons() == ["OrphanDeleted"]


async def test_a_restart_does_not_begin_the_grace_anew() -> None:
    world = await _world()
    await world.api.create(NODEPOOLS, _pool())
    await world.turns(2)
    world.time += timedelta(seconds=300)
    world.start()
    await world.turns(2)
    assert await world.all(NODEPOOLS) == []


async def test_another_namespace_s_is_never_touched() -> None:
    world = await _world()
    before = await world.api.create(
        NODEPOOLS, _pool(namespace="another", **{"iris.dev/orphaned-since": "2020-01-01T00:00:00Z"})
    )
    await world.turns(3)
    (after,) = await world.all(NODEPOOLS)
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert world.api.operator_writes == []


async def test_a_refused_deletion_is_tried_again_and_counted_once() -> None:
    world = await _world()
    world.api.refuses = {"delete"}
    await world.api.create(NODEPOOLS, _pool(**{"iris.dev/orphaned-since": "2020-01-01T00:00:00+00:00"}))
    assert await world.turns(3)
    assert world.controller.counters[TOTAL] == 0
    world.api.refuses = set()
    await world.turns(3)
    assert await world.all(NODEPOOLS) == []
    assert world.controller.counters[TOTAL] == 1


async def test_a_slice_that_no_watch_has_told_of_keeps_its_node_pool() -> None:
    """Even when an older process marked it long ago: the API is asked for the Slice before anything is done."""
    world = await _world()
    await world.make()
    await world.turns()
    old = {"metadata": {"annotations": {"iris.dev/orphaned-since": "2020-01-01T00:00:00+00:00"}}}
    body = await world.api.patch(NODEPOOLS, "team-s", old)
    world.start().observe(NODEPOOLS, body)  # and nothing else
    await world.look_for_orphans()
    (pool,) = await world.all(NODEPOOLS)
    assert "deletionTimestamp" not in pool["metadata"]
    await world.turns(2)
    (pool,) = await world.all(NODEPOOLS)
    assert "iris.dev/orphaned-since" not in pool["metadata"]["annotations"]
    assert (await world.find(SLICES, "s"))["status"]["phase"] == "Ready"
    assert EVENTS.plural not in [kind for verb, kind in world.api.operator_writes if verb == "delete"]
