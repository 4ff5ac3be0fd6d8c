"""kill -9 of shims and of containerd, and starts that were cut off: a command runs once, and nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.errors import RuntimeUnavailable, SandboxNotFound
from iris_runtimes.execution import ExecRequest
from iris_runtimes.lifecycle import run_command, stop
from iris_runtimes.protocol import Exit, Mount, SandboxSpec, SandboxState
from tests.contracts.runtime import ended, told_of
from tests.e2e.runtimes.conftest import started
from tests.e2e.runtimes.private_containerd import PrivateContainerd, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

SpecMaker = Callable[..., SandboxSpec]


@pytest.fixture(scope="module")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateContainerd]:
    """One that these tests may kill."""
    with started(tmp_path_factory.mktemp("mortal"), "mortal") as one:
        yield one


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def nothing_is_left(containerd: PrivateContainerd, runtime: ContainerdRuntime) -> AsyncIterator[None]:
    yield
    for sandbox in await runtime.list():
        await runtime.remove(sandbox.id)
    assert await runtime.list() == []
    await runtime.release()
    for what in (["containers", "ls", "-q"], ["tasks", "ls", "-q"], ["leases", "ls", "-q"]):
        assert containerd.call(*what).strip() == ""
    assert "task-" not in containerd.call("snapshots", "ls")
    with pytest.raises(LookupError):
        containerd.shim()
    assert [one for top in containerd.cgroups() for one in top.iterdir() if one.is_dir()] == []


@contextlib.asynccontextmanager
async def away(containerd: PrivateContainerd, runtime: ContainerdRuntime) -> AsyncIterator[None]:
    """containerd dies by kill -9, and comes back."""
    containerd.kill()
    try:
        yield
    finally:
        containerd.start()
        async with asyncio.timeout(10):
            while not await answers(runtime):
                await asyncio.sleep(0.05)


async def answers(runtime: ContainerdRuntime) -> bool:
    try:
        await runtime.version()
    except RuntimeUnavailable:
        return False
    return True


async def lost(runtime: ContainerdRuntime, sandbox_id: str) -> Exit:
    async with asyncio.timeout(10):
        while (found := (await runtime.get(sandbox_id)).exit) is None:
            await asyncio.sleep(0.05)
    return found


async def test_a_sandbox_whose_shim_was_killed_is_lost(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    spec = make_spec("orphan", ["sh", "-c", "echo $$ ran; sleep 1000"])
    pid = (await runtime.start(spec)).pid
    wait_for(lambda: spec.log_path.exists() and "ran" in spec.log_path.read_text())
    told = asyncio.create_task(told_of(runtime, spec.id))
    await asyncio.sleep(0.2)
    os.kill(containerd.shim_of(spec.id), signal.SIGKILL)
    await told
    found = await lost(runtime, spec.id)
    assert (found.lost, found.oom_killed, found.exit_code) == (True, False, 255)
    assert found == next(one.exit for one in await runtime.list() if one.id == spec.id)
    wait_for(lambda: not Path(f"/proc/{pid}").exists())


async def test_a_lost_sandbox_is_not_run_again(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    spec = make_spec("once", ["sh", "-c", "echo ran; sleep 1000"])
    await runtime.start(spec)
    wait_for(lambda: spec.log_path.exists() and spec.log_path.read_text() == "ran\n")
    os.kill(containerd.shim_of(spec.id), signal.SIGKILL)
    await lost(runtime, spec.id)
    again = await runtime.start(spec)
    assert again.exit is not None
    assert again.exit.lost
    assert spec.log_path.read_text() == "ran\n"


async def test_waiting_ends_when_the_shim_is_killed(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    spec = make_spec("awaited", ["sleep", "1000"])
    await runtime.start(spec)
    waiting = asyncio.create_task(ended(runtime, spec.id))
    await asyncio.sleep(0.2)
    os.kill(containerd.shim_of(spec.id), signal.SIGKILL)
    assert (await waiting).lost


async def test_a_command_goes_on_while_containerd_is_away(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    lines = "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done; while ! test -e /go/go; do sleep 0.05; done; exit 7"
    spec = make_spec("steady", ["sh", "-c", lines], mounts=[Mount(str(tmp_path), "/go")])
    await runtime.start(spec)
    async with away(containerd, runtime):
        with pytest.raises(RuntimeUnavailable):
            await runtime.get(spec.id)
        wait_for(lambda: spec.log_path.read_text().endswith("5\n"))
    assert (await runtime.get(spec.id)).state is SandboxState.RUNNING
    go.touch()
    assert (await ended(runtime, spec.id)).exit_code == 7
    assert spec.log_path.read_text() == "1\n2\n3\n4\n5\n"


async def test_an_exit_while_containerd_is_away_is_lost(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker, tmp_path: Path
) -> None:
    spec = make_spec("unseen", ["sh", "-c", "while ! test -e /go/go; do sleep 0.05; done; echo end"],
                     mounts=[Mount(str(tmp_path), "/go")])  # fmt: skip
    pid = (await runtime.start(spec)).pid
    async with away(containerd, runtime):
        (tmp_path / "go").touch()
        wait_for(lambda: not Path(f"/proc/{pid}").exists() and spec.log_path.read_text() == "end\n")
    found = await runtime.get(spec.id)
    assert found.exit is not None
    # containerd drops a task that it finds without processes: nobody can tell the code any more
    assert found.exit.lost
    assert abs(found.exit.exited_at.timestamp() - spec.log_path.stat().st_mtime) < 0.001


async def test_events_end_and_begin_again(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    spec = make_spec("heard", ["sleep", "1000"])
    await runtime.start(spec)
    told = asyncio.create_task(told_of(runtime, spec.id))
    await asyncio.sleep(0.2)
    async with away(containerd, runtime):
        with pytest.raises(RuntimeUnavailable):
            await told
    told = asyncio.create_task(told_of(runtime, spec.id))
    await runtime.signal(spec.id, 9)
    await told


async def test_a_command_in_a_sandbox_while_containerd_is_away(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker, tmp_path: Path
) -> None:
    spec = make_spec("visited", ["sleep", "1000"])
    await runtime.start(spec)
    session = await runtime.execute(spec.id, ExecRequest(["sleep", "900"]))
    async with away(containerd, runtime):
        with pytest.raises(RuntimeUnavailable):
            async with asyncio.timeout(10):
                await session.wait()
        with pytest.raises(RuntimeUnavailable):
            await runtime.execute(spec.id, ExecRequest(["true"]))
        await session.close()
        assert list((tmp_path / "exec").iterdir()) == []
    assert (await run_command(runtime, spec.id, ExecRequest(["true"]), 20)).exit_code == 0


@pytest.mark.parametrize("after_seconds", [0.002 * one**2 for one in range(10)])
async def test_a_start_that_was_cut_off_is_finished(
    runtime: ContainerdRuntime, make_spec: SpecMaker, after_seconds: float
) -> None:
    spec = make_spec("halved", ["sh", "-c", "echo ran; exit 3"])
    starting = asyncio.create_task(runtime.start(spec))
    await asyncio.sleep(after_seconds)
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    with contextlib.suppress(SandboxNotFound):
        assert (await runtime.get(spec.id)).state in SandboxState
    await runtime.start(spec)
    found = await ended(runtime, spec.id)
    assert found.lost or found.exit_code == 3
    assert spec.log_path.read_text() == "ran\n"


@pytest.mark.parametrize("after_seconds", [0.002 * one**2 for one in range(10)])
async def test_a_start_that_was_cut_off_is_removed(
    runtime: ContainerdRuntime, make_spec: SpecMaker, after_seconds: float
) -> None:
    spec = make_spec("dropped", ["sleep", "1000"])
    starting = asyncio.create_task(runtime.start(spec))
    await asyncio.sleep(after_seconds)
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    await runtime.remove(spec.id)


async def test_a_start_cut_off_by_containerds_death(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    for number in range(4):
        spec = make_spec(f"severed{number}", ["sh", "-c", "echo ran; exit 3"])
        starting = asyncio.create_task(runtime.start(spec))
        await asyncio.sleep(0.012 * number)
        async with away(containerd, runtime):
            with contextlib.suppress(RuntimeUnavailable):
                await starting
        await runtime.start(spec)
        found = await ended(runtime, spec.id)
        assert found.lost or found.exit_code == 3
        assert spec.log_path.read_text() in ("ran\n", "")


async def test_listing_while_others_come_and_go_never_shows_a_loss(
    runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    async def live(name: str) -> None:
        for number in range(4):
            spec = make_spec(f"{name}{number}", ["true"])
            await runtime.start(spec)
            await runtime.wait(spec.id)
            await runtime.remove(spec.id)

    lives = asyncio.gather(*(live(name) for name in "abcd"))
    while not lives.done():
        assert not [one for one in await runtime.list() if one.exit is not None and one.exit.lost]
    await lives


async def test_stop_gives_its_grace(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    deaf = make_spec("deaf", ["sh", "-c", "trap '' TERM; sleep 1000 & wait; wait"])
    await runtime.start(deaf)
    await asyncio.sleep(0.2)
    assert (await stop(runtime, deaf.id, 0.3)).exit_code == 137
    polite = make_spec("polite", ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done"])
    await runtime.start(polite)
    await asyncio.sleep(0.2)
    assert (await stop(runtime, polite.id, 30)).exit_code == 0
