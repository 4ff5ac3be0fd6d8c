"""The loop: something changed or is due, so look, plan, apply, and wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import yaml

from iris_devcluster.coreweave import catalogue
from iris_devcluster.coreweave.controller.apply import NODES, POOLS, Writer
from iris_devcluster.coreweave.controller.idle import nodes_in_use
from iris_devcluster.coreweave.controller.steps import Steps
from iris_devcluster.coreweave.controller.watch import Store
from iris_devcluster.coreweave.device_plugin.manager import DeviceManager
from iris_devcluster.coreweave.host import NodeHost
from iris_devcluster.coreweave.inventory import Inventory
from iris_devcluster.coreweave.kube import KubeClient, KubeError
from iris_devcluster.coreweave.model import NodeFact, Pool, Snapshot
from iris_devcluster.coreweave.plan import Plan, make_plan
from iris_devcluster.coreweave.plan.allocation import allocate
from iris_devcluster.coreweave.settings import CONFIG_MAP, KEY, NAMESPACE, Settings, SettingsError, parse

log = logging.getLogger(__name__)

_QUIET_SECONDS = 0.05  # several changes at once make one plan
_LONGEST_WAIT_SECONDS = 30.0
_IDLE_CHECK_SECONDS = 2.0  # how soon a scale-down notices that a node has become idle
_RETRY_SECONDS = 1.0


class Controller:
    """The simulated CoreWeave on one API server and one host of nodes. `run` until cancelled."""

    def __init__(self, kube: KubeClient, host: NodeHost) -> None:
        self._kube = kube
        self._host = host
        self._wake = asyncio.Event()
        self._pools = Store(kube, POOLS, self._wake.set)
        self._nodes = Store(kube, NODES, self._wake.set)
        config_maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        self._config = Store(kube, config_maps, self._wake.set, fields=f"metadata.name={CONFIG_MAP}")
        self._inventory = Inventory(kube)
        self._steps = Steps(host, self._inventory, self._wake.set)
        self._writer = Writer(kube, self._pools)
        self._settings = Settings()

    async def run(self) -> None:
        """Keep the world as the NodePools say; errors of the API are waited out."""
        async with DeviceManager(self._host.device_plugin_dir) as devices, asyncio.TaskGroup() as group:
            for store in (self._pools, self._nodes, self._config):
                group.create_task(store.run())
            for store in (self._pools, self._nodes, self._config):
                await store.filled.wait()
            await self._load_inventory()
            try:
                while True:
                    await self._once(devices)
            finally:
                await asyncio.shield(self._steps.finish())

    async def _once(self, devices: DeviceManager) -> None:
        self._wake.clear()
        try:
            plan = await self._reconcile(devices)
            seconds = self._wait_seconds(plan)
        except KubeError as error:
            log.warning("%s", error)
            await asyncio.sleep(_RETRY_SECONDS)
            await self._load_inventory()
            return
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
            await asyncio.sleep(_QUIET_SECONDS)
        except TimeoutError:
            return

    async def _reconcile(self, devices: DeviceManager) -> Plan:
        snapshot = await self._look()
        plan = make_plan(snapshot, datetime.now(UTC))
        # The records first, with no await since the snapshot: a step that ends now must find them.
        await self._inventory.write(plan.records)
        await self._writer.before_steps(plan)
        self._steps.start(plan.steps)
        await devices.sync(plan.devices)
        await self._writer.after_steps(plan)
        return plan

    async def _look(self) -> Snapshot:
        running = frozenset(await asyncio.to_thread(self._host.node_names))
        snapshot = self._snapshot(running, frozenset())
        if any(grant.surplus for grant in allocate(snapshot).values()):
            in_use = await nodes_in_use(self._kube)
            snapshot = self._snapshot(running, in_use)
        return snapshot

    def _snapshot(self, running: frozenset[str], in_use: frozenset[str]) -> Snapshot:
        """No await in here: everything in it is of one moment."""
        self._read_settings()
        nodes = [NodeFact.from_api(body) for body in self._nodes.items.values() if has_registered(body)]
        return Snapshot(
            pools=tuple(Pool.from_api(body) for body in self._pools.items.values()),
            machines=dict(self._inventory.machines),
            nodes={node.name: node for node in nodes},
            running=running,
            settings=self._settings,
            catalogue=catalogue.load(),
            host=self._host.size(),
            in_use=in_use,
            busy=self._steps.busy,
        )

    def _read_settings(self) -> None:
        text = ((self._config.items.get(CONFIG_MAP) or {}).get("data") or {}).get(KEY, "")
        try:
            self._settings = parse(yaml.safe_load(text))
        except (SettingsError, yaml.YAMLError) as error:
            log.warning("ConfigMap %s is not understood, the last good settings hold: %s", CONFIG_MAP, error)

    async def _load_inventory(self) -> None:
        while True:
            try:
                return await self._inventory.load()
            except KubeError as error:
                log.warning("%s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    def _wait_seconds(self, plan: Plan) -> float:
        seconds = _LONGEST_WAIT_SECONDS
        if plan.wake_at is not None:
            seconds = min(seconds, max(0.0, (plan.wake_at - datetime.now(UTC)).total_seconds()))
        over = any(_reason(status, "AtTarget") == "OverTarget" for status in self._statuses())
        return min(seconds, _IDLE_CHECK_SECONDS) if over else seconds

    def _statuses(self) -> list[Mapping[str, Any]]:
        return [body.get("status") or {} for body in self._pools.items.values()]


def has_registered(node: Mapping[str, Any]) -> bool:
    """Whether a kubelet has filled the Node in; the object alone may have been made before the machine booted."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return bool(info.get("kubeletVersion"))


def _reason(status: Mapping[str, Any], kind: str) -> str:
    return next((str(row.get("reason")) for row in status.get("conditions") or [] if row["type"] == kind), "")
