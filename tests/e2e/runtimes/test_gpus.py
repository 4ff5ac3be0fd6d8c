"""A Task's GPUs in a real container, as the agent asks for them: only those it was given, by whatever the node has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iris_operator.agent.node.gpus import inventory
from iris_operator.agent.sandbox.spec import Place, sandbox_spec
from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.execution import ExecRequest
from iris_runtimes.lifecycle import run_command
from iris_runtimes.protocol import CgroupParent, Device, PodContext, SandboxSpec
from tests.contracts.runtime import ended
from tests.e2e.runtimes.conftest import IMAGE, own_capabilities, started
from tests.e2e.runtimes.private_containerd import PrivateContainerd
from tests.unit.iris_operator.agent.build import NOW, POD_UID, task

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

_SYS_RESOURCE = 1 << 24
# As a device plugin gives a worker Pod its GPUs, and InfiniBand; every one is /dev/null on the host.
NODES = ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "infiniband/uverbs0")
WORKER = PodContext(
    CgroupParent("/x"),
    tuple(Device("/dev/null", f"/dev/{name}") for name in NODES),
    {"NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b,GPU-c"},
)
SCRIPT = """
ls /dev | grep nvidia
cat /usr/lib/libcuda.so 2>/dev/null || echo no library
ls /dev/infiniband 2>/dev/null || echo no InfiniBand
echo $NVIDIA_CTK $NVIDIA_VISIBLE_DEVICES
"""


def asked(containerd: PrivateContainerd, tmp_path: Path, taken: list[str], *, rdma: bool = False) -> SandboxSpec:
    """What the agent asks for a Task of one GPU, while other Tasks have `taken`."""
    grant = inventory(WORKER).grant(1, rdma, taken)
    place = Place("s", "n", POD_UID, CgroupParent(containerd.cgroup))
    one = task(image=IMAGE, command=["sh", "-c", SCRIPT])
    return sandbox_spec(one, place, grant, "sha256:1", tmp_path / "task" / "output.log", NOW)


async def said(runtime: ContainerdRuntime, spec: SandboxSpec) -> list[str]:
    await runtime.start(spec)
    await ended(runtime, spec.id)
    await runtime.remove(spec.id)
    return spec.log_path.read_text().splitlines()


def describe(tmp_path: Path) -> None:
    """As nvidia-ctk does: counted otherwise than in /dev, one for all, a library and a hook for every container."""
    (tmp_path / "libcuda.so").write_text("the driver's library\n")
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ncat >/dev/null\necho ran >{tmp_path}/hooked\n")
    hook.chmod(0o755)

    def device(name: str, *numbers: int) -> dict[str, object]:
        nodes = [{"path": f"/dev/nvidia{number}", "hostPath": "/dev/null"} for number in numbers]
        return {"name": name, "containerEdits": {"deviceNodes": nodes}}

    library = {"hostPath": f"{tmp_path}/libcuda.so", "containerPath": "/usr/lib/libcuda.so", "options": ["ro", "bind"]}
    body = {
        "cdiVersion": "0.6.0",
        "kind": "nvidia.com/gpu",
        "devices": [device("0", 2), device("1", 1), device("2", 0), device("all", 0, 1, 2)],
        "containerEdits": {
            "env": ["NVIDIA_CTK=1"],
            "deviceNodes": [{"path": "/dev/nvidiactl", "hostPath": "/dev/null"}],
            "mounts": [library],
            "hooks": [{"hookName": "createContainer", "path": str(hook), "args": ["hook", "update-ldcache"]}],
        },
    }
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi" / "nvidia.json").write_text(json.dumps(body))


async def test_by_cdi(containerd: PrivateContainerd, runtime: ContainerdRuntime, tmp_path: Path) -> None:
    describe(tmp_path)
    spec = asked(containerd, tmp_path, ["GPU-a"])
    assert await runtime.gpu_way(spec.gpus, spec.gpu_devices) == "CDI"
    lines = await said(runtime, spec)  # InfiniBand's devices were not asked for
    assert lines == ["nvidia1", "nvidiactl", "the driver's library", "no InfiniBand", "1 void"]
    assert (tmp_path / "hooked").read_text() == "ran\n"


async def test_as_device_nodes(containerd: PrivateContainerd, runtime: ContainerdRuntime, tmp_path: Path) -> None:
    rdma = bool(
        own_capabilities() & _SYS_RESOURCE
    )  # it comes with the right to pin all memory, which is not ours to give
    spec = asked(containerd, tmp_path, ["GPU-b", "GPU-a"], rdma=rdma)
    assert (await runtime.gpu_way(spec.gpus, spec.gpu_devices)).startswith("device nodes")
    assert await said(runtime, spec) == [
        "nvidia2",
        "nvidiactl",
        "no library",
        "uverbs0" if rdma else "no InfiniBand",
        "GPU-c",
    ]


@pytest.fixture
def with_nvidia(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateContainerd]:
    """A containerd whose settings for the kubelet name NVIDIA's runtime, and a stand-in of that: it is runc, and says so."""
    folder = tmp_path_factory.mktemp("nvidia")
    program = folder / "nvidia-container-runtime"
    program.write_text(f'#!/bin/sh\necho "$@" >>{folder}/calls\nexec runc "$@"\n')
    program.chmod(0o755)
    kubelets = (
        "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]\n"
        "  runtime_type = 'io.containerd.runc.v2'\n"
        "  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]\n"
        f"    BinaryName = '{program}'\n"
    )
    with started(folder, "nvidia", kubelets) as containerd:
        yield containerd


async def test_by_nvidias_runtime(with_nvidia: PrivateContainerd, tmp_path: Path) -> None:
    driver = ContainerdRuntime(
        str(with_nvidia.socket),
        with_nvidia.namespace,
        cdi_folders=[],
        exec_folder=tmp_path / "exec",
        node_capabilities=own_capabilities(),
    )
    program = with_nvidia.folder / "nvidia-container-runtime"
    spec = asked(with_nvidia, tmp_path, [])
    spec = replace(spec, command=["sh", "-c", "ls /dev | grep nvidia; echo $NVIDIA_VISIBLE_DEVICES; exec sleep 1000"])
    try:
        assert await driver.gpu_way(spec.gpus, spec.gpu_devices) == f"NVIDIA's runtime {program}"
        await driver.start(spec)
        assert (await run_command(driver, spec.id, ExecRequest(["true"]), 20)).exit_code == 0
    finally:
        await driver.remove(spec.id)
        await driver.close()
    assert spec.log_path.read_text() == "GPU-a\n"  # the runtime adds the devices: none is given beside it
    assert " create " in (with_nvidia.folder / "calls").read_text()
