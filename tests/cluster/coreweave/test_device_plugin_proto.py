"""Our few messages are the kubelet's own: names, numbers and types, compared with the published module."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from iris_devcluster.coreweave.device_plugin import deviceplugin_pb2


def published() -> Path:
    cache = Path(os.environ.get("GOMODCACHE") or Path(os.environ.get("GOPATH") or Path.home() / "go") / "pkg" / "mod")
    found = sorted(cache.glob("k8s.io/kubelet@*/pkg/apis/deviceplugin/v1beta1/api.proto"))
    if not found:
        pytest.skip("the Go module k8s.io/kubelet is not in the module cache: building the cluster's programs puts it")
    return found[-1]


def fields(file: FileDescriptorProto) -> dict[str, tuple[int, int, int, str]]:
    rows = [(message, field) for message in file.message_type for field in message.field]
    return {f"{one.name}.{field.name}": (field.number, field.type, field.label, field.type_name) for one, field in rows}


def methods(file: FileDescriptorProto) -> dict[str, tuple[str, str, bool]]:
    rows = [(service, method) for service in file.service for method in service.method]
    return {
        f"{one.name}.{method.name}": (method.input_type, method.output_type, method.server_streaming)
        for one, method in rows
    }


def test_the_same_as_upstream(tmp_path: Path) -> None:
    source = published()
    out = tmp_path / "descriptors"
    well_known = str(resources.files("grpc_tools") / "_proto")
    command = ["protoc", f"-I{source.parent}", f"-I{well_known}", f"--descriptor_set_out={out}", source.name]
    assert protoc.main(command) == 0
    (upstream,) = FileDescriptorSet.FromString(out.read_bytes()).file
    ours = FileDescriptorProto()
    deviceplugin_pb2.DESCRIPTOR.CopyToProto(ours)
    assert ours.package == upstream.package
    assert fields(ours).items() <= fields(upstream).items()
    assert methods(ours).items() <= methods(upstream).items()
