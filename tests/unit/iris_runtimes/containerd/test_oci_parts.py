from __future__ import annotations

from typing import Any

import pytest

from iris_runtimes.containerd.devices import DeviceNode
from iris_runtimes.containerd.executor import process_spec
from iris_runtimes.containerd.image_config import User
from iris_runtimes.containerd.oci_resources import page_size, process_limits, resources
from iris_runtimes.containerd.oci_security import EVERY_CAPABILITY, capabilities
from iris_runtimes.containerd.oci_spec import build_spec
from iris_runtimes.errors import InvalidLimits, InvalidSpec
from iris_runtimes.execution import ExecRequest
from iris_runtimes.protocol import Device, Mount, Tmpfs
from iris_runtimes.sweep import MARK
from tests.unit.iris_runtimes.containerd.build import config, spec

DEFAULT = len(capabilities(spec()))


def built(**changes: Any) -> dict[str, Any]:
    return build_spec(spec(**changes), config(), User(), [], cgroup_v2=False)


@pytest.mark.parametrize(
    ("changes", "there", "count"),
    [
        ({}, "CAP_CHOWN", DEFAULT),
        ({"add_capabilities": ["IPC_LOCK"]}, "CAP_IPC_LOCK", DEFAULT + 1),
        ({"add_capabilities": ["cap_chown"]}, "CAP_CHOWN", DEFAULT),
        ({"drop_capabilities": ["CAP_NET_RAW"]}, "CAP_CHOWN", DEFAULT - 1),
        ({"drop_capabilities": ["ALL"], "add_capabilities": ["SYS_PTRACE"]}, "CAP_SYS_PTRACE", 1),
        ({"add_capabilities": ["ALL"], "drop_capabilities": ["SYS_ADMIN"]}, "CAP_BPF", 40),
        ({"privileged": True}, "CAP_CHECKPOINT_RESTORE", 41),
    ],
    ids=["default", "added", "there already", "dropped", "one alone", "all but one", "privileged"],
)
def test_capabilities(changes: dict[str, Any], there: str, count: int) -> None:
    found = capabilities(spec(**changes))
    assert there in found
    assert len(found) == len(set(found)) == count


def test_all_are_those_that_the_node_has() -> None:
    without_chown = EVERY_CAPABILITY & ~1
    assert "CAP_CHOWN" not in capabilities(spec(privileged=True), without_chown)
    assert "CAP_CHOWN" in capabilities(spec(), without_chown)  # asked for by name: the node says no itself


def test_an_unknown_capability() -> None:
    with pytest.raises(InvalidSpec, match="'FLY'"):
        capabilities(spec(drop_capabilities=["FLY"]))


def test_privileged_is_not_fenced_in() -> None:
    found = built(privileged=True)
    assert not {"seccomp", "maskedPaths", "readonlyPaths"} & set(found["linux"])
    assert found["linux"]["resources"]["devices"] == [{"allow": True, "access": "rwm"}]
    assert found["process"]["noNewPrivileges"] is False
    dev = next(one for one in found["mounts"] if one["destination"] == "/dev")
    assert (dev["type"], dev["source"]) == ("bind", "/dev")


@pytest.mark.parametrize(
    ("capability", "call", "allowed"),
    [("SYS_PTRACE", "ptrace", True), ("SYS_ADMIN", "mount", True), ("NET_ADMIN", "mount", False)],
)
def test_a_capability_opens_its_system_calls(capability: str, call: str, allowed: bool) -> None:
    rules = built(add_capabilities=[capability])["linux"]["seccomp"]["syscalls"]
    open_ones = {
        name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" and "args" not in rule for name in rule["names"]
    }
    assert (call in open_ones) is allowed


@pytest.mark.parametrize(("size", "words"), [(2**21, "2MB"), (2**30, "1GB"), (2**16, "64KB"), (2**34, "16GB")], ids=str)
def test_page_sizes(size: int, words: str) -> None:
    assert page_size(size) == words


@pytest.mark.parametrize("size", [0, -(2**21), 3 * 2**20, 100])
def test_no_page_size(size: int) -> None:
    with pytest.raises(InvalidLimits):
        page_size(size)


def test_huge_pages() -> None:
    found = resources(spec(hugepage_limits_bytes={2**30: 0, 2**21: 2**24}), [])
    assert found["hugepageLimits"] == [{"pageSize": "2MB", "limit": 2**24}, {"pageSize": "1GB", "limit": 0}]
    assert "hugepageLimits" not in resources(spec(), [])


def test_cpu_period() -> None:
    cpu = resources(spec(cpu_limit_millicores=2500, cpu_period_us=10_000), [])["cpu"]
    assert (cpu["quota"], cpu["period"]) == (25_000, 10_000)
    with pytest.raises(InvalidLimits, match="period"):
        resources(spec(cpu_limit_millicores=1, cpu_period_us=999), [])


def test_shares_stay_within_the_kernels() -> None:
    assert resources(spec(cpu_request_millicores=10**6), [])["cpu"]["shares"] == 262_144


@pytest.mark.parametrize(("path", "unlimited"), [("/dev/infiniband/uverbs3", True), ("/dev/nvidia0", False)])
def test_rdma_pins_memory(path: str, unlimited: bool) -> None:
    limits = process_limits([DeviceNode(Device(path, path), "c", 231, 1)])
    assert limits == ([{"type": "RLIMIT_MEMLOCK", "hard": 2**64 - 1, "soft": 2**64 - 1}] if unlimited else [])


def test_mounts_go_shallow_first_and_end_with_tmpfs() -> None:
    found = built(mounts=[Mount("/a", "/x/y/z"), Mount("/b", "/x/")], tmpfs=[Tmpfs("/x/y", 4096, 0o700)])["mounts"]
    assert [one["destination"] for one in found[-3:]] == ["/x/", "/x/y", "/x/y/z"]
    assert found[-2]["options"] == ["nosuid", "nodev", "mode=700", "size=4096"]


@pytest.mark.parametrize("changes", [{"shm_size_bytes": 0}, {"tmpfs": [Tmpfs("/x", 0)]}], ids=str)
def test_memory_without_a_size(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidLimits):
        built(**changes)


def test_a_mount_below_nothing() -> None:
    with pytest.raises(InvalidSpec, match="absolute"):
        built(mounts=[Mount("/a", "data")])


def test_a_network_namespace() -> None:
    found = built(network_namespace="/proc/7/ns/net")["linux"]["namespaces"]
    assert found[-1] == {"type": "network", "path": "/proc/7/ns/net"}


def test_supplemental_groups() -> None:
    body = build_spec(spec(supplemental_groups=[5, 44]), config(), User(1, 2, (44,)), [], cgroup_v2=False)
    assert body["process"]["user"]["additionalGids"] == [44, 5]


def test_an_execs_process_is_the_sandboxs_but_for_the_request() -> None:
    main = built(env=[("A", "1"), ("B", "1")], working_dir="/w")["process"]
    found = process_spec(main, ExecRequest(["ls", "-l"], env=[("B", "2")]), "exec-1")
    assert found["args"] == ["ls", "-l"]
    assert (found["cwd"], found["user"], found["noNewPrivileges"]) == ("/w", main["user"], True)
    assert {"A=1", "B=2", f"{MARK}=exec-1"} <= set(found["env"])
    assert "consoleSize" not in found


def test_an_exec_of_another_user_on_a_terminal() -> None:
    main = built()["process"]
    request = ExecRequest(["sh"], user=7, working_dir="/tmp", terminal=True, columns=90, rows=30)
    found = process_spec(main, request, "exec-2")
    assert (found["user"], found["cwd"]) == ({"uid": 7, "gid": 0}, "/tmp")
    assert (found["terminal"], found["consoleSize"]) == (True, {"width": 90, "height": 30})
    assert "TERM=xterm" in found["env"]
