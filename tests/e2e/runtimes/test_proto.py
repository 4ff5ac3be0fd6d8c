"""Our .proto files are an extract of the vendor's: every message, field, enum and method that we declare is theirs."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from iris_runtimes.containerd import proto

pytestmark = pytest.mark.cluster  # needs no cluster, but the network: `go mod download`

_API = "github.com/containerd/containerd/api"
_CGROUPS = "github.com/containerd/cgroups/v3"
_CRI = "k8s.io/cri-api"
_VERSIONS = {_API: "v1.10.0", _CGROUPS: "v3.1.2", _CRI: "v0.36.3"}
_FOREIGN_IMPORT = "google/rpc/status.proto"  # of the introspection service, which we don't call

Facts = dict[str, str]


def _module_folder(module: str, version: str, scratch: Path) -> Path:
    command = ["go", "mod", "download", "-json", f"{module}@{version}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=scratch, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return Path(json.loads(done.stdout)["Dir"])


def _compile(modules: dict[str, Path], scratch: Path) -> FileDescriptorSet:
    files = []
    for name, folder in modules.items():
        link = scratch / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)
        protos = [path for path in folder.rglob("*.proto") if _FOREIGN_IMPORT not in path.read_text()]
        files += [str(link / path.relative_to(folder)) for path in protos]
    out = scratch / "vendor.pb"
    includes = [f"-I{scratch}", f"-I{resources.files('grpc_tools') / '_proto'}"]
    assert protoc.main(["protoc", *includes, f"--descriptor_set_out={out}", *files]) == 0
    return FileDescriptorSet.FromString(out.read_bytes())


def _facts(files: list[FileDescriptorProto]) -> Facts:
    found: Facts = {}
    for file in files:
        for message in file.message_type:
            found.update(_message_facts(message, file.package))
        for enum in file.enum_type:
            found.update(_enum_facts(enum, file.package))
        for service in file.service:
            for method in service.method:
                streams = (method.client_streaming, method.server_streaming)
                found[f"{file.package}.{service.name}/{method.name}"] = (
                    f"{method.input_type} {method.output_type} {streams}"
                )
    return found


def _message_facts(message: DescriptorProto, scope: str) -> Iterator[tuple[str, str]]:
    name = f"{scope}.{message.name}"
    yield name, "message"
    for field in message.field:
        oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else ""
        yield f"{name}.{field.name}", f"{field.number} {field.type} {field.label} {field.type_name} {oneof}"
    for inner in message.nested_type:
        yield from _message_facts(inner, name)
    for enum in message.enum_type:
        yield from _enum_facts(enum, name)


def _enum_facts(enum: EnumDescriptorProto, scope: str) -> Iterator[tuple[str, str]]:
    for value in enum.value:
        yield f"{scope}.{enum.name}.{value.name}", str(value.number)


def _ours() -> Facts:
    files = []
    for module in pkgutil.iter_modules(proto.__path__):
        if module.name.endswith("_pb2"):
            descriptor = importlib.import_module(f"{proto.__name__}.{module.name}").DESCRIPTOR
            files.append(FileDescriptorProto.FromString(descriptor.serialized_pb))
    return _facts(files)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    scratch = tmp_path_factory.mktemp("vendor")
    modules = {name: _module_folder(name, version, scratch) for name, version in _VERSIONS.items()}
    return _facts(list(_compile(modules, scratch).file))


def test_all_that_we_declare_is_the_vendors(theirs: Facts) -> None:
    ours = _ours()
    assert len(ours) > 200  # the stubs were found
    wrong = {name: f"{fact} here, {theirs.get(name, 'nothing')} there" for name, fact in ours.items()
             if theirs.get(name) != fact}  # fmt: skip
    assert not wrong


def test_a_wrong_number_would_be_found(theirs: Facts) -> None:
    assert theirs["containerd.services.tasks.v1.CreateTaskRequest.rootfs"].startswith("3 ")
    assert "containerd.services.tasks.v1.CreateTaskRequest.no_such_field" not in theirs
