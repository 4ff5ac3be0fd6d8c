"""Shims that many sandboxes share: how many, who stays, and what is left when one is killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.protocol import CgroupParent, SandboxSpec, SandboxState
from tests.contracts.runtime import ended, told_of
from tests.e2e.runtimes.conftest import own_capabilities, started
from tests.e2e.runtimes.private_containerd import PrivateContainerd, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

SpecMaker = Callable[..., SandboxSpec]


@pytest.fixture(scope="module")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateContainerd]:
    """One whose shims are counted, and killed."""
    with started(tmp_path_factory.mktemp("shared"), "shared") as one:
        yield one


@contextlib.asynccontextmanager
async def agent(containerd: PrivateContainerd, folder: Path, per_shim: int) -> AsyncIterator[ContainerdRuntime]:
    driver = ContainerdRuntime(
        str(containerd.socket), containerd.namespace, exec_folder=folder / "exec",
        node_capabilities=own_capabilities(), sandboxes_per_shim=per_shim, busybox=Path("/bin/busybox"), spare_shim_seconds=0,
    )  # fmt: skip
    try:
        yield driver
    finally:
        await driver.close()


async def sleepers(runtime: ContainerdRuntime, make_spec: SpecMaker, names: str) -> list[SandboxSpec]:
    specs = [make_spec(name, ["sleep", "1000"]) for name in names]
    for spec in specs:
        await runtime.start(spec)
    return specs


def shims_of(containerd: PrivateContainerd, specs: list[SandboxSpec]) -> list[int]:
    return [containerd.shim_of(spec.id) for spec in specs]


async def test_so_many_share_one_and_the_last_one_stays(
    containerd: PrivateContainerd, make_spec: SpecMaker, tmp_path: Path
) -> None:
    async with agent(containerd, tmp_path, 2) as runtime:
        specs = await sleepers(runtime, make_spec, "abc")
        a, b, c = shims_of(containerd, specs)
        assert a == b != c
        assert [one.id for one in await runtime.list()] == [spec.id for spec in specs]
        for spec in specs:
            await runtime.remove(spec.id)
        assert len(containerd.call("containers", "ls", "-q").split()) == 1
        (again,) = await sleepers(runtime, make_spec, "d")
        assert containerd.shim_of(again.id) in (a, c)
        await runtime.remove(again.id)
    assert containerd.call("containers", "ls", "-q").split() == []
    with pytest.raises(LookupError):
        containerd.shim()


async def test_a_killed_one_takes_its_sandboxes_and_no_other(
    containerd: PrivateContainerd, make_spec: SpecMaker, tmp_path: Path
) -> None:
    async with agent(containerd, tmp_path, 3) as runtime:
        specs = await sleepers(runtime, make_spec, "abcd")
        pids = [one.pid for one in await runtime.list()]
        told = [asyncio.create_task(told_of(runtime, spec.id)) for spec in specs[:3]]
        await asyncio.sleep(0.3)
        os.kill(containerd.shim_of("task-a-1"), signal.SIGKILL)
        await asyncio.gather(*told)
        assert all([(await ended(runtime, spec.id)).lost for spec in specs[:3]])
        assert (await runtime.get("task-d-1")).state is SandboxState.RUNNING
        wait_for(lambda: [pid for pid in pids if Path(f"/proc/{pid}").exists()] == [pids[3]])
        (late,) = await sleepers(runtime, make_spec, "e")
        assert containerd.shim_of(late.id) == containerd.shim_of("task-d-1")
        for spec in [*specs, late]:
            await runtime.remove(spec.id)
    for what in (["containers", "ls", "-q"], ["tasks", "ls", "-q"]):
        assert containerd.call(*what).strip() == ""
    assert [one for top in containerd.cgroups() for one in top.iterdir() if one.is_dir()] == []
    assert not list(containerd.runc_state("").glob("task-*"))


async def test_a_new_agent_goes_on_with_the_shim_it_finds(
    containerd: PrivateContainerd, make_spec: SpecMaker, tmp_path: Path
) -> None:
    async with agent(containerd, tmp_path, 8) as runtime:
        (first,) = await sleepers(runtime, make_spec, "a")
        shim = containerd.shim_of(first.id)
    containerd.kill()
    containerd.start()
    async with agent(containerd, tmp_path, 8) as runtime:
        assert [one.state for one in await runtime.list()] == [SandboxState.RUNNING]
        (second,) = await sleepers(runtime, make_spec, "b")
        assert containerd.shim_of(second.id) == shim
        for spec in (first, second):
            await runtime.remove(spec.id)
    with pytest.raises(LookupError):
        containerd.shim()


async def test_what_a_worker_before_has_left_is_removed(
    containerd: PrivateContainerd, make_spec: SpecMaker, tmp_path: Path
) -> None:
    async with agent(containerd, tmp_path, 8) as runtime:
        spec = make_spec("old", ["true"])
        await runtime.start(replace(spec, cgroup=CgroupParent(f"{containerd.cgroup}/before")))
        await runtime.remove(spec.id)
        (fresh,) = await sleepers(runtime, make_spec, "a")
        assert len(containerd.call("containers", "ls", "-q").split()) == 2
        await runtime.remove(fresh.id)


async def test_each_its_own_when_asked_for(containerd: PrivateContainerd, make_spec: SpecMaker, tmp_path: Path) -> None:
    async with agent(containerd, tmp_path, 1) as runtime:
        specs = await sleepers(runtime, make_spec, "ab")
        assert len(set(shims_of(containerd, specs))) == 2
        for spec in specs:
            await runtime.remove(spec.id)


async def test_a_burst_gets_shims_side_by_side(
    containerd: PrivateContainerd, make_spec: SpecMaker, tmp_path: Path
) -> None:
    async with agent(containerd, tmp_path, 32) as runtime:
        (alone,) = await sleepers(runtime, make_spec, "a")
        specs = [make_spec(f"burst{number}", ["sleep", "1000"]) for number in range(24)]
        await asyncio.gather(*(runtime.start(spec) for spec in specs))
        shims = set(shims_of(containerd, specs))
        assert 1 < len(shims) <= max(2, os.cpu_count() or 2)
        for spec in [alone, *specs]:
            await runtime.remove(spec.id)
        assert len(containerd.call("containers", "ls", "-q").split()) == 1
