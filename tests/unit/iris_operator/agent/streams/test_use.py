"""What a node and its Tasks use, and its images."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from iris_operator.agent.streams import images
from iris_operator.agent.streams.node_use import cpu_use, disk_use, gpu_use, memory_use, network_use
from iris_runtimes.protocol import Image
from tests.unit.iris_operator.agent.streams.kit import UID, StreamNode

STAT = "cpu  100 0 50 800 50 0 10 0 7 0\ncpu0 50 0 25 400 25 0 5 0 0 0\ncpu1 50 0 25 400 25 0 5 0 0 0\nintr 5\n"
NET = """Inter-|   Receive                          |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0
  eth0:1000 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0
  ib0: 500 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0
 veth1: 777 1 0 0 0 0 0 0 777 1 0 0 0 0 0 0
"""


def test_the_kernels_files() -> None:
    assert cpu_use(STAT) == {"cpuSeconds": 1.6, "cpuCores": 2}
    assert memory_use("MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable: 60 kB\n") == {
        "memoryBytes": 40 * 1024, "memoryTotalBytes": 100 * 1024,
    }  # fmt: skip
    assert network_use(NET) == {"receivedBytes": 1500, "sentBytes": 25}
    assert disk_use(4096, 100, 40, 30) == {"diskBytes": 60 * 4096, "diskTotalBytes": 90 * 4096}


def test_nvidia_smis_words() -> None:
    assert gpu_use("GPU-a, 97, 1000, 81559\nGPU-b, [N/A], 5, 81559\n\nNo devices were found\n") == [
        {"id": "GPU-a", "utilizationPercent": 97, "memoryBytes": 1000 * 2**20, "memoryTotalBytes": 81559 * 2**20},
        {"id": "GPU-b", "memoryBytes": 5 * 2**20, "memoryTotalBytes": 81559 * 2**20},
    ]


async def test_a_task(node: StreamNode) -> None:
    await node.start(memory_limit_bytes=2**30)
    node.write(b"12345")
    status, body = await node.get(f"/v1/tasks/{UID}/1/stats")
    found = json.loads(body)
    assert status == 200 and found.pop("at")
    assert found == {
        "name": "t", "namespace": "default", "uid": UID, "attempt": 1, "cpuSeconds": 0.5, "memoryBytes": 2**20,
        "workingSetBytes": 2**19, "memoryLimitBytes": 2**30, "memoryPeakBytes": 2**21, "pids": 1, "gpus": [],
        "gpuUse": [], "logBytes": 5,
    }  # fmt: skip


async def test_a_task_that_does_not_run_uses_nothing(node: StreamNode) -> None:
    assert (await node.refused("GET", f"/v1/tasks/{UID}/1/stats"))[0] == 404
    await node.start(command=["true"])
    assert (await node.refused("GET", f"/v1/tasks/{UID}/1/stats"))[0] == 409


async def test_the_node_and_all_that_runs(node: StreamNode) -> None:
    node.gpus = 8
    await node.start("a", gpus="GPU-a,GPU-b")  # whose image has no nvidia-smi that says anything
    await node.start("b", uid="11111111-aaa1-4e3e-be79-27a1842a2106")
    await node.start("over", uid="22222222-aaa1-4e3e-be79-27a1842a2106", command=["true"])
    status, body = await node.get("/v1/stats")
    found = json.loads(body)
    assert status == 200
    assert [(one["name"], one["gpus"]) for one in found["tasks"]] == [("a", ["GPU-a", "GPU-b"]), ("b", [])]
    assert found["node"] == "n" and found["gpus"] == 8 and found["gpuUse"] == []
    assert found["cpuCores"] > 0 and 0 < found["memoryBytes"] < found["memoryTotalBytes"]
    assert 0 < found["diskBytes"] <= found["diskTotalBytes"] and found["receivedBytes"] >= 0


async def test_images(node: StreamNode) -> None:
    async with node.session.post("/v1/images?image=a:1&secret=one&secret=two") as response:
        lines = (await response.read()).splitlines()
    assert json.loads(lines[-1]) == {"image": "a:1", "digest": "sha256:" + "0" * 64}
    assert node.asked_secrets == ["one", "two"]
    [image] = json.loads((await node.get("/v1/images"))[1])
    assert (image["image"], image["sizeBytes"], image["inUse"]) == ("a:1", 2**20, False)
    async with node.session.delete("/v1/images?image=a:1") as response:
        assert response.status == 200
    assert json.loads((await node.get("/v1/images"))[1]) == []


async def test_images_that_are_not_to_be_had_or_stay(node: StreamNode) -> None:
    node.runtime.missing_images.add("b:1")
    async with node.session.post("/v1/images?image=b:1") as response:
        assert json.loads(await response.read()) == {"error": "no image b:1", "reason": "ImageNotFound"}
    async with node.session.post("/v1/images?image=image"):
        pass
    await node.start()
    assert await node.refused("DELETE", "/v1/images?image=image") == (409, "image image is in use")
    assert (await node.refused("DELETE", "/v1/images"))[0] == 400
    node.runtime.break_down()
    assert (await node.refused("GET", "/v1/images"))[0] == 503


async def test_a_pull_goes_on_without_whoever_asked_and_is_found_again(
    node: StreamNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulls, may_end = 0, asyncio.Event()
    pull = node.runtime.pull

    async def slowly(*asked: Any) -> Image:
        nonlocal pulls
        pulls += 1
        await may_end.wait()
        return await pull(*asked)

    monkeypatch.setattr(node.runtime, "pull", slowly)
    monkeypatch.setattr(images, "_TELL_SECONDS", 0.01)
    async with node.session.post("/v1/images?image=a:1") as response:
        response.close()  # as the API server does after a minute
    async with node.session.post("/v1/images?image=a:1") as response:
        may_end.set()
        assert b"digest" in await response.read()
    assert pulls == 1
    async with node.session.post("/v1/images?image=a:1") as response:
        assert b"digest" in await response.read()
    assert pulls == 2
