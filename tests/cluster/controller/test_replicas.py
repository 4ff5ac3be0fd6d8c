"""Replicas, kills and restarts: one leads, nothing is made twice, nothing is left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

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


Moment = Callable[[World], Awaitable[bool]]


async def _pool_made(world: World) -> bool:
    return bool(await world.all(NODEPOOLS))


async def _nodes_there(world: World) -> bool:
    return bool(await world.all(NODES))


async def _pods_made(world: World) -> bool:
    return bool(await world.all(PODS))


@pytest.mark.parametrize("moment", [_pool_made, _nodes_there, _pods_made], ids=lambda moment: moment.__name__)
async def test_killed_while_it_makes_a_slice(world: World, start_operator: Start, moment: Moment) -> None:
    first = start_operator()
    await world.make(SLICES, "s", {**_CPU, "nodeCount": 2})
    await eventually(lambda: moment(world), 30)
    first.kill()
    await _lease_runs_out(world)
    second = start_operator()
    await second.leads()
    await world.phase(SLICES, "s", "Ready")
    assert len(await world.all(NODEPOOLS)) == 1
    assert len(await world.all(PODS)) == 2
    await world.api.delete(SLICES, "s", world.namespace)
    await _all_goes(world)


async def _task_told(world: World) -> bool:
    return bool((await world.find(TASKS, "t"))["spec"]["binding"].get("stopReason"))


async def _pods_leave(world: World) -> bool:
    return all("deletionTimestamp" in one["metadata"] for one in await world.all(PODS))


async def _pool_leaves(world: World) -> bool:
    return all("deletionTimestamp" in one["metadata"] for one in await world.all(NODEPOOLS))


async def _at_once(world: World) -> bool:
    return True


@pytest.mark.parametrize(
    "moment", [_at_once, _task_told, _pods_leave, _pool_leaves], ids=lambda moment: moment.__name__
)
async def test_killed_while_it_gives_a_slice_back(
    world: World, operator: Operator, start_operator: Start, moment: Moment
) -> None:
    await world.make(SLICES, "s", _CPU)
    await world.phase(SLICES, "s", "Ready")
    await world.make(TASKS, "t", _TASK)
    await world.bound("t")
    await world.agent_says("t", "Running")
    world.ends = moment is not _pods_leave
    world.releases = moment is not _pool_leaves
    agent = asyncio.create_task(_agent_stops_it(world))
    await world.api.delete(SLICES, "s", world.namespace)
    await eventually(lambda: moment(world))
    operator.kill()
    world.ends = world.releases = True
    await _lease_runs_out(world)
    await start_operator().leads()
    await _all_goes(world)
    await agent
    assert (await world.find(TASKS, "t"))["status"]["phase"] == "Killed"


async def _lease_runs_out(world: World) -> None:
    """Sooner than by itself."""
    await world.api.delete(LEASES, "iris-operator", world.namespace)


async def _agent_stops_it(world: World) -> None:
    await eventually(lambda: _task_told(world), 40)
    await asyncio.sleep(0.5)
    await world.agent_says("t", "Killed", reason="SliceDeleted")


async def _all_goes(world: World) -> None:
    await world.gone(SLICES, "s", 30)
    assert [*await world.all(NODEPOOLS), *await world.all(NODES), *await world.all(PODS)] == []


async def test_deleted_while_no_operator_ran(world: World, operator: Operator, start_operator: Start) -> None:
    await world.make(SLICES, "s", _CPU)
    await world.phase(SLICES, "s", "Ready")
    operator.kill()
    await world.api.delete(SLICES, "s", world.namespace)
    await world.worker_vanishes("s-worker-0")
    await _lease_runs_out(world)
    await start_operator().leads()
    await _all_goes(world)
