"""Builders of snapshots, and a host whose nodes exist in the API only: for tests, ours and others'."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from iris_devcluster.coreweave import catalogue, settings
from iris_devcluster.coreweave.controller.apply import NODES
from iris_devcluster.coreweave.kube import KubeClient
from iris_devcluster.coreweave.model import HostSize, Machine, NodeFact, Pool, Power, Snapshot
from iris_devcluster.coreweave.plan import NodeSpec, Plan

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
H100 = "gd-8xh100ib-i128"
CPU = "cd-gp-i64-erapids"
GB200 = "gb200-4x"


def ago(seconds: float) -> datetime:
    """So long before NOW."""
    return NOW - timedelta(seconds=seconds)


def pool(name: str = "pool", nodes: int | None = 1, instance_type: str = H100, **values: Any) -> Pool:
    """A NodePool, its finalizer in place."""
    return Pool(name=name, uid=f"uid-{name}", instance_type=instance_type, target_nodes=nodes, **values)


def machine(name: str, of: Pool, **values: Any) -> Machine:
    """A machine of the NodePool: by default one that has been up for a minute."""
    default: dict[str, Any] = {"assigned_at": ago(60), "power": Power.ON, "registered": True}
    return Machine(name, of.name, of.uid, of.instance_type, **{**default, **values})


def snapshot(pools: Sequence[Pool] = (), machines: Sequence[Machine] = (), **values: Any) -> Snapshot:
    """All machines that have power run on the host, those that registered have Nodes, unless said otherwise.

    `settings` may be given as the ConfigMap's YAML, loaded.
    """
    rules = values.pop("settings", {})
    default: dict[str, Any] = {
        "nodes": {one.name: NodeFact(one.name) for one in machines if one.registered},
        "running": frozenset(one.name for one in machines if one.power is not Power.OFF or one.registered),
    }
    return Snapshot(
        pools=tuple(pools),
        machines={one.name: one for one in machines},
        settings=rules if isinstance(rules, settings.Settings) else settings.parse(rules),
        catalogue=catalogue.load(),
        host=HostSize(cpu=8, memory=32 * 2**30),
        **{**default, **values},
    )


def applied(seen: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot once the plan's records and statuses are written."""
    pools = tuple(replace(one, status=plan.statuses.get(one.name, one.status)) for one in seen.pools)
    return replace(seen, pools=pools, machines={**seen.machines, **{one.name: one for one in plan.records}})


def reasons(status: Mapping[str, Any]) -> dict[str, str]:
    """Condition type -> reason."""
    return {row["type"]: row["reason"] for row in status.get("conditions", [])}


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
