"""Keeps a device plugin going for every node that has devices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc

from iris_devcluster.coreweave.device_plugin import devices
from iris_devcluster.coreweave.device_plugin.server import DevicePlugin
from iris_devcluster.coreweave.plan import DeviceOffer

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.2  # a kubelet counts at once what registers before it is Ready, else 10 s later


@dataclass
class _Running:
    plugin: DevicePlugin
    task: asyncio.Task[None]


class DeviceManager:
    """`sync` to what is wanted as often as you like; use as an async context manager to stop all at the end."""

    def __init__(self, folder_of: Callable[[str], Path]) -> None:
        self._folder_of = folder_of
        self._running: dict[tuple[str, str], _Running] = {}

    async def __aenter__(self) -> DeviceManager:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.sync({})

    async def sync(self, offers: Mapping[str, DeviceOffer]) -> None:
        """Start, update and stop plugins so that every node advertises its offer, by node name.

        A node that never had a device registers nothing; one that loses its last keeps saying that it has none.
        """
        wanted = {(node, resource): found for node, offer in offers.items() for resource, found in _of(node, offer)}
        for key in [key for key in self._running if key not in wanted]:
            await self._stop(key)
        for key, found in wanted.items():
            running = self._running.get(key)
            if running is not None:
                await running.plugin.update(found)
            elif found:
                self._start(key, found)

    def _start(self, key: tuple[str, str], found: list[devices.Device]) -> None:
        node, resource = key
        plugin = DevicePlugin(self._folder_of(node), resource, found)
        self._running[key] = _Running(plugin, asyncio.create_task(_keep(plugin, f"{resource} of {node}")))

    async def _stop(self, key: tuple[str, str]) -> None:
        running = self._running.pop(key)
        running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)


async def _keep(plugin: DevicePlugin, what: str) -> None:
    """Serve for ever: a kubelet comes late, restarts, or is gone for a while."""
    while True:
        try:
            await plugin.serve()
        except FileNotFoundError:
            log.debug("%s: no kubelet yet", what)
        except grpc.aio.AioRpcError as error:
            log.info("%s: not registered, trying again: %s", what, error.details())
        except (OSError, RuntimeError) as error:
            # RuntimeError is how grpc says that it could not bind.
            log.info("%s: not served, trying again: %s", what, error)
        await asyncio.sleep(_RETRY_SECONDS)


def _of(node: str, offer: DeviceOffer) -> list[tuple[str, list[devices.Device]]]:
    return [
        (devices.GPU, devices.gpus(node, offer.gpus, offer.sick_gpus)),
        (devices.RDMA, devices.rdma(offer.rdma)),
    ]
