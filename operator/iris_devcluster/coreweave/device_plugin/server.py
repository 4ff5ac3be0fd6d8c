"""One device plugin: serves one resource of one node on a socket beside the kubelet's, and registers itself there."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from iris_devcluster.coreweave.device_plugin import deviceplugin_pb2 as pb
from iris_devcluster.coreweave.device_plugin import deviceplugin_pb2_grpc as rpc
from iris_devcluster.coreweave.device_plugin.devices import Device, allocation

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)

VERSION = "v1beta1"
KUBELET_SOCKET = "kubelet.sock"
_REGISTER_SECONDS = 5
_LOOK_SECONDS = 1.0


class DevicePlugin:
    """Call `serve` until the kubelet's socket changes, then again: a kubelet forgets plugins when it starts."""

    def __init__(self, folder: Path, resource: str, devices: Sequence[Device]) -> None:
        self._folder = folder
        self._resource = resource
        self._devices = list(devices)
        self._changed = asyncio.Condition()

    @property
    def endpoint(self) -> str:
        """File name of the plugin's socket."""
        return "iris-" + self._resource.replace("/", "-").replace(".", "-") + ".sock"

    async def update(self, devices: Sequence[Device]) -> None:
        """Tell a watching kubelet of other devices or other health."""
        if list(devices) == self._devices:
            return
        async with self._changed:
            self._devices = list(devices)
            self._changed.notify_all()

    async def serve(self) -> None:
        """Register and answer until cancelled or until the kubelet's socket is replaced.

        Raises OSError when there is no kubelet, grpc.aio.AioRpcError when it refuses.
        """
        generation = socket_id(self._folder / KUBELET_SOCKET)
        with _short(self._folder) as short:
            server = grpc.aio.server()
            rpc.add_DevicePluginServicer_to_server(_Servicer(self), server)
            server.add_insecure_port(f"unix:{short}/{self.endpoint}")
            await server.start()
            try:
                await self._register(short)
                await self._until_replaced(generation)
            finally:
                await server.stop(grace=None)

    async def _until_replaced(self, generation: tuple[int, int]) -> None:
        """Until the kubelet's socket is another, or ours is gone: a starting kubelet empties the folder first."""
        kubelet, own = self._folder / KUBELET_SOCKET, self._folder / self.endpoint
        # Nothing tells us of it without inotify; a stat a second costs nothing.
        while socket_id(kubelet) == generation and own.exists():  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)

    async def _register(self, short: str) -> None:
        options = [("grpc.enable_http_proxy", 0)]
        async with grpc.aio.insecure_channel(f"unix:{short}/{KUBELET_SOCKET}", options=options) as channel:
            await rpc.RegistrationStub(channel).Register(
                pb.RegisterRequest(
                    version=VERSION,
                    endpoint=self.endpoint,
                    resource_name=self._resource,
                    options=pb.DevicePluginOptions(),
                ),
                timeout=_REGISTER_SECONDS,
            )
        log.info("%s: %d of %s registered", self._folder.parents[1].name, len(self._devices), self._resource)

    async def listing(self) -> AsyncIterator[list[Device]]:
        """The devices now, and again whenever they change."""
        while True:
            current = self._devices
            yield current
            async with self._changed:
                while self._devices is current:
                    await self._changed.wait()

    def allocate(self, ids: Sequence[str]) -> pb.ContainerAllocateResponse:
        """One container's share; LookupError names an id that isn't ours."""
        unknown = set(ids) - {device.id for device in self._devices}
        if unknown:
            raise LookupError(f"no {self._resource} {', '.join(sorted(unknown))}")
        share = allocation(self._resource, ids, self._devices)
        return pb.ContainerAllocateResponse(
            envs=dict(share.env),
            devices=[
                pb.DeviceSpec(container_path=inside, host_path=outside, permissions="rw")
                for inside, outside in share.paths
            ],
        )


class _Servicer(rpc.DevicePluginServicer):  # type: ignore[misc]
    """gRPC's face of a DevicePlugin; method names are the protocol's."""

    def __init__(self, plugin: DevicePlugin) -> None:
        self._plugin = plugin

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> pb.DevicePluginOptions:  # noqa: N802
        return pb.DevicePluginOptions()

    async def ListAndWatch(self, request: Any, context: Any) -> AsyncIterator[pb.ListAndWatchResponse]:  # noqa: N802
        async for devices in self._plugin.listing():
            rows = [pb.Device(ID=one.id, health="Healthy" if one.healthy else "Unhealthy") for one in devices]
            yield pb.ListAndWatchResponse(devices=rows)

    async def Allocate(self, request: Any, context: Any) -> pb.AllocateResponse:  # noqa: N802
        try:
            shares = [self._plugin.allocate(one.devices_ids) for one in request.container_requests]
        except LookupError as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        return pb.AllocateResponse(container_responses=shares)


def socket_id(path: Path) -> tuple[int, int]:
    """Inode and change time of a socket: another kubelet, another pair. OSError when there is none."""
    found = path.stat()
    return found.st_ino, found.st_ctime_ns


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A short path to the folder: a socket's path may have 107 bytes, and roots of clusters can be deep."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)
