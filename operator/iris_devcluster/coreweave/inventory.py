"""The machines that NodePools hold, in a ConfigMap: what survives the simulator itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from iris_devcluster.coreweave.kube import KubeClient, KubeError
from iris_devcluster.coreweave.model import Machine
from iris_devcluster.coreweave.settings import NAMESPACE

CONFIG_MAP = "coreweave-machines"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"


class Inventory:
    """Only the one running simulator writes it; a failed write leaves memory and API apart until `load`."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self._machines: dict[str, Machine] = {}
        self._lock = asyncio.Lock()

    @property
    def machines(self) -> Mapping[str, Machine]:
        """By name."""
        return MappingProxyType(self._machines)

    async def load(self) -> None:
        """Forget what is in memory and read the API, which must answer."""
        body = await self._kube.get(PATH)
        self._machines = parse(body)

    async def write(self, records: Iterable[Machine], gone: Iterable[str] = ()) -> None:
        """Put and drop records, in memory and in the API."""
        names = []
        for machine in records:
            self._machines[machine.name] = machine
            names.append(machine.name)
        for name in gone:
            self._machines.pop(name, None)
            names.append(name)
        if names:
            # One write at a time, each with what is then in memory: a late answer can't bring an old record back.
            async with self._lock:
                await self._send({name: self._machines.get(name) for name in names})

    async def _send(self, records: Mapping[str, Machine | None]) -> None:
        patch = {name: json.dumps(machine.to_data()) if machine else None for name, machine in records.items()}
        try:
            await self._kube.merge(PATH, {"data": patch})
        except KubeError as error:
            if error.status != 404:
                raise
            first = {name: text for name, text in patch.items() if text is not None}
            await self._kube.create(PATH.rpartition("/")[0], {"metadata": {"name": CONFIG_MAP}, "data": first})


def parse(body: Mapping[str, Any] | None) -> dict[str, Machine]:
    """Machines of the ConfigMap's JSON."""
    data = (body or {}).get("data") or {}
    return {name: Machine.from_data(name, json.loads(text)) for name, text in data.items()}
