"""A host whose nodes exist in the API only."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from iris_devcluster.coreweave.controller.apply import NODES
from iris_devcluster.coreweave.kube import KubeClient
from iris_devcluster.coreweave.model import HostSize, Power
from iris_devcluster.coreweave.plan import NodeSpec


class FakeHost:
    """A NodeHost without machines: a node that boots is a Node object, Ready at once.

    Its calls come from threads, as the real host's do; the API is spoken to on the event loop that made it.
    `calls` lists what was asked, `boots` keeps each node's last spec.
    """

    def __init__(self, kube: KubeClient, folder: Path, boot_seconds: float = 0) -> None:
        self._kube = kube
        self._folder = folder
        self._loop = asyncio.get_running_loop()
        self._boot_seconds = boot_seconds
        self._lock = threading.Lock()
        self._power: dict[str, Power] = {}
        self.calls: list[tuple[str, str]] = []
        self.boots: dict[str, NodeSpec] = {}

    def boot_node(self, spec: NodeSpec) -> None:
        self._note("boot", spec.name, Power.ON)
        self.boots[spec.name] = spec
        self._run(asyncio.sleep(self._boot_seconds))
        self._run(self._register(spec))

    def remove_node(self, name: str) -> None:
        self._note("remove", name, None)
        self._run(self._kube.delete(f"{NODES}/{name}"))

    def kill_node(self, name: str) -> None:
        self._note("kill", name, Power.OFF)
        self._run(self._ready(name, "Unknown"))

    def pause_kubelet(self, name: str) -> None:
        self._note("pause", name, Power.FROZEN)
        self._run(self._ready(name, "Unknown"))

    def resume_kubelet(self, name: str) -> None:
        self._note("resume", name, Power.ON)
        self._run(self._ready(name, "True"))

    def node_names(self) -> list[str]:
        with self._lock:
            return sorted(self._power)

    def device_plugin_dir(self, name: str) -> Path:
        return self._folder / name

    def size(self) -> HostSize:
        return HostSize(cpu=8, memory=32 * 2**30)

    def _note(self, call: str, name: str, power: Power | None) -> None:
        with self._lock:
            self.calls.append((call, name))
            if power is None:
                self._power.pop(name, None)
            else:
                self._power[name] = power

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    async def _register(self, spec: NodeSpec) -> None:
        metadata = {"name": spec.name, "labels": dict(spec.labels)}
        if await self._kube.get(f"{NODES}/{spec.name}") is None:
            taints = [dict(one) for one in spec.taints]
            await self._kube.create(NODES, {"metadata": metadata, "spec": {"taints": taints}})
        info = {"nodeInfo": {**dict.fromkeys(_INFO, "fake"), "kubeletVersion": "v0.0.0-fake"}}
        await self._kube.merge(f"{NODES}/{spec.name}/status", {"status": info})
        await self._ready(spec.name, "True")

    async def _ready(self, name: str, status: str) -> None:
        conditions = [{"type": "Ready", "status": status, "reason": "Fake", "message": ""}]
        await self._kube.merge(f"{NODES}/{name}/status", {"status": {"conditions": conditions}})


_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)
