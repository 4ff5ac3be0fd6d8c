"""What the agent learns of its own Pod, from containerd's namespace of the kubelet."""

from __future__ import annotations

import json
from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage

from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.containerd.oci_spec import SPEC_TYPE
from iris_runtimes.containerd.proto import containers_pb2, containers_pb2_grpc
from iris_runtimes.errors import NodeFault
from iris_runtimes.protocol import CgroupParent, Device
from tests.e2e.runtimes.private_containerd import PrivateContainerd

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

UID = "3f0c0a2e-6a7c-4d6c-9d3c-3b1f7b6c5a10"
SPEC = {
    "process": {"env": ["NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2", "EMPTY="]},
    "linux": {
        "cgroupsPath": f"/kubepods/pod{UID}/0123abcd",
        "namespaces": [{"type": "pid"}, {"type": "network", "path": "/proc/7/ns/net"}],
        "devices": [{"path": "/dev/null"}, {"path": "/dev/nvidia0"}, {"path": "/dev/infiniband/uverbs0"}],
    },
}


@pytest.fixture
def kubelets(containerd: PrivateContainerd) -> Iterator[None]:
    """The Pod's containers as the kubelet makes them: its sandbox, ours, and another Pod's."""
    kinds = {"sandbox": (UID, "sandbox"), "agent": (UID, "container"), "other": ("other", "container")}
    metadata = (("containerd-namespace", "k8s.io"),)
    with grpc.insecure_channel(
        f"unix:{containerd.socket}", options=[("grpc.default_authority", "localhost")]
    ) as channel:
        stub = containers_pb2_grpc.ContainersStub(channel)
        for name, (uid, kind) in kinds.items():
            spec = SPEC if name == "agent" else {"linux": {"cgroupsPath": "/wrong/one"}}
            container = containers_pb2.Container(
                id=name,
                image="registry.iris:5000/iris/agent:1",
                labels={"io.kubernetes.pod.uid": uid, "io.cri-containerd.kind": kind},
                runtime=containers_pb2.Container.Runtime(name="io.containerd.runc.v2"),
                spec=AnyMessage(type_url=SPEC_TYPE, value=json.dumps(spec).encode()),
            )
            stub.Create(containers_pb2.CreateContainerRequest(container=container), metadata=metadata)
        yield
        for name in kinds:
            stub.Delete(containers_pb2.DeleteContainerRequest(id=name), metadata=metadata)


@pytest.mark.usefixtures("kubelets")
async def test_it_is_read_from_our_own_container(runtime: ContainerdRuntime) -> None:
    found = await runtime.pod_context(UID)
    assert found.cgroup == CgroupParent(f"/kubepods/pod{UID}")
    assert [one.host_path for one in found.devices] == ["/dev/nvidia0", "/dev/infiniband/uverbs0"]
    assert found.devices[0] == Device("/dev/nvidia0", "/dev/nvidia0", "rw")
    assert found.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"
    assert found.network_namespace == "/proc/7/ns/net"
    assert found.image_registry == "registry.iris:5000"


async def test_no_such_pod(runtime: ContainerdRuntime) -> None:
    with pytest.raises(NodeFault, match="no-such-uid"):
        await runtime.pod_context("no-such-uid")
