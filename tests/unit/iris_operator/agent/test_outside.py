"""The agent on a machine without Kubernetes: who it is, where its Tasks' cgroups go, and the unit that starts it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from iris_operator.agent.agent import Agent
from iris_operator.agent.config import AgentConfig, ConfigError, from_environment
from iris_operator.agent.node.outside import (
    as_in_a_pod,
    cgroup_parent,
    gpu_devices,
    machine,
    memory_bytes,
    memory_for_secrets,
)
from iris_operator.api.core import Lease
from iris_operator.api.machine import machine_of
from iris_operator.api.names import ANNOTATION_AGENT_PROBLEM
from iris_runtimes.containerd.driver import ContainerdRuntime
from iris_runtimes.docker.driver import DockerRuntime
from iris_runtimes.enroot.driver import EnrootRuntime
from iris_runtimes.protocol import CgroupParent, Runtime
from tests.unit.iris_operator.agent.harness import Node

_SAID = {"NODE_NAME": "m1", "POD_NAMESPACE": "iris", "IRIS_SLICE": "machines"}
_UNITS = Path(__file__).parents[4] / "runtimes" / "systemd"


def test_who_it_is() -> None:
    found = as_in_a_pod(_SAID, "abc")
    config = from_environment(found)
    assert (config.node_name, config.pod_name, config.rank) == ("m1", "machines-worker-0", 0)
    assert str(uuid.UUID(config.pod_uid)) == config.pod_uid
    assert as_in_a_pod(_SAID, "abc") == found  # after a restart it is the same worker


@pytest.mark.parametrize("other", [{"IRIS_RANK": "1"}, {"IRIS_SLICE": "x"}, {"POD_NAMESPACE": "y"}])
def test_another_worker_has_another_uid(other: dict[str, str]) -> None:
    assert as_in_a_pod({**_SAID, **other}, "abc")["POD_UID"] != as_in_a_pod(_SAID, "abc")["POD_UID"]
    assert as_in_a_pod(_SAID, "def")["POD_UID"] != as_in_a_pod(_SAID, "abc")["POD_UID"]


def test_what_is_said_stays() -> None:
    assert (
        as_in_a_pod({**_SAID, "POD_UID": "u", "POD_NAME": "p"}, "abc").items()
        >= {"POD_UID": "u", "POD_NAME": "p"}.items()
    )


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="POD_NAME, POD_NAMESPACE, IRIS_SLICE"):
        from_environment(as_in_a_pod({"NODE_NAME": "m1"}, "abc"))


@pytest.mark.parametrize(
    ("wanted", "systemd", "parent"),
    [
        ("", True, CgroupParent("iris-tasks.slice", systemd=True)),
        ("", False, CgroupParent("/iris-tasks")),
        ("other.slice", False, CgroupParent("other.slice", systemd=True)),
        ("/a/b", True, CgroupParent("/a/b")),
    ],
)
def test_cgroups(wanted: str, systemd: bool, parent: CgroupParent) -> None:
    assert cgroup_parent(wanted, systemd=systemd) == parent


_RUN, _DISK = "tmpfs /run tmpfs rw 0 0", "/dev/vda1 / ext4 rw 0 0"


@pytest.mark.parametrize(
    ("mounts", "found"),
    [((_DISK, _RUN), 1), ((_DISK,), 0), ((_DISK, _RUN, "/dev/vdb1 /run/iris ext4 rw 0 0"), 0), ((), 0)],
)
def test_secrets_files_lie_in_memory_or_nowhere(mounts: tuple[str, ...], found: int) -> None:
    assert len(memory_for_secrets("\n".join(mounts))) == found


def test_gpus_of_the_machine() -> None:
    found = gpu_devices(["nvidia0", "nvidiactl", "null", "nvidia-uvm", "nvidia-caps", "nvidia10"])
    assert [one.host_path for one in found] == ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia10", "/dev/nvidiactl"]


def test_what_is_said_of_the_machine() -> None:
    config = from_environment(as_in_a_pod({**_SAID, "HOST_IP": "192.0.2.1", "IRIS_STREAM_PORT": "7"}, "abc"))
    found = machine({"IRIS_MEMORY": "200Gi"}, config, 2)
    assert (found.node_name, found.address, found.stream_port) == ("m1", "192.0.2.1", 7)
    assert found.capacity == {"cpu": str(os.cpu_count()), "memory": "200Gi", "nvidia.com/gpu": "2"}
    assert "nvidia.com/gpu" not in machine({}, config, 0).capacity
    assert memory_bytes("MemTotal:       2 kB\nMemFree: 1 kB\n") == 2048


async def test_its_lease_is_its_worker(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.set_up()
    said = {"NODE_NAME": "node-1", "POD_NAMESPACE": "default", "IRIS_SLICE": "s", "IRIS_OUTSIDE": "kubeconfig"}
    config = from_environment(as_in_a_pod({**said, "IRIS_CACHE_DIR": str(tmp_path), "HOST_IP": "192.0.2.1"}, "abc"))
    agent, stop = Agent(config, node.api, node.runtime), asyncio.Event()
    running = asyncio.create_task(agent.run(stop))
    try:
        lease = Lease.parse(await node.lease())
    finally:
        stop.set()
        await running
    found = machine_of(lease)
    assert found is not None
    assert (found.node_name, found.address, lease.spec.holder_identity) == ("node-1", "192.0.2.1", config.pod_uid)
    assert lease.metadata.owner_references == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze (Debian: package systemd)")
def test_units_are_valid(tmp_path: Path) -> None:
    for unit in ("iris-agent.service", "iris-tasks.slice"):
        text = (_UNITS / unit).read_text()
        (tmp_path / unit).write_text(text.replace("/usr/local/bin/iris-agent", "/bin/true"))  # it must be executable
    command = [
        "systemd-analyze",
        "verify",
        "--man=no",
        str(tmp_path / "iris-agent.service"),
        str(tmp_path / "iris-tasks.slice"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if "iris-" in line]
    assert (done.returncode, said) == (0, []), done.stderr


def test_the_example_says_all_that_is_needed() -> None:
    lines = re.findall(r"^([A-Z_]+)=(.+)$", (_UNITS / "agent.env.example").read_text(), re.MULTILINE)
    config = from_environment(as_in_a_pod({"NODE_NAME": "m1", **dict(lines)}, "abc"))
    assert config.runtime == "containerd"
    assert config.images_dir == Path("/var/lib/containerd")


_ABSENT: dict[str, tuple[Callable[[Path], Runtime], str]] = {
    "containerd": (
        lambda folder: ContainerdRuntime(str(folder / "absent.sock")),
        "containerd does not answer: connecting to",
    ),
    "docker": (
        lambda folder: DockerRuntime(str(folder / "absent.sock")),
        "Docker Engine does not answer: No such file",
    ),
    "enroot": (lambda folder: EnrootRuntime("absent-enroot", folder / "enroot"), "absent-enroot can't be run"),
}


@pytest.mark.parametrize("name", _ABSENT)
async def test_a_runtime_that_is_not_there_is_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By /health, and by the Lease: the Pod itself only isn't ready."""
    monkeypatch.setattr("iris_operator.agent.agent._LATE_SECONDS", 0.05)
    monkeypatch.setattr("iris_operator.agent.node.lease.RENEW_SECONDS", 0.1)
    make, word = _ABSENT[name]
    node = Node(tmp_path)
    await node.set_up()
    runtime = make(tmp_path)
    config = AgentConfig("node-1", "s-worker-0", "default", node.pod_uid, "", "s", 0, cache_dir=tmp_path)
    agent, stop = Agent(config, node.api, runtime), asyncio.Event()
    running = asyncio.create_task(agent.run(stop))
    try:
        async with asyncio.timeout(20):
            said = ""
            while word not in said:
                await asyncio.sleep(0.05)
                said = (await node.lease())["metadata"]["annotations"].get(ANNOTATION_AGENT_PROBLEM, "")
        assert "node-1" in said
        assert word in agent.health_problem()
    finally:
        stop.set()
        await running
        await runtime.close()
