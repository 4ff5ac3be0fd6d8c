"""Commands in sandboxes: what the contract can't ask of every runtime."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.errors import CommandNotExecutable, InvalidSpec, NodeFault, SandboxNotRunning
from iris_runtimes.execution import ExecRequest, ExecSession
from iris_runtimes.lifecycle import run_command
from iris_runtimes.protocol import SandboxSpec, SandboxState
from tests.e2e.runtimes.private_containerd import PrivateContainerd, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

SpecMaker = Callable[..., SandboxSpec]


async def sleeper(runtime: ContainerdRuntime, make_spec: SpecMaker, name: str, **more: object) -> SandboxSpec:
    spec = make_spec(name, ["sleep", "1000"], **more)
    await runtime.start(spec)
    return spec


def processes(containerd: PrivateContainerd, sandbox_id: str) -> int:
    """How many the sandbox's cgroup holds."""
    for top in containerd.cgroups():
        for file in top.glob(f"iris-{sandbox_id}/cgroup.procs"):
            return len(file.read_text().split())
    return 0


def open_files() -> int:
    """Of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def read_all(session: ExecSession) -> bytes:
    async with asyncio.timeout(30), contextlib.aclosing(session.output()) as pieces:
        return b"".join([one.data async for one in pieces])


async def test_a_timeout_ends_descendants_too(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    spec = await sleeper(runtime, make_spec, "forks")
    # the grandchild has left the command's session and holds its output: signals to the command don't reach it
    nest = ExecRequest(["sh", "-c", "setsid sleep 500 & sh -c 'sleep 600 & wait' & sleep 700"])
    running = asyncio.create_task(run_command(runtime, spec.id, nest, 1.5))
    await asyncio.to_thread(wait_for, lambda: processes(containerd, spec.id) >= 5)
    assert (await running).timed_out
    wait_for(lambda: processes(containerd, spec.id) == 1)
    assert (await runtime.get(spec.id)).state is SandboxState.RUNNING


async def test_another_commands_processes_are_left(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    spec = await sleeper(runtime, make_spec, "neighbours")
    other = await runtime.execute(spec.id, ExecRequest(["sleep", "800"]))
    try:
        assert (await run_command(runtime, spec.id, ExecRequest(["sleep", "900"]), 0.3)).timed_out
        wait_for(lambda: processes(containerd, spec.id) == 2)
    finally:
        await other.close()
    wait_for(lambda: processes(containerd, spec.id) == 1)


async def test_nothing_is_left_of_a_command(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker, tmp_path: Path
) -> None:
    before = open_files()
    spec = await sleeper(runtime, make_spec, "tidy")
    for _ in range(3):
        await run_command(runtime, spec.id, ExecRequest(["cat"], stdin=True), 0.05)
        await run_command(runtime, spec.id, ExecRequest(["true"]), 20)
        with pytest.raises(CommandNotExecutable):
            await runtime.execute(spec.id, ExecRequest(["/etc/passwd"]))
    assert list((tmp_path / "exec").iterdir()) == []
    assert open_files() <= before + 1
    assert containerd.call("tasks", "ps", spec.id).count("\n") == 2


async def test_a_lot_of_output_comes_whole(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = await sleeper(runtime, make_spec, "floods")
    session = await runtime.execute(spec.id, ExecRequest(["sh", "-c", "head -c 20000000 /dev/zero; exit 4"]))
    try:
        assert len(await read_all(session)) == 20_000_000
        assert await session.wait() == 4
    finally:
        await session.close()


async def test_a_lot_of_input_goes_through(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = await sleeper(runtime, make_spec, "drinks")
    session = await runtime.execute(spec.id, ExecRequest(["wc", "-c"], stdin=True))
    try:
        async with asyncio.timeout(30):
            await session.write(b"x" * 5_000_000)
            await session.end_input()
            assert (await read_all(session)).strip() == b"5000000"
    finally:
        await session.close()


async def test_input_that_nobody_reads_is_dropped(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = await sleeper(runtime, make_spec, "deaf")
    session = await runtime.execute(spec.id, ExecRequest(["true"], stdin=True))
    try:
        async with asyncio.timeout(30):
            await session.wait()
            for _ in range(20):
                await session.write(b"x" * 100_000)
    finally:
        await session.close()


async def test_a_terminal_is_resized(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = await sleeper(runtime, make_spec, "tty")
    script = "trap 'stty size; exit 0' WINCH; stty size; while :; do sleep 0.05; done"
    session = await runtime.execute(spec.id, ExecRequest(["sh", "-c", script], terminal=True, columns=90, rows=30))
    try:
        async with asyncio.timeout(20), contextlib.aclosing(session.output()) as pieces:
            text = b""
            async for piece in pieces:
                text += piece.data
                if text.count(b"\n") == 1:
                    await session.resize(100, 40)
                if text.count(b"\n") == 2:
                    break
        assert text.split() == [b"30", b"90", b"40", b"100"]
    finally:
        await session.close()


async def test_user_and_directory(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = await sleeper(runtime, make_spec, "who", user=1000, group=1001, working_dir="/tmp")
    script = ["sh", "-c", "id -u; id -g; pwd"]
    same = await run_command(runtime, spec.id, ExecRequest(script), 20)
    other = await run_command(runtime, spec.id, ExecRequest(script, user=7, group=8, working_dir="/"), 20)
    assert (same.output.split(), other.output.split()) == ([b"1000", b"1001", b"/tmp"], [b"7", b"8", b"/"])


async def test_it_ends_with_its_sandbox(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = await sleeper(runtime, make_spec, "host")
    session = await runtime.execute(spec.id, ExecRequest(["sleep", "900"]))
    try:
        await runtime.signal(spec.id, signal.SIGKILL, everyone=True)
        async with asyncio.timeout(20):
            assert await session.wait() == 137
        with pytest.raises(SandboxNotRunning):
            await runtime.execute(spec.id, ExecRequest(["true"]))
    finally:
        await session.close()


async def test_an_exec_is_no_exit_of_the_sandbox(runtime: ContainerdRuntime, make_spec: SpecMaker) -> None:
    spec = await sleeper(runtime, make_spec, "calm")
    heard = []

    async def listen() -> None:
        async with contextlib.aclosing(runtime.events()) as events:
            async for event in events:
                heard.append(event.id)

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.3)
    await run_command(runtime, spec.id, ExecRequest(["true"]), 20)
    await asyncio.sleep(0.3)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    assert spec.id not in heard


async def test_errors(runtime: ContainerdRuntime, make_spec: SpecMaker, tmp_path: Path) -> None:
    spec = await sleeper(runtime, make_spec, "wrong")
    with pytest.raises(InvalidSpec, match="program"):
        await runtime.execute(spec.id, ExecRequest([]))
    with pytest.raises(InvalidSpec, match="directory"):
        await runtime.execute(spec.id, ExecRequest(["true"], working_dir="relative"))
    (tmp_path / "exec").rmdir()
    (tmp_path / "exec").write_text("a file where the pipes should be")
    with pytest.raises(NodeFault, match="pipes"):
        await runtime.execute(spec.id, ExecRequest(["true"]))
