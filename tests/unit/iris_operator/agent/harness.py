"""An agent on a fake API server and a fake runtime, with what tests ask of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.agent.agent import Agent
from iris_operator.agent.config import AgentConfig
from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import LEASES, PODS, TASKS, KubeApi
from iris_runtimes.fake import FakeRuntime
from tests.unit.iris_operator.agent.build import NODE, POD, task_body


async def until(holds: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.005)


class Node:
    """One node: its API server, runtime and log folder outlive agents, which come and go by `agent`.

    `api` is the fake unless another is given; `fake` is for what only a fake can do and tell.
    """

    def __init__(self, folder: Path, api: KubeApi | None = None, namespace: str = "default") -> None:
        self.fake = FakeKube()
        self.api: KubeApi = api or self.fake
        self.namespace = namespace
        self.runtime = FakeRuntime()
        self.folder = folder
        self.pod_uid = ""

    async def set_up(self) -> None:
        """Make the worker Pod."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": POD},
            "spec": {
                "nodeName": NODE,
                "terminationGracePeriodSeconds": 20,
                "containers": [{"name": "agent", "image": "iris/agent:test"}],
            },
        }
        self.pod_uid = (await self.api.create(PODS, pod, self.namespace))["metadata"]["uid"]

    @contextlib.asynccontextmanager
    async def agent(self, *, ready: bool = True, address: str = "", host_network: bool = True) -> AsyncIterator[Agent]:
        """An agent that runs; at the end it is told to end, as by SIGTERM."""
        (self.folder / "image-busybox").write_text("a static busybox")
        config = AgentConfig(
            NODE,
            POD,
            self.namespace,
            self.pod_uid,
            address,
            "s",
            0,
            host_network=host_network,
            cache_dir=self.folder,
            busybox=self.folder / "image-busybox",
        )
        agent, stop = Agent(config, self.api, self.runtime), asyncio.Event()
        running = asyncio.create_task(agent.run(stop))
        try:
            if ready:
                await until(lambda: agent.metrics.api_writes["patch", "leases"] or running.done())
            yield agent
        finally:
            stop.set()
            await running

    async def bind(self, name: str = "t", command: tuple[str, ...] = ("true",), **spec: Any) -> str:
        """Make a Task bound to this worker; its uid."""
        body = task_body(name, command, **spec)
        body["spec"]["binding"]["workerUid"] = self.pod_uid
        return str((await self.api.create(TASKS, body, self.namespace))["metadata"]["uid"])

    async def task(self, name: str = "t") -> dict[str, Any] | None:
        """The Task, None when it is gone."""
        try:
            return await self.api.get(TASKS, name, self.namespace)
        except NotFoundError:
            return None

    async def phase(self, wanted: str, name: str = "t") -> dict[str, Any]:
        """Wait for a phase; the status."""
        async with asyncio.timeout(10):
            while True:
                found = await self.task(name)
                status: dict[str, Any] = (found or {}).get("status") or {}
                if status.get("phase") == wanted:
                    return status
                await asyncio.sleep(0.005)

    async def over(self, attempt: int = 1, name: str = "t") -> dict[str, Any]:
        """Wait until that attempt is over; the status."""
        async with asyncio.timeout(10):
            while True:
                found = await self.task(name)
                status: dict[str, Any] = (found or {}).get("status") or {}
                if status.get("endedAttempt") == attempt:
                    return status
                await asyncio.sleep(0.005)

    async def stop(self, reason: str, name: str = "t") -> None:
        """As the operator has an attempt stopped."""
        await self.api.patch(TASKS, name, {"spec": {"binding": {"stopReason": reason}}}, namespace=self.namespace)

    async def unbind(self, name: str = "t") -> None:
        """As the operator frees a Task whose attempt is over."""
        patch = {"metadata": {"finalizers": []}, "spec": {"binding": None}}
        await self.api.patch(TASKS, name, patch, namespace=self.namespace)

    def write_log(self, uid: str, text: str, attempt: int = 1) -> Path:
        """As a shim does; the folder of the Task's logs."""
        path = self.folder / "logs" / uid / str(attempt) / "output.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path.parent.parent

    async def gone(self, name: str = "t") -> None:
        """Wait until the Task is gone."""
        async with asyncio.timeout(10):
            while await self.task(name) is not None:
                await asyncio.sleep(0.005)

    def status_writes(self, name: str = "t") -> int:
        """Patches of that Task's status so far."""
        return self.fake.writes.count(("patch", "tasks/status", name))

    async def lease(self) -> dict[str, Any]:
        """The agent's Lease, once it is there."""
        async with asyncio.timeout(10):
            while True:
                try:
                    return await self.api.get(LEASES, POD, self.namespace)
                except NotFoundError:
                    await asyncio.sleep(0.005)
