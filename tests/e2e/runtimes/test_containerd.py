from __future__ import annotations

from pathlib import Path

import pytest

from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.errors import InvalidSpec, RuntimeUnavailable
from iris_runtimes.protocol import Device, Mount, PullPolicy, SandboxState
from tests.contracts.runtime import InsideContract, RuntimeContract, SpecMaker, ended
from tests.e2e.runtimes.private_containerd import PrivateContainerd

# grpc.aio keeps to the loop it first saw
pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]


class TestContainerdContract(RuntimeContract, InsideContract):
    missing_image = "registry.test/iris/missing:1"
    missing_policy: PullPolicy = "Never"  # asks no registry; pulls are in test_pull.py


async def test_log_holds_both_streams(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = make_spec("talks", ["sh", "-c", "echo one; echo two >&2; echo three"])
    await runtime.start(spec)
    await ended(runtime, spec.id)
    assert sorted(spec.log_path.read_text().split()) == ["one", "three", "two"]


async def test_environment_user_and_directory(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = make_spec("who", ["sh", "-c", "id -u; id -g; pwd; echo $GREETING"], user=1234, group=99, working_dir="/tmp",
                     env=[("GREETING", "hello")])  # fmt: skip
    await runtime.start(spec)
    await ended(runtime, spec.id)
    assert spec.log_path.read_text().split() == ["1234", "99", "/tmp", "hello"]


async def test_oom_is_told(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    eats = ["sh", "-c", "x=a; while :; do x=$x$x; done"]
    spec = make_spec("eats", eats, memory_limit_bytes=32 * 2**20)
    await runtime.start(spec)
    found = await ended(runtime, spec.id)
    assert (found.exit_code, found.oom_killed) == (137, True)
    assert found.memory_peak_bytes is not None
    assert found.memory_peak_bytes > 30 * 2**20


async def test_oom_of_the_pods_cgroup_is_told(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    first = make_spec("tenant", ["true"])
    await runtime.start(first)  # makes the Pod's cgroup
    v1 = [one / "memory.limit_in_bytes" for one in containerd.cgroups() if (one / "memory.limit_in_bytes").exists()]
    limit = v1[0] if v1 else containerd.cgroups()[0] / "memory.max"
    before = limit.read_text()
    limit.write_text(str(48 * 2**20))
    try:
        spec = make_spec("guest", ["sh", "-c", "x=a; while :; do x=$x$x; done"])
        await runtime.start(spec)
        found = await ended(runtime, spec.id)
    finally:
        limit.write_text(before)
    assert (found.exit_code, found.oom_killed) == (137, True)


async def test_killed_by_us_is_no_oom(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = make_spec("shot", ["sleep", "1000"], memory_limit_bytes=32 * 2**20)
    await runtime.start(spec)
    await runtime.signal(spec.id, 9, everyone=True)
    found = await ended(runtime, spec.id)
    assert (found.exit_code, found.oom_killed) == (137, False)


async def test_limits_are_the_cgroups(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = make_spec("bounded", ["sleep", "1000"], cpu_limit_millicores=500, memory_limit_bytes=64 * 2**20)
    await runtime.start(spec)
    found = Path("/sys/fs/cgroup")
    quota = next(found.glob(f"**/iris-{spec.id}/cpu.cfs_quota_us"), None)
    limit = next(found.glob(f"**/iris-{spec.id}/memory.limit_in_bytes"), None)
    if quota is None or limit is None:  # cgroup v2
        assert next(found.glob(f"**/iris-{spec.id}/cpu.max")).read_text().split()[0] == "50000"
        assert next(found.glob(f"**/iris-{spec.id}/memory.max")).read_text().strip() == str(64 * 2**20)
    else:
        assert quota.read_text().strip() == "50000"
        assert limit.read_text().strip() == str(64 * 2**20)


async def test_device_and_mount(runtime: ContainerdRuntime, make_spec: SpecMaker, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("content\n")
    spec = make_spec("given", ["sh", "-c", "cat /mnt/file; test -c /dev/nvidia3 && echo device"],
                     devices=[Device("/dev/null", "/dev/nvidia3")],
                     mounts=[Mount(str(tmp_path / "data"), "/mnt", read_only=True)])  # fmt: skip
    await runtime.start(spec)
    await ended(runtime, spec.id)
    assert spec.log_path.read_text().split() == ["content", "device"]


async def test_no_privileges(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = make_spec(
        "meek", ["sh", "-c", "grep -E 'CapEff|NoNewPrivs' /proc/self/status; mount -t tmpfs x /tmp || echo no"]
    )
    await runtime.start(spec)
    await ended(runtime, spec.id)
    text = spec.log_path.read_text()
    assert "NoNewPrivs:\t1" in text
    assert "no" in text.splitlines()


async def test_a_limit_too_low_is_the_users(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = make_spec("tiny", ["true"], memory_limit_bytes=4096)
    with pytest.raises(InvalidSpec, match="memory"):
        await runtime.start(spec)


async def test_another_client_adopts(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    spec = make_spec("adopted", ["sh", "-c", "sleep 0.5; echo done; exit 7"])
    await runtime.start(spec)
    second = ContainerdRuntime(str(containerd.socket), containerd.namespace)
    try:
        assert (await second.get(spec.id)).state in (SandboxState.RUNNING, SandboxState.EXITED)
        assert (await ended(second, spec.id)).exit_code == 7
    finally:
        await second.close()
    assert spec.log_path.read_text() == "done\n"


async def test_absent_containerd_is_unavailable(tmp_path: Path) -> None:
    driver = ContainerdRuntime(str(tmp_path / "none.sock"))
    try:
        with pytest.raises(RuntimeUnavailable):
            await driver.version()
    finally:
        await driver.close()


async def test_removal_leaves_nothing(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    spec = make_spec("clean", ["true"])
    await runtime.start(spec)
    await ended(runtime, spec.id)
    await runtime.remove(spec.id)
    for what in (["containers", "ls", "-q"], ["tasks", "ls", "-q"], ["snapshots", "ls"], ["leases", "ls", "-q"]):
        assert spec.id not in containerd.call(*what)
