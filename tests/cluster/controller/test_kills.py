"""The operator is killed at every single write of making a slice, running a Task on it and giving it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from iris_devcluster.coreweave.kube import Connection
from iris_devcluster.coreweave.testing import eventually
from iris_operator.ports.kube import NODEPOOLS, NODES, PODS, SLICES, TASKS
from tests.cluster.controller.operators import Operator
from tests.cluster.controller.proxy import DEADLY, KillingProxy, killing_proxy
from tests.cluster.controller.world import World

pytestmark = pytest.mark.cluster

_CPU = {"instanceType": "cd-gp-i64-erapids"}
_TASK = {"image": "iris/task:1", "resources": {"limits": {"cpu": "1"}}}
_ENOUGH = 30
_LIFE_SECONDS = 60  # no operator goes without a write for longer, while there is something to do


@pytest.fixture
async def proxy(connection: Connection) -> AsyncIterator[KillingProxy]:
    async with killing_proxy(connection) as found:
        yield found


class Mortal:
    """Operators, one after the other: each dies at its first write."""

    def __init__(self, world: World, proxy: KillingProxy, folder: Path) -> None:
        self._world, self._proxy, self._folder = world, proxy, folder
        self._kubeconfig = proxy.kubeconfig(folder)

    async def live_until(self, reached: Callable[[], Awaitable[bool]]) -> int:
        """Start one after the other until it is; how many died."""
        for number in range(_ENOUGH):
            operator = Operator(self._kubeconfig, self._world.namespace, self._folder / "operator.log")
            self._proxy.victim = operator
            try:
                async with asyncio.timeout(_LIFE_SECONDS):
                    while operator.exit_code is None and not await reached():
                        await asyncio.sleep(0.1)
            finally:
                if operator.exit_code is None:
                    operator.kill()
                await self._world.lease_runs_out()
            if await reached():
                return number
        raise AssertionError(f"not reached after {_ENOUGH} deaths: {self._proxy.deaths}")


async def test_at_every_write(world: World, proxy: KillingProxy, tmp_path: Path) -> None:
    operators = Mortal(world, proxy, tmp_path)
    await world.make(SLICES, "s", _CPU)
    await world.make(TASKS, "t", _TASK)

    async def bound() -> bool:
        return bool((await world.find(TASKS, "t"))["spec"].get("binding"))

    await operators.live_until(bound)
    assert (await world.find(SLICES, "s"))["status"]["phase"] == "Ready"
    assert (len(await world.all(NODEPOOLS)), len(await world.all(NODES)), len(await world.all(PODS))) == (1, 1, 1)
    made = _kinds(proxy)
    assert {"nodepools", "pods", "slices", "slices/status", "tasks"} <= made, made

    await world.agent_says("t", "Running")
    agent = asyncio.create_task(_agent_stops_it(world))
    await world.api.delete(SLICES, "s", world.namespace)
    proxy.deaths.clear()

    async def gone() -> bool:
        return not await world.find(SLICES, "s")

    await operators.live_until(gone)
    await agent
    assert [*await world.all(NODEPOOLS), *await world.all(NODES), *await world.all(PODS)] == []
    assert (await world.find(TASKS, "t"))["status"]["phase"] == "Killed"
    assert {"nodepools", "pods", "slices", "slices/status", "tasks"} <= _kinds(proxy), proxy.deaths


def _kinds(proxy: KillingProxy) -> set[str]:
    """`slices/status`: what the deadly writes were on."""
    kinds = set()
    for death in proxy.deaths:
        parts = death.split("?")[0].split("/")
        place = next(index for index, part in enumerate(parts) if part in DEADLY)
        kinds.add("/".join([parts[place], *parts[place + 2 :]]))
    return kinds


async def _agent_stops_it(world: World) -> None:
    async def told() -> bool:
        return bool((await world.find(TASKS, "t"))["spec"].get("binding", {}).get("stopReason"))

    await eventually(told, 120)
    await world.agent_says("t", "Killed", reason="SliceDeleted")
