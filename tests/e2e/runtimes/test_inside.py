"""Sandboxes inside a holding one: log, descendants, memory, and what a kill -9 leaves of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.errors import RuntimeUnavailable
from iris_runtimes.hold import BUSYBOX, hold_spec
from iris_runtimes.protocol import Mount, SandboxSpec, SandboxState
from tests.contracts.runtime import ended, told_of
from tests.e2e.runtimes.conftest import started
from tests.e2e.runtimes.private_containerd import PrivateContainerd, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

SpecMaker = Callable[..., SandboxSpec]


@pytest.fixture(scope="module")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateContainerd]:
    """One that these tests may kill."""
    with started(tmp_path_factory.mktemp("holding"), "holding") as one:
        yield one


async def holding(runtime: ContainerdRuntime, make_spec: SpecMaker, **more: object) -> SandboxSpec:
    spec = hold_spec(make_spec("hold", [], mounts=[Mount("/bin/busybox", BUSYBOX, read_only=True)], **more))
    await runtime.start(spec)
    return spec


async def processes(runtime: ContainerdRuntime, sandbox_id: str) -> int | None:
    return (await runtime.stats(sandbox_id)).pids


async def until_processes(runtime: ContainerdRuntime, sandbox_id: str, number: int) -> None:
    async with asyncio.timeout(10):
        while await processes(runtime, sandbox_id) != number:
            await asyncio.sleep(0.05)


async def test_its_log_environment_and_user_are_its_own(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    outer = await holding(runtime, make_spec, env=[("HOUSE", "one"), ("WHO", "host")])
    inner = make_spec("guest", ["sh", "-c", "echo $HOUSE $WHO; id -u; pwd; echo bad >&2; exit 3"], inside=outer.id,
                      env=[("WHO", "guest")], user=1234, working_dir="/tmp")  # fmt: skip
    await runtime.start(inner)
    assert (await ended(runtime, inner.id)).exit_code == 3
    told = sorted(["one", "guest", "1234", "/tmp", "bad"])
    wait_for(lambda: sorted(inner.log_path.read_text().split()) == told)  # the shim copies both streams in its own time
    await runtime.remove(inner.id)
    assert inner.log_path.exists()
    assert outer.log_path.read_text() == ""


async def test_sigkill_to_everyone_ends_those_it_has_left_behind(
    runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    outer = await holding(runtime, make_spec)
    await until_processes(runtime, outer.id, 2)
    inner = make_spec("parent", ["sh", "-c", "setsid sleep 900 & sleep 901; true"], inside=outer.id)
    await runtime.start(inner)
    await until_processes(runtime, outer.id, 5)
    await runtime.signal(inner.id, signal.SIGKILL, everyone=True)
    assert (await ended(runtime, inner.id)).exit_code == 137
    await until_processes(runtime, outer.id, 2)


async def test_its_removal_ends_those_it_has_left_behind(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    outer = await holding(runtime, make_spec)
    await until_processes(runtime, outer.id, 2)
    inner = make_spec("gone", ["sh", "-c", "setsid sleep 900 & exit 0"], inside=outer.id)
    await runtime.start(inner)
    assert (await ended(runtime, inner.id)).exit_code == 0
    assert await processes(runtime, outer.id) == 3
    await runtime.remove(inner.id)
    await until_processes(runtime, outer.id, 2)


async def test_its_memory_is_the_others(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    outer = await holding(runtime, make_spec, memory_limit_bytes=32 * 2**20)
    for name, command, killed in (
        ("glutton", ["sh", "-c", "x=a; while :; do x=$x$x; done"], True),
        ("shot", ["sh", "-c", "kill -9 $$"], False),
    ):
        inner = make_spec(name, command, inside=outer.id)
        await runtime.start(inner)
        found = await ended(runtime, inner.id)
        assert (found.exit_code, found.oom_killed) == (137, killed)
    assert (await runtime.get(outer.id)).state is SandboxState.RUNNING


async def test_a_new_agent_and_a_new_containerd_adopt_it(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker, tmp_path: Path
) -> None:
    spec = make_spec("hold", [], mounts=[Mount("/bin/busybox", BUSYBOX), Mount(str(tmp_path), "/go")])
    await runtime.start(hold_spec(spec))
    lines = "echo one; while ! test -e /go/go; do sleep 0.05; done; echo two; exit 7"
    inner = make_spec("steady", ["sh", "-c", lines], inside=spec.id)
    await runtime.start(inner)
    wait_for(lambda: inner.log_path.read_text() == "one\n")
    containerd.kill()
    containerd.start()
    second = ContainerdRuntime(str(containerd.socket), containerd.namespace)
    try:
        async with asyncio.timeout(10):
            while True:
                with contextlib.suppress(RuntimeUnavailable):
                    await second.version()
                    break
        assert (await second.get(inner.id)).state is SandboxState.RUNNING
        told = asyncio.create_task(told_of(second, inner.id))
        (tmp_path / "go").touch()
        await told
        assert (await ended(second, inner.id)).exit_code == 7
        wait_for(lambda: inner.log_path.read_text() == "one\ntwo\n")
        await second.remove(inner.id)
        assert [one.id for one in await second.list()] == [spec.id]
    finally:
        await second.close()
    async with asyncio.timeout(10):
        while not await runtime.list():
            await asyncio.sleep(0.05)


async def test_it_is_lost_with_the_others_shim(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    outer = await holding(runtime, make_spec)
    inner = make_spec("mate", ["sleep", "1000"], inside=outer.id)
    pid = (await runtime.start(inner)).pid
    told = asyncio.create_task(told_of(runtime, inner.id))
    await asyncio.sleep(0.2)
    os.kill(containerd.shim_of(outer.id), signal.SIGKILL)
    await told
    assert (await ended(runtime, inner.id)).lost
    assert (await ended(runtime, outer.id)).lost
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    await runtime.remove(outer.id)
    assert await runtime.list() == []
