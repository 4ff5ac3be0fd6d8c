"""/metrics of the real operator: what happened is counted once, also across a restart."""

from __future__ import annotations

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from iris_devcluster.coreweave.testing import eventually
from iris_operator.ports.kube import SCALE_GROUPS, SLICES, TASKS
from tests.cluster.controller.conftest import Start
from tests.cluster.controller.operators import Operator
from tests.cluster.controller.world import World

pytestmark = pytest.mark.cluster

_TEMPLATE = {"spec": {"instanceType": "cd-gp-i64-erapids", "nodeCount": 2}}


async def _sum(operator: Operator, name: str, **labels: str) -> float:
    """Of all samples of that name that have these labels."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{operator.port}/metrics") as answer,
    ):
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        families = list(text_string_to_metric_families(await answer.text()))
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


async def _ready(world: World) -> str:
    async def ready() -> str | None:
        slices = await world.all(SLICES)
        phases = [one.get("status", {}).get("phase") for one in slices]
        return str(slices[0]["metadata"]["name"]) if phases == ["Ready"] else None

    found = await eventually(ready, 30)
    assert found is not None
    return found


async def test_a_slice_from_launch_to_end(world: World, operator: Operator) -> None:
    where = {"namespace": world.namespace, "group": "g"}
    spec = {"minSlices": 1, "maxSlices": 1, "template": _TEMPLATE}
    await world.make(SCALE_GROUPS, "g", spec)
    await _ready(world)
    assert await _sum(operator, "iris_slices", phase="Ready", **where) == 1
    assert await _sum(operator, "iris_launches_total") == 1
    assert await _sum(operator, "iris_slice_boot_seconds_count", **where) == 1
    assert await _sum(operator, "iris_operator_api_writes_total", verb="apply", resource="nodepools") == 1
    first = await _sum(operator, "iris_node_seconds_total", **where)

    async def grows() -> bool:
        idle = await _sum(operator, "iris_slice_idle_node_seconds_total", **where)
        return idle > 0 and await _sum(operator, "iris_node_seconds_total", **where) > first

    await eventually(grows, 10)
    await world.api.delete(SCALE_GROUPS, "g", world.namespace)
    for one in await world.all(SLICES):  # no garbage collector here
        await world.api.delete(SLICES, one["metadata"]["name"], world.namespace)
        await world.gone(SLICES, one["metadata"]["name"])
    end = await _sum(operator, "iris_node_seconds_total", **where)
    assert end == await _sum(operator, "iris_node_seconds_total", **where)


async def test_a_restart_counts_nothing_twice(world: World, operator: Operator, start_operator: Start) -> None:
    await world.make(SLICES, "s", {"instanceType": "cd-gp-i64-erapids"})
    await world.phase(SLICES, "s", "Ready")
    assert await _sum(operator, "iris_slice_boot_seconds_count") == 1
    before = await _sum(operator, "iris_node_seconds_total")
    operator.kill()
    await world.lease_runs_out()
    again = start_operator()
    await again.leads()

    async def knows() -> bool:
        return await _sum(again, "iris_slices", phase="Ready") == 1

    await eventually(knows, 20)
    assert await _sum(again, "iris_slice_boot_seconds_count") == 0
    assert await _sum(again, "iris_launches_total") == 0
    assert await _sum(again, "iris_node_seconds_total") < before + 15


async def test_only_the_leader_knows_what_waits(world: World, operator: Operator, start_operator: Start) -> None:
    standby = start_operator()
    await world.make(TASKS, "t", {"image": "iris/task:1"})

    async def waits() -> bool:
        return await _sum(operator, "iris_tasks_waiting", namespace=world.namespace) == 1

    async def answers() -> bool:
        return bool(await standby.health())

    await eventually(waits, 10)
    await eventually(answers, 20)
    assert await _sum(operator, "iris_operator_leading") == 1
    assert await _sum(standby, "iris_operator_leading") == 0
    assert await _sum(standby, "iris_tasks_waiting") == 0
