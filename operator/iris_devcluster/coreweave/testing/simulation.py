"""The simulator within a test, and NodePools as a user handles them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from iris_devcluster.coreweave import inventory, store
from iris_devcluster.coreweave.controller.apply import EVENTS, NODES, POOLS
from iris_devcluster.coreweave.controller.loop import Controller
from iris_devcluster.coreweave.host import NodeHost
from iris_devcluster.coreweave.kube import KubeClient, KubeError
from iris_devcluster.coreweave.testing.builders import CPU

T = TypeVar("T")


@asynccontextmanager
async def simulation(kube: KubeClient, host: NodeHost) -> AsyncIterator[None]:
    """The simulator for the time of the block; leaving it is like the process ending."""
    task = asyncio.create_task(Controller(kube, host).run())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def clean(kube: KubeClient) -> None:
    """Remove NodePools, whoever's finalizers they have, Nodes, Events and the simulator's own objects."""
    for path in (store.PATH, inventory.PATH):
        await kube.delete(path)
    for collection in (POOLS, NODES):
        for item in (await kube.request("GET", collection))["items"]:
            path = f"{collection}/{item['metadata']['name']}"
            await kube.delete(path)
            with suppress(KubeError):  # gone with the deletion, unless it had a finalizer
                await kube.merge(path, {"metadata": {"finalizers": None}})
    await kube.delete(EVENTS)


async def eventually(condition: Callable[[], Awaitable[T]], seconds: float = 15) -> T:
    """Wait until it is true and give what it answered; AssertionError with its last answer."""
    end = time.monotonic() + seconds
    while not (found := await condition()):
        assert time.monotonic() < end, f"still {found!r} after {seconds} s"
        await asyncio.sleep(0.05)
    return found


class Pools:
    """NodePools by their names."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def create(self, name: str = "pool", **spec: Any) -> dict[str, Any]:
        """One CPU node, unless the spec says otherwise."""
        full = {"instanceType": CPU, **({} if "targetRacks" in spec else {"targetNodes": 1}), **spec}
        body = {"apiVersion": "compute.coreweave.com/v1alpha1", "kind": "NodePool", "metadata": {"name": name}}
        return await self._kube.create(POOLS, {**body, "spec": full})

    async def patch(self, name: str = "pool", **spec: Any) -> dict[str, Any]:
        return await self._kube.merge(f"{POOLS}/{name}", {"spec": spec})

    async def get(self, name: str = "pool") -> dict[str, Any] | None:
        return await self._kube.get(f"{POOLS}/{name}")

    async def delete(self, name: str = "pool") -> None:
        await self._kube.request("DELETE", f"{POOLS}/{name}")

    async def status(self, name: str = "pool") -> Mapping[str, Any]:
        return ((await self.get(name)) or {}).get("status") or {}

    async def counts(self, name: str = "pool") -> tuple[int, int, int]:
        """Current, in progress, queued; -1 where there is no status."""
        status = await self.status(name)
        return status.get("currentNodes", -1), status.get("inProgress", -1), status.get("queuedNodes", -1)

    async def events(self) -> list[str]:
        """Reasons, of all NodePools."""
        items = (await self._kube.request("GET", EVENTS))["items"]
        return [item["reason"] for item in items if item["involvedObject"]["kind"] == "NodePool"]

    async def settings(self, **data: Any) -> None:
        """Replace the simulator's settings: nodePools={...}, defaults={...}."""

        def edit(document: store.Document) -> None:
            document.settings = data

        await store.change(self._kube, edit)
