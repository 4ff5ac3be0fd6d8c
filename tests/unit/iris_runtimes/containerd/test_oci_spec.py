from __future__ import annotations

from typing import Any

import pytest

from iris_runtimes.containerd.devices import DeviceNode, look_at_device
from iris_runtimes.containerd.image_config import User
from iris_runtimes.containerd.oci_spec import (
    build_spec,
    cgroups_path,
    environment,
    process_args,
)
from iris_runtimes.errors import InvalidSpec, NodeFault
from iris_runtimes.protocol import CgroupParent, Device, Mount
from tests.unit.iris_runtimes.containerd.build import config, spec

GPU = DeviceNode(Device("/dev/nvidia3", "/dev/nvidia0"), "c", 195, 3)


def built(cgroup_v2: bool = False, **changes: Any) -> dict[str, Any]:
    return build_spec(spec(**changes), config(), User(), [], cgroup_v2=cgroup_v2)


@pytest.mark.parametrize(
    ("command", "args", "entrypoint", "cmd", "expected"),
    [
        ((), (), ("e",), ("c",), ["e", "c"]),
        ((), ("a",), ("e",), ("c",), ["e", "a"]),
        (("x",), (), ("e",), ("c",), ["x"]),
        (("x",), ("a",), ("e",), ("c",), ["x", "a"]),
        ((), (), (), ("c",), ["c"]),
    ],
)
def test_arguments_follow_kubernetes(
    command: tuple[str, ...],
    args: tuple[str, ...],
    entrypoint: tuple[str, ...],
    cmd: tuple[str, ...],
    expected: list[str],
) -> None:
    assert process_args(spec(command=command, args=args), config(entrypoint=entrypoint, cmd=cmd)) == expected


@pytest.mark.parametrize("command", [(), ("x",)])
def test_words_before_the_command(command: tuple[str, ...]) -> None:
    own = config(entrypoint=("e",), cmd=("c",))
    assert process_args(spec(command=command, before=["b", "-"]), own) == ["b", "-", *(command or ("e", "c"))]


def test_nothing_to_run_is_the_users_fault() -> None:
    with pytest.raises(InvalidSpec, match="give a command"):
        process_args(spec(command=()), config())


def test_environment_of_the_image_then_of_the_task() -> None:
    found = environment(spec(env=[("B", "task"), ("C", "1"), ("C", "2")]), config(env=("A=image", "B=image", "EMPTY")))
    assert found[1:] == ["A=image", "B=task", "EMPTY=", "C=2"]
    assert found[0].startswith("PATH=/usr/local/sbin:")


def test_the_images_path_replaces_the_default() -> None:
    assert environment(spec(), config(env=("PATH=/opt/bin",))) == ["PATH=/opt/bin"]


@pytest.mark.parametrize(
    ("parent", "path"),
    [
        (CgroupParent("/kubepods/pod1"), "/kubepods/pod1/iris-a"),
        (CgroupParent("/"), "/iris-a"),
        (CgroupParent("kubepods-pod1.slice", systemd=True), "kubepods-pod1.slice:iris:a"),
    ],
)
def test_cgroup_below_the_pods(parent: CgroupParent, path: str) -> None:
    assert cgroups_path(parent, "a") == path


def test_limits() -> None:
    found = built(cpu_request_millicores=250, cpu_limit_millicores=1500, memory_limit_bytes=2**30, pids_limit=7)
    resources = found["linux"]["resources"]
    assert resources["cpu"] == {"shares": 256, "quota": 150_000, "period": 100_000}
    assert resources["memory"] == {"limit": 2**30, "swap": 2**30}
    assert resources["pids"] == {"limit": 7}


def test_no_limits() -> None:
    resources = built()["linux"]["resources"]
    assert resources["cpu"] == {"shares": 2}
    assert "memory" not in resources


def test_a_tiny_cpu_limit_is_the_kernels_least() -> None:
    assert built(cpu_limit_millicores=1)["linux"]["resources"]["cpu"]["quota"] == 1000


def test_devices_are_denied_but_for_the_usual_and_the_given() -> None:
    found = build_spec(spec(), config(), User(), [GPU], cgroup_v2=False)
    rules = found["linux"]["resources"]["devices"]
    assert rules[0] == {"allow": False, "access": "rwm"}
    assert rules[-1] == {"allow": True, "type": "c", "major": 195, "minor": 3, "access": "rw"}
    assert found["linux"]["devices"] == [
        {"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 3, "fileMode": 0o666}
    ]


def test_a_device_is_looked_at() -> None:
    assert look_at_device(Device("/dev/null", "/dev/x")) == DeviceNode(Device("/dev/null", "/dev/x"), "c", 1, 3)


@pytest.mark.parametrize("path", ["/dev/none", "/etc/passwd"])
def test_no_device_is_the_nodes_fault(path: str) -> None:
    with pytest.raises(NodeFault):
        look_at_device(Device(path, path))


@pytest.mark.parametrize("cgroup_v2", [False, True])
def test_the_network_is_the_nodes(cgroup_v2: bool) -> None:
    found = built(cgroup_v2)
    kinds = [one["type"] for one in found["linux"]["namespaces"]]
    assert kinds == ["pid", "ipc", "uts", "mount", *(["cgroup"] if cgroup_v2 else [])]
    binds = {one["destination"]: one["options"] for one in found["mounts"] if one["type"] == "bind"}
    assert binds == {path: ["rbind", "rprivate", "ro"] for path in ("/etc/resolv.conf", "/etc/hosts")}


def test_mounts_come_after_the_usual() -> None:
    found = built(mounts=[Mount("/data", "/mnt"), Mount("/more", "/ro", read_only=True)])
    assert [(one["source"], one["options"][-1]) for one in found["mounts"][-2:]] == [("/data", "rw"), ("/more", "ro")]


def test_a_mount_of_our_own_replaces_the_nodes_file() -> None:
    found = built(mounts=[Mount("/etc/pod-resolv.conf", "/etc/resolv.conf", read_only=True)])
    sources = [one["source"] for one in found["mounts"] if one["destination"] == "/etc/resolv.conf"]
    assert sources == ["/etc/pod-resolv.conf"]


def test_fenced_in() -> None:
    found = built()
    process = found["process"]
    assert process["noNewPrivileges"]
    assert set(process["capabilities"]) == {"bounding", "effective", "permitted"}
    assert "CAP_SYS_ADMIN" not in process["capabilities"]["bounding"]
    assert found["linux"]["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"


@pytest.mark.parametrize(("wanted", "found"), [("", "task-1-1"), ("rank-0", "rank-0")])
def test_hostname(wanted: str, found: str) -> None:
    assert built(hostname=wanted)["hostname"] == found


@pytest.mark.parametrize(("task", "image", "found"), [("", "", "/"), ("", "/app", "/app"), ("/work", "/app", "/work")])
def test_working_directory(task: str, image: str, found: str) -> None:
    made = build_spec(spec(working_dir=task), config(working_dir=image), User(), [], cgroup_v2=False)
    assert made["process"]["cwd"] == found
