"""Limits, mounts, devices and privileges, as a command inside a real sandbox meets them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.containerd.oci_security import EVERY_CAPABILITY
from iris_runtimes.errors import InvalidLimits, InvalidSpec, NodeFault
from iris_runtimes.protocol import Device, Mount, SandboxSpec, Tmpfs
from tests.contracts.runtime import ended
from tests.e2e.runtimes.conftest import own_capabilities
from tests.e2e.runtimes.private_containerd import PrivateContainerd, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

SpecMaker = Callable[..., SandboxSpec]
MIB = 2**20
HUGE = 2 * MIB
_SYS_RESOURCE = 1 << 24


async def said(runtime: ContainerdRuntime, make_spec: SpecMaker, name: str, script: str, **more: Any) -> list[str]:
    """The lines that a shell script in a sandbox writes."""
    spec = make_spec(name, ["sh", "-c", script], **more)
    await runtime.start(spec)
    await ended(runtime, spec.id)
    return (await whole_log(runtime, spec)).splitlines()


async def whole_log(runtime: ContainerdRuntime, spec: SandboxSpec) -> str:
    """The shim copies on for a moment after the command's exit; what it still holds is written when the sandbox goes."""
    await runtime.remove(spec.id)
    return spec.log_path.read_text()


def knob(containerd: PrivateContainerd, sandbox_id: str, first: str, second: str) -> str:
    """A file of the sandbox's cgroup, by its name in cgroup v1 and v2."""
    for top in containerd.cgroups():
        for name in (first, second):
            found = top / f"iris-{sandbox_id}" / name
            if found.exists():
                return found.read_text().strip()
    raise LookupError(first)


async def test_cpu_period_quota_and_shares(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    spec = make_spec(
        "slice", ["sleep", "1000"], cpu_request_millicores=2000, cpu_limit_millicores=1500, cpu_period_us=20_000
    )
    await runtime.start(spec)
    quota = knob(containerd, spec.id, "cpu.cfs_quota_us", "cpu.max")
    assert quota.split()[0] == "30000"
    assert knob(containerd, spec.id, "cpu.cfs_period_us", "cpu.max").split()[-1] == "20000"
    # v2's weight is runc's translation of 2048 shares
    assert knob(containerd, spec.id, "cpu.shares", "cpu.weight") in ("2048", "79")


async def test_processes_are_limited(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; wait"
    lines = await said(runtime, make_spec, "forks", script, pids_limit=5)
    assert any("fork" in line for line in lines)


async def test_shared_memory_has_its_size(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    script = "exec 2>/dev/null; df -k /dev/shm | tail -1; head -c 9000000 /dev/zero >/dev/shm/x || echo full"
    lines = await said(runtime, make_spec, "shm", script, shm_size_bytes=8 * MIB)
    assert lines[0].split()[1] == "8192"
    assert lines[-1] == "full"


async def test_mounts_and_tmpfs(runtime: ContainerdRuntime, make_spec: SpecMaker, tmp_path: Path) -> None:
    for name in ("rw", "ro"):
        (tmp_path / name).mkdir()
    told = ["echo x >/mnt/ro/file || echo refused", "df -k /mnt/rw/ram | tail -1", "stat -c %a /mnt/rw/ram"]
    script = "; ".join(["exec 2>/dev/null", "echo x >/mnt/rw/file", *told])
    lines = await said(
        runtime, make_spec, "mounts", script,
        # the deeper is named first: it must still be mounted last
        tmpfs=[Tmpfs("/mnt/rw/ram", 3 * MIB, 0o750)],
        mounts=[Mount(str(tmp_path / "ro"), "/mnt/ro", read_only=True), Mount(str(tmp_path / "rw"), "/mnt/rw")],
    )  # fmt: skip
    assert (tmp_path / "rw" / "file").read_text() == "x\n"
    assert list((tmp_path / "ro").iterdir()) == []
    assert "refused" in lines
    assert next(line for line in lines if "/mnt/rw/ram" in line).split()[1] == "3072"
    assert lines[-1] == "750"


@pytest.mark.parametrize(
    "limits",
    [
        {"hugepage_limits_bytes": {3: 4}},
        {"shm_size_bytes": 0},
        {"cpu_limit_millicores": 100, "cpu_period_us": 7},
        {"tmpfs": [Tmpfs("/x", -1)]},
    ],
    ids=["pages of 3 bytes", "no shm", "a period too short", "less than nothing"],
)
async def test_limits_that_cant_be(runtime: ContainerdRuntime, make_spec: SpecMaker, limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidLimits):
        await runtime.start(make_spec("never", ["true"], **limits))


async def test_huge_pages(containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = make_spec("huge", ["sleep", "1000"], hugepage_limits_bytes={HUGE: 4 * HUGE})
    if not _counts_huge_pages():  # as on this machine: said, not passed over
        with pytest.raises(InvalidLimits, match="huge pages"):
            await runtime.start(spec)
        return
    await runtime.start(spec)
    limit = knob(containerd, spec.id, "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max")
    assert limit == str(4 * HUGE)


def _counts_huge_pages() -> bool:
    v2 = Path("/sys/fs/cgroup/cgroup.controllers")
    return "hugetlb" in v2.read_text().split() if v2.exists() else Path("/sys/fs/cgroup/hugetlb").is_dir()


CAPABILITIES = "grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status"


async def test_capabilities(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    admin = await said(
        runtime,
        make_spec,
        "admin",
        f"{CAPABILITIES}; mount -t tmpfs x /tmp && echo mounted",
        add_capabilities=["SYS_ADMIN"],
    )
    assert "mounted" in admin
    bare = await said(runtime, make_spec, "bare", CAPABILITIES, drop_capabilities=["ALL"])
    assert bare[0].split() == ["CapEff:", "0000000000000000"]
    one = await said(
        runtime, make_spec, "one", CAPABILITIES, drop_capabilities=["all"], add_capabilities=["CAP_NET_BIND_SERVICE"]
    )
    assert one[0].split() == ["CapEff:", "0000000000000400"]
    with pytest.raises(InvalidSpec, match="FLY"):
        await runtime.start(make_spec("bird", ["true"], add_capabilities=["FLY"]))


async def test_privileged(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    told = [
        "mount -t tmpfs x /tmp && echo mounted",
        "test -c /dev/kmsg && echo devices",
        "mount | grep -c ' /sys .*ro'",
    ]
    script = "; ".join([CAPABILITIES, *told])
    lines = await said(runtime, make_spec, "root", script, privileged=True, shm_size_bytes=4 * MIB)
    facts = dict(line.split(":\t") for line in lines[:3])
    assert int(facts["CapEff"], 16) == own_capabilities() & EVERY_CAPABILITY
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("0", "0")
    assert lines[3:] == ["mounted", "devices", "0"]


async def test_privileges_can_be_gained_only_where_allowed(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    meek = await said(runtime, make_spec, "meek", CAPABILITIES)
    free = await said(runtime, make_spec, "free", CAPABILITIES, allow_privilege_escalation=True)
    assert (meek[1].split()[1], free[1].split()[1]) == ("1", "0")


async def test_privileges_that_the_node_lacks(
    containerd: PrivateContainerd, make_spec: SpecMaker, tmp_path: Path
) -> None:
    driver = ContainerdRuntime(str(containerd.socket), containerd.namespace, exec_folder=tmp_path)
    spec = make_spec("mighty", ["true"], privileged=True)
    try:
        if own_capabilities() & EVERY_CAPABILITY == EVERY_CAPABILITY:
            await driver.start(spec)
        else:
            with pytest.raises(NodeFault, match="privileges"):
                await driver.start(spec)
    finally:
        await driver.remove(spec.id)
        await driver.close()


async def test_only_the_devices_given(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    given = [Device("/dev/null", "/dev/verbs/uverbs0"), Device("/dev/zero", "/dev/verbs/rdma_cm")]
    script = "ls /dev/verbs; mknod /dev/kmsg2 c 1 11; cat /dev/kmsg2 2>&1 | tail -1"
    lines = await said(runtime, make_spec, "given", script, devices=given)
    assert lines[:2] == ["rdma_cm", "uverbs0"]
    assert "not permitted" in lines[2]  # the cgroup forbids what was not given, node or no node
    without = await said(runtime, make_spec, "dry", "ls /dev/verbs")
    assert "No such file" in without[0]


async def test_rdma_may_pin_all_memory(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    given = [Device("/dev/null", "/dev/infiniband/uverbs0"), Device("/dev/zero", "/dev/infiniband/rdma_cm")]
    if not own_capabilities() & _SYS_RESOURCE:
        with pytest.raises(NodeFault, match="privileges"):
            await runtime.start(make_spec("rdma", ["true"], devices=given))
        return
    assert await said(runtime, make_spec, "rdma", "ls /dev/infiniband; ulimit -l", devices=given) == [
        "rdma_cm",
        "uverbs0",
        "unlimited",
    ]


@pytest.fixture
def network() -> Iterator[str]:
    """A network namespace with nothing but an interface that is down."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "600"])
    try:
        path = Path(f"/proc/{holder.pid}/ns/net")
        wait_for(lambda: path.readlink() != Path("/proc/self/ns/net").readlink())
        yield str(path)
    finally:
        holder.kill()
        holder.wait()


async def test_a_network_of_its_own(runtime: ContainerdRuntime, make_spec: SpecMaker, network: str) -> None:
    inside = await said(runtime, make_spec, "apart", "readlink /proc/self/ns/net", network_namespace=network)
    assert inside == [str(Path(network).readlink())]
    outside = await said(runtime, make_spec, "open", "readlink /proc/self/ns/net")
    assert outside == [str(Path("/proc/self/ns/net").readlink())]


async def test_a_device_that_cdi_does_not_know(
    runtime: ContainerdRuntime, make_spec: SpecMaker, tmp_path: Path
) -> None:
    with pytest.raises(NodeFault, match="no NVIDIA runtime"):
        await runtime.start(make_spec("none", ["true"], gpus=["0"]))
    with pytest.raises(NodeFault, match="describes the device"):
        await runtime.start(make_spec("none", ["true"], cdi_devices=["vendor.com/nic=0"]))
    with pytest.raises(InvalidSpec, match=r"vendor.com/class=name"):
        await runtime.start(make_spec("none", ["true"], cdi_devices=["nonsense"]))
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi" / "broken.yaml").write_text("kind: [")
    with pytest.raises(NodeFault, match=r"unreadable.*broken\.yaml"):
        await runtime.start(make_spec("none", ["true"], cdi_devices=["vendor.com/nic=0"]))


async def test_what_it_uses_grows(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    burn = "head -c 20000000 /dev/zero >/dev/shm/x; echo ready; while :; do :; done"
    spec = make_spec("burns", ["sh", "-c", burn], memory_limit_bytes=64 * MIB)
    await runtime.start(spec)
    wait_for(lambda: spec.log_path.exists() and "ready" in spec.log_path.read_text())
    first = await runtime.stats(spec.id)
    await asyncio.sleep(0.5)
    second = await runtime.stats(spec.id)
    assert second.at > first.at
    assert second.cpu_seconds > first.cpu_seconds
    assert second.memory_bytes >= 19 * MIB
    assert second.memory_peak_bytes is None or second.memory_peak_bytes >= second.working_set_bytes
    assert second.pids == 1
