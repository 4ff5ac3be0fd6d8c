"""kill -9 of the process that starts a sandbox, at any moment: its successor finishes or removes what it finds."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable

import pytest

from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.protocol import SandboxSpec, SandboxState
from tests.contracts.runtime import ended
from tests.e2e.runtimes.private_containerd import PrivateContainerd, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

SpecMaker = Callable[..., SandboxSpec]
COMMAND = ["sh", "-c", "echo ran; exit 3"]
_STARTER = """
import asyncio, sys
from pathlib import Path
from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.protocol import CgroupParent, SandboxSpec

async def main(socket, namespace, name, image, log, cgroup):
    runtime = ContainerdRuntime(socket, namespace, exec_folder=Path(log).parent / "exec")
    await runtime.version()
    print("ready", flush=True)
    await runtime.start(SandboxSpec(name, image, Path(log), CgroupParent(cgroup), command=["sh", "-c", "echo ran; exit 3"]))
    await asyncio.sleep(60)

asyncio.run(main(*sys.argv[1:]))
"""


@contextlib.asynccontextmanager
async def starter(containerd: PrivateContainerd, spec: SandboxSpec) -> AsyncIterator[None]:
    """A process of its own that starts the sandbox; killed at the end of the body."""
    words = [str(containerd.socket), containerd.namespace, spec.id, spec.image, str(spec.log_path), spec.cgroup.path]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _STARTER, *words, stdout=pipe)
    assert process.stdout is not None
    assert (await process.stdout.readline()).strip() == b"ready"
    try:
        yield
    finally:
        process.kill()
        await process.wait()


def nothing_left(containerd: PrivateContainerd, sandbox_id: str) -> bool:
    with contextlib.suppress(LookupError):
        return containerd.shim_of(sandbox_id) == 0
    cgroups = [one for top in containerd.cgroups() for one in top.glob(f"iris-{sandbox_id}")]
    lists = containerd.call("tasks", "ls") + containerd.call("snapshots", "ls") + containerd.call("containers", "ls")
    return not cgroups and not containerd.runc_state(sandbox_id).exists() and sandbox_id not in lists


async def runc_has_it(containerd: PrivateContainerd, sandbox_id: str) -> None:
    """The worst moment: runc has made the container, containerd does not know of it yet."""
    while not containerd.runc_state(sandbox_id).exists():
        await asyncio.sleep(0.0005)


@pytest.mark.parametrize("milliseconds", [5, 15, 25, 40, 60, 90])
async def test_the_successor_runs_it_once(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker, milliseconds: int
) -> None:
    spec = make_spec(f"heir{milliseconds}", COMMAND)
    async with starter(containerd, spec):
        await asyncio.sleep(milliseconds / 1000)
    await runtime.start(spec)
    assert (await ended(runtime, spec.id)).exit_code == 3
    assert spec.log_path.read_text() == "ran\n"


@pytest.mark.parametrize("milliseconds", [5, 15, 25, 40, 60, 90])
async def test_the_successor_removes_it(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker, milliseconds: int
) -> None:
    spec = make_spec(f"gone{milliseconds}", COMMAND)
    async with starter(containerd, spec):
        await asyncio.sleep(milliseconds / 1000)
    await runtime.remove(spec.id)
    wait_for(lambda: nothing_left(containerd, spec.id))


async def test_killed_while_runc_works_and_run_by_the_successor(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    spec = make_spec("worst", COMMAND)
    async with starter(containerd, spec):
        await runc_has_it(containerd, spec.id)
    assert (await runtime.get(spec.id)).state is SandboxState.CREATED
    await runtime.start(spec)
    assert (await ended(runtime, spec.id)).exit_code == 3
    assert spec.log_path.read_text() == "ran\n"
    await runtime.remove(spec.id)
    wait_for(lambda: nothing_left(containerd, spec.id))


async def test_killed_while_runc_works_and_removed_by_the_successor(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: SpecMaker
) -> None:
    spec = make_spec("worse", COMMAND)
    async with starter(containerd, spec):
        await runc_has_it(containerd, spec.id)
    await runtime.remove(spec.id)
    wait_for(lambda: nothing_left(containerd, spec.id))
    assert spec.log_path.read_text() == ""
