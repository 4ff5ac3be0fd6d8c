"""The device plugin's contract over real gRPC sockets, with a kubelet's half played by the test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from iris_devcluster.coreweave.device_plugin import deviceplugin_pb2 as pb
from iris_devcluster.coreweave.device_plugin import deviceplugin_pb2_grpc as rpc
from iris_devcluster.coreweave.device_plugin.manager import DeviceManager
from iris_devcluster.coreweave.plan import DeviceOffer
from iris_devcluster.coreweave.testing import eventually

GPU = "nvidia.com/gpu"


class Kubelet(rpc.RegistrationServicer):  # type: ignore[misc]
    """Takes registrations and then asks the plugins, as a kubelet does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.endpoints: dict[str, str] = {}

    async def Register(self, request: Any, context: Any) -> Any:  # noqa: N802
        assert request.version == "v1beta1"
        self.endpoints[request.resource_name] = request.endpoint
        return pb.Empty()

    @asynccontextmanager
    async def plugin(self, resource: str = GPU) -> AsyncIterator[Any]:
        handle = os.open(self.folder, os.O_PATH)
        address = f"unix:/proc/self/fd/{handle}/{self.endpoints[resource]}"
        async with grpc.aio.insecure_channel(address) as channel:
            yield rpc.DevicePluginStub(channel)
        os.close(handle)

    async def has(self, *resources: str) -> bool:
        return set(self.endpoints) == set(resources)


@asynccontextmanager
async def kubelet(folder: Path) -> AsyncIterator[Kubelet]:
    """A kubelet that starts: it empties the folder and listens on a new socket."""
    for old in folder.iterdir():
        old.unlink()
    found = Kubelet(folder)
    server = grpc.aio.server()
    rpc.add_RegistrationServicer_to_server(found, server)
    handle = os.open(folder, os.O_PATH)  # a socket's path may have 107 bytes, the folder of a test more
    server.add_insecure_port(f"unix:/proc/self/fd/{handle}/kubelet.sock")
    await server.start()
    try:
        yield found
    finally:
        await server.stop(grace=None)
        os.close(handle)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "plugins"
    found.mkdir()
    return found


async def first(stub: Any) -> list[tuple[str, str]]:
    async for answer in stub.ListAndWatch(pb.Empty()):
        return [(one.ID, one.health) for one in answer.devices]
    raise AssertionError("the stream ended")


async def test_registers_lists_and_allocates(folder: Path) -> None:
    async with kubelet(folder) as node, DeviceManager(lambda name: folder) as manager:
        await manager.sync({"n": DeviceOffer(gpus=8, rdma=4)})
        await eventually(lambda: node.has(GPU, "rdma/ib"))
        async with node.plugin() as stub:
            devices = await first(stub)
            assert len({one for one, _ in devices}) == 8
            assert {health for _, health in devices} == {"Healthy"}
            asked = pb.ContainerAllocateRequest(devices_ids=[devices[3][0], devices[1][0]])
            (share,) = (await stub.Allocate(pb.AllocateRequest(container_requests=[asked]))).container_responses
            assert share.envs == {"NVIDIA_VISIBLE_DEVICES": f"{devices[1][0]},{devices[3][0]}"}
            assert [(one.container_path, one.host_path, one.permissions) for one in share.devices] == [
                (path, "/dev/null", "rw")
                for path in ("/dev/nvidia1", "/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm")
            ]
        async with node.plugin("rdma/ib") as stub:
            assert len(await first(stub)) == 4


async def test_ids_last_and_differ_between_nodes(folder: Path) -> None:
    async def ids(name: str) -> set[str]:
        async with kubelet(folder) as node, DeviceManager(lambda _: folder) as manager:
            await manager.sync({name: DeviceOffer(gpus=2)})
            await eventually(lambda: node.has(GPU))
            async with node.plugin() as stub:
                return {one for one, _ in await first(stub)}

    assert await ids("a") == await ids("a")
    assert not await ids("a") & await ids("b")


async def test_an_unknown_device_is_refused(folder: Path) -> None:
    async with kubelet(folder) as node, DeviceManager(lambda name: folder) as manager:
        await manager.sync({"n": DeviceOffer(gpus=1)})
        await eventually(lambda: node.has(GPU))
        async with node.plugin() as stub:
            asked = pb.ContainerAllocateRequest(devices_ids=["GPU-of-someone-else"])
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stub.Allocate(pb.AllocateRequest(container_requests=[asked]))
            assert error.value.code() is grpc.StatusCode.NOT_FOUND


CHANGES: dict[str, tuple[DeviceOffer, list[str]]] = {
    "one is lost": (DeviceOffer(gpus=2), ["Healthy"] * 2),
    "all are lost": (DeviceOffer(), []),
    "one is sick": (DeviceOffer(gpus=3, sick_gpus=1), ["Healthy", "Healthy", "Unhealthy"]),
}


@pytest.mark.parametrize(("offer", "expected"), CHANGES.values(), ids=CHANGES)
async def test_a_watching_kubelet_hears_of_changes(folder: Path, offer: DeviceOffer, expected: list[str]) -> None:
    async with kubelet(folder) as node, DeviceManager(lambda name: folder) as manager:
        await manager.sync({"n": DeviceOffer(gpus=3)})
        await eventually(lambda: node.has(GPU))
        async with node.plugin() as stub:
            stream = stub.ListAndWatch(pb.Empty())
            assert len((await stream.read()).devices) == 3
            await manager.sync({"n": offer})
            async with asyncio.timeout(5):
                assert [one.health for one in (await stream.read()).devices] == expected


async def test_a_node_without_gpus_registers_nothing(folder: Path) -> None:
    async with kubelet(folder) as node, DeviceManager(lambda name: folder) as manager:
        await manager.sync({"n": DeviceOffer(gpus=0, rdma=1)})
        await eventually(lambda: node.has("rdma/ib"))
        await asyncio.sleep(0.3)
        assert set(node.endpoints) == {"rdma/ib"}


async def test_registers_again_with_a_kubelet_that_restarts(folder: Path) -> None:
    async with DeviceManager(lambda name: folder) as manager:
        await manager.sync({"n": DeviceOffer(gpus=1)})  # before there is any kubelet
        for _ in range(2):
            async with kubelet(folder) as node:
                await eventually(lambda node=node: node.has(GPU))  # type: ignore[misc]
                async with node.plugin() as stub:
                    assert len(await first(stub)) == 1


async def test_a_deep_folder(tmp_path: Path) -> None:
    """A socket's own path may have 107 bytes only."""
    deep = tmp_path / ("x" * 60) / ("y" * 60) / "device-plugins"
    deep.mkdir(parents=True)
    async with kubelet(deep) as node, DeviceManager(lambda name: deep) as manager:
        await manager.sync({"n": DeviceOffer(gpus=1)})
        await eventually(lambda: node.has(GPU))


async def test_stops_when_the_node_goes(folder: Path) -> None:
    async with kubelet(folder) as node, DeviceManager(lambda name: folder) as manager:
        await manager.sync({"n": DeviceOffer(gpus=1)})
        await eventually(lambda: node.has(GPU))
        await manager.sync({})
        assert not (folder / node.endpoints[GPU]).exists()
