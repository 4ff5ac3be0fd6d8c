"""Replicas, kills and restarts: one leads, nothing is made twice, nothing is left."""

from __future__ import annotations

import asyncio
import time

import pytest

from iris_devcluster.coreweave.testing import eventually
from iris_operator.ports.kube import LEASES, NODEPOOLS, NODES, PODS, SLICES, TASKS
from tests.cluster.controller.conftest import Start
from tests.cluster.controller.operators import Operator
from tests.cluster.controller.world import World

pytestmark = pytest.mark.cluster

_CPU = {"instanceType": "cd-gp-i64-erapids"}
_TASK = {"image": "iris/task:1", "resources": {"limits": {"cpu": "1"}}}


async def test_the_second_waits_and_takes_over_from_a_killed_one(
    world: World, operator: Operator, start_operator: Start
) -> None:
    second = start_operator()
    await world.make(SLICES, "s", _CPU)
    await world.phase(SLICES, "s", "Ready")

    async def answers() -> bool:
        return bool(await second.health())

    await eventually(answers)
    assert (await second.health())["leading"] is False
    assert (await second.health())["status"] == "ok"
    operator.kill()
    killed = time.monotonic()
    await second.leads()
    assert time.monotonic() - killed < 16  # the Lease is 12 s long
    await world.make(TASKS, "t", _TASK)
    await world.bound("t")
    (pod,) = await world.all(PODS)
    assert pod["metadata"]["name"] == "s-worker-0"


async def test_one_that_is_told_to_end_hands_over_at_once(
    world: World, operator: Operator, start_operator: Start
) -> None:
    second = start_operator()

    async def answers() -> bool:
        return bool(await second.health())

    await eventually(answers)
    operator.tell_to_end()
    told = time.monotonic()
    await second.leads()
    assert time.monotonic() - told < 4  # about 1 s; the Lease is 12 s long, and kopf alone takes 5 to stop
    assert operator.ended() == 0


async def test_no_write_comes_after_the_lease_is_released(world: World, operator: Operator) -> None:
    """While Tasks come that it answers with a status each. Versions are the API server's own order of all writes."""
    made = 0

    async def load() -> None:
        nonlocal made
        while operator.exit_code is None:
            await world.make(TASKS, f"t-{made}", _TASK)
            made += 1

    loading = asyncio.create_task(load())
    await eventually(lambda: _answered(world, 20))
    operator.tell_to_end()
    await loading
    assert operator.exit_code == 0
    lease = await world.find(LEASES, "iris-operator")
    assert lease["spec"]["holderIdentity"] == ""
    released = int(lease["metadata"]["resourceVersion"])
    tasks = await world.all(TASKS)
    assert len(tasks) == made
    answered = [int(one["metadata"]["resourceVersion"]) for one in tasks if one.get("status")]
    assert len(answered) < made  # it had more to do
    assert max(answered) < released


async def _answered(world: World, number: int) -> bool:
    return sum(1 for one in await world.all(TASKS) if one.get("status")) >= number


async def test_a_standby_ends_when_told(operator: Operator, start_operator: Start) -> None:
    second = start_operator()

    async def answers() -> bool:
        return bool(await second.health())

    await eventually(answers)
    assert second.end() == 0
    assert operator.exit_code is None


async def test_whoever_loses_the_lease_ends(world: World, operator: Operator) -> None:
    taken = {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 60}}
    await world.api.patch(LEASES, "iris-operator", taken, namespace=world.namespace)

    async def ended() -> bool:
        return operator.exit_code is not None

    await eventually(ended)
    assert operator.exit_code == 1


async def _all_goes(world: World) -> None:
    await world.gone(SLICES, "s", 30)
    assert [*await world.all(NODEPOOLS), *await world.all(NODES), *await world.all(PODS)] == []


async def test_deleted_while_no_operator_ran(world: World, operator: Operator, start_operator: Start) -> None:
    await world.make(SLICES, "s", _CPU)
    await world.phase(SLICES, "s", "Ready")
    operator.kill()
    await world.api.delete(SLICES, "s", world.namespace)
    await world.worker_vanishes("s-worker-0")
    await world.lease_runs_out()
    await start_operator().leads()
    await _all_goes(world)
