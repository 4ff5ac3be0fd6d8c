"""The seccomp profile's shape, the Pod's context and the memory's facts."""

from __future__ import annotations

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage

from iris_runtimes.containerd.exits import memory_facts
from iris_runtimes.containerd.pod_context import parse_cgroup, parse_context
from iris_runtimes.containerd.proto import cgroups_v1_pb2, cgroups_v2_pb2
from iris_runtimes.containerd.seccomp import default_profile
from iris_runtimes.protocol import CgroupParent, Mount


@pytest.mark.parametrize(
    ("machine", "architecture"), [("x86_64", "SCMP_ARCH_X86_64"), ("aarch64", "SCMP_ARCH_AARCH64")]
)
def test_profile(machine: str, architecture: str) -> None:
    found = default_profile(machine)
    assert found is not None
    assert architecture in found["architectures"]
    allowed = set(found["syscalls"][0]["names"])
    assert {"read", "execve", "futex"} <= allowed
    assert not allowed & {"mount", "unshare", "bpf", "clone", "clone3", "socket", "keyctl", "init_module"}


def test_no_profile_for_an_unknown_machine() -> None:
    assert default_profile("pdp11") is None


@pytest.mark.parametrize(
    ("path", "parent"),
    [
        ("/kubepods/burstable/pod1/abc", CgroupParent("/kubepods/burstable/pod1")),
        ("kubepods-pod1.slice:cri-containerd:abc", CgroupParent("kubepods-pod1.slice", systemd=True)),
    ],
)
def test_cgroup_of_the_pod(path: str, parent: CgroupParent) -> None:
    assert parse_cgroup(path) == parent


def test_a_bare_container() -> None:
    found = parse_context({"linux": {"cgroupsPath": "/a/b"}}, "agent")
    assert (found.devices, dict(found.env), found.image_registry) == ((), {}, "")


def test_what_of_the_node_it_sees() -> None:
    """Binds by the node's own paths; what is mounted by type is its container's own."""
    mounts = [
        {"type": "proc", "source": "proc", "destination": "/proc"},
        {"type": "bind", "source": "/node/a", "destination": "/a/", "options": ["rbind", "rw"]},
        {"type": "bind", "source": "/node/b", "destination": "/b", "options": ["rbind", "ro"]},
    ]
    found = parse_context({"linux": {"cgroupsPath": "/a/b"}, "mounts": mounts})
    assert found.mounts == (Mount("/node/a", "/a"), Mount("/node/b", "/b", read_only=True))


def test_memory_of_cgroup_v1() -> None:
    metrics = cgroups_v1_pb2.Metrics()
    metrics.memory_oom_control.oom_kill = 2
    metrics.memory.usage.max = 4096
    data = AnyMessage(type_url="io.containerd.cgroups.v1.Metrics", value=metrics.SerializeToString())
    assert memory_facts(data) == (2, 4096)


def test_memory_of_cgroup_v2() -> None:
    metrics = cgroups_v2_pb2.Metrics()
    metrics.memory_events.oom_kill = 1
    data = AnyMessage(
        type_url="type.googleapis.com/io.containerd.cgroups.v2.Metrics", value=metrics.SerializeToString()
    )
    assert memory_facts(data) == (1, None)


def test_memory_of_something_else() -> None:
    assert memory_facts(AnyMessage(type_url="windows")) == (0, None)
