"""A worker Pod on a node whose Tasks Docker runs: where they lie, and what GPUs they get."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from iris_runtimes.docker import DockerRuntime
from iris_runtimes.docker.pod_context import slice_path
from iris_runtimes.errors import NodeFault
from iris_runtimes.protocol import CgroupParent, Device, Mount, PodContext, SandboxSpec
from tests.unit.iris_runtimes.docker.fake_engine import FakeEngine

IMAGE, UID = "registry.test/iris/task:1", "3f0c0a2e-6a7c-4d6c-9d3c-3b1f7b6c5a10"
LABELS = {"io.kubernetes.pod.uid": UID, "io.kubernetes.docker.type": "container"}
AGENT = {
    "HostConfig": {
        "CgroupParent": f"/kubepods/pod{UID}",
        "Devices": [{"PathOnHost": "/dev/nvidia0", "PathInContainer": "/dev/nvidia0", "CgroupPermissions": "mrw"}],
    },
    "Config": {"Labels": LABELS, "Env": ["NVIDIA_VISIBLE_DEVICES=GPU-a"], "Image": "registry.test:5000/iris/agent:1"},
    "Mounts": [{"Type": "bind", "Source": "/data", "Destination": "/var/lib/iris/host/data", "RW": False}],
}
PAUSE = {
    "HostConfig": {},
    "Config": {"Labels": {**LABELS, "io.kubernetes.docker.type": "podsandbox"}, "Image": "pause"},
}
SLICE = "kubepods-pod3f0c0a2e.slice"
PATH = f"/kubepods.slice/{SLICE}"


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncIterator[FakeEngine]:
    async with FakeEngine(tmp_path / "docker.sock", images={IMAGE: "sha256:" + "a" * 64}).serving() as one:
        yield one


def spec(tmp_path: Path, cgroup: CgroupParent, **more: Any) -> SandboxSpec:
    return SandboxSpec("task-t-1", IMAGE, tmp_path / "log", cgroup, command=["true"], **more)


async def test_by_the_engines_own_record(engine: FakeEngine, tmp_path: Path) -> None:
    engine.kubelets = {"pause": PAUSE, "agent": AGENT}
    runtime = DockerRuntime(str(engine.socket))
    try:
        found = await runtime.pod_context(UID)
        await runtime.start(spec(tmp_path, found.cgroup))
        assert engine.bodies["task-t-1"]["HostConfig"]["CgroupParent"] == f"/kubepods/pod{UID}"
        await runtime.remove("task-t-1")
    finally:
        await runtime.close()
    assert found == PodContext(
        CgroupParent(f"/kubepods/pod{UID}"),
        (Device("/dev/nvidia0", "/dev/nvidia0", "mrw"),),
        {"NVIDIA_VISIBLE_DEVICES": "GPU-a"},
        "registry.test:5000",
        (Mount("/data", "/var/lib/iris/host/data", True),),
    )


CGROUPS: dict[str, tuple[CgroupParent, str, str]] = {
    "both systemd": (CgroupParent(SLICE, systemd=True), "systemd", SLICE),
    "both cgroupfs": (CgroupParent("/kubepods/pod1"), "cgroupfs", "/kubepods/pod1"),
    "the kubelet's systemd": (CgroupParent(SLICE, systemd=True), "cgroupfs", PATH),
}


@pytest.mark.parametrize("name", CGROUPS)
async def test_by_the_kubelets_other_runtime(engine: FakeEngine, tmp_path: Path, name: str) -> None:
    kubelets_cgroup, driver, expected = CGROUPS[name]

    async def kubelets(pod_uid: str) -> PodContext:
        assert pod_uid == UID
        return PodContext(kubelets_cgroup, network_namespace="/proc/7/ns/net")

    engine.info["CgroupDriver"] = driver
    runtime = DockerRuntime(str(engine.socket), kubelets=kubelets)
    try:
        found = await runtime.pod_context(UID)
        assert found.network_namespace == ""
        await runtime.start(spec(tmp_path, found.cgroup))
        assert engine.bodies["task-t-1"]["HostConfig"]["CgroupParent"] == expected
        await runtime.remove("task-t-1")
    finally:
        await runtime.close()


async def test_what_can_not_be_bounded_is_not_begun(engine: FakeEngine) -> None:
    async def kubelets(_: str) -> PodContext:
        return PodContext(CgroupParent("/kubepods/pod1"))

    engine.info["CgroupDriver"] = "systemd"
    told, untold = DockerRuntime(str(engine.socket), kubelets=kubelets), DockerRuntime(str(engine.socket))
    try:
        with pytest.raises(NodeFault, match="the same driver"):
            await told.pod_context(UID)
        with pytest.raises(NodeFault, match="knows a container of Pod"):
            await untold.pod_context(UID)
    finally:
        await told.close()
        await untold.close()


def test_where_systemd_keeps_a_slice() -> None:
    assert slice_path("a-b-c.slice") == "/a.slice/a-b.slice/a-b-c.slice"


async def test_gpus_by_the_engine_or_as_device_nodes(engine: FakeEngine, tmp_path: Path) -> None:
    nodes = (Device("/dev/null", "/dev/nvidia0"), Device("/dev/null", "/dev/nvidiactl"))
    runtime = DockerRuntime(str(engine.socket))
    try:
        assert (await runtime.gpu_way(["GPU-a"], nodes)).startswith("device nodes")
        await runtime.start(spec(tmp_path, CgroupParent(""), gpus=["GPU-a"], gpu_devices=nodes))
        made = engine.bodies["task-t-1"]["HostConfig"]
        assert [one["PathInContainer"] for one in made["Devices"]] == ["/dev/nvidia0", "/dev/nvidiactl"]
        assert made["DeviceRequests"] == []
        await runtime.remove("task-t-1")
        with pytest.raises(NodeFault, match="no runtime nvidia"):
            await runtime.start(spec(tmp_path, CgroupParent(""), gpus=["GPU-a"]))
        engine.info["Runtimes"]["nvidia"] = {}
        await runtime.start(spec(tmp_path, CgroupParent(""), gpus=["GPU-a"], gpu_devices=nodes))
        made = engine.bodies["task-t-1"]["HostConfig"]
        assert (made["Devices"], made["DeviceRequests"][0]["DeviceIDs"]) == ([], ["GPU-a"])
        assert await runtime.gpu_way(["GPU-a"], nodes) == "the Engine's NVIDIA driver"
        await runtime.remove("task-t-1")
    finally:
        await runtime.close()
