"""A private containerd with its own root, state, socket and cgroup; nothing of it outlives the session."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from iris_devcluster.images.binary import task_image
from iris_devcluster.images.oci import write_archive
from iris_devcluster.images.programs import program
from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.protocol import CgroupParent, SandboxSpec

IMAGE = "registry.test/iris/task:dev"
CGROUP = "/iris-runtime-tests"
# runc keeps its state by namespace in one place for the whole machine: no other run may share ours
NAMESPACE = f"iris-test-{os.getpid()}"
_RUNC_STATE = Path("/run/containerd/runc") / NAMESPACE


@dataclass(frozen=True)
class Containerd:
    """Where a private containerd is."""

    socket: Path
    pid: int
    ctr: Path


def _wait_for(what: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up after {seconds} s")
        time.sleep(0.05)


def _kill_marked(marker: str) -> None:
    """Kill -9 every process whose command line names our directory (containerd, shims)."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)


def _sweep(root: Path) -> None:
    _kill_marked(str(root))
    for tasks in Path("/sys/fs/cgroup").rglob(f"*{CGROUP}/**/cgroup.procs"):
        for pid in tasks.read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    time.sleep(0.2)
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((one for one in mounts if one.startswith(str(root))), reverse=True):
        subprocess.run(["umount", "-l", mount], check=False)
    for folder in sorted(Path("/sys/fs/cgroup").rglob(f"*{CGROUP}*"), key=lambda one: -len(one.parts)):
        if folder.is_dir():
            for inner in sorted((one for one in folder.rglob("*") if one.is_dir()), key=lambda one: -len(one.parts)):
                inner.rmdir()
            folder.rmdir()
    shutil.rmtree(root, ignore_errors=True)
    shutil.rmtree(_RUNC_STATE, ignore_errors=True)


@pytest.fixture(scope="session")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    root = tmp_path_factory.mktemp("containerd")
    config = root / "config.toml"
    config.write_text(
        f'version = 3\nroot = "{root}/root"\nstate = "{root}/state"\n'
        f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\n  address = "{root}/c.sock"\n'
        f'[ttrpc]\n  address = "{root}/c.sock.ttrpc"\n'
    )
    binaries = program("containerd").parent
    env = {**os.environ, "PATH": f"{binaries}:/usr/sbin:/usr/bin:/sbin:/bin"}
    with (root / "log").open("wb") as log:
        process = subprocess.Popen([binaries / "containerd", "-c", config], env=env, stdout=log, stderr=log)
    socket = root / "c.sock"
    ctr = program("ctr")
    try:
        _wait_for(lambda: subprocess.run([ctr, "-a", socket, "version"], capture_output=True).returncode == 0)
        archive = root / "task.tar"
        write_archive(archive, task_image({}), [IMAGE])
        subprocess.run(
            [ctr, "-a", socket, "-n", NAMESPACE, "images", "import", archive], check=True, capture_output=True
        )
        yield Containerd(socket, process.pid, ctr)
    finally:
        process.kill()
        process.wait()
        _sweep(root)


@pytest_asyncio.fixture(loop_scope="session")
async def runtime(containerd: Containerd) -> AsyncIterator[ContainerdRuntime]:
    driver = ContainerdRuntime(str(containerd.socket), NAMESPACE)
    yield driver
    for sandbox in await driver.list():
        await driver.remove(sandbox.id)
    await driver.close()


@pytest.fixture
def make_spec(tmp_path: Path) -> Callable[..., SandboxSpec]:
    def make(name: str, command: list[str], image: str = IMAGE, **more: object) -> SandboxSpec:
        return SandboxSpec(
            id=f"task-{name}-1",
            image=image,
            log_path=tmp_path / name / "output.log",
            cgroup=CgroupParent(CGROUP),
            labels={"iris.dev/task-name": name},
            command=command,
            **more,  # type: ignore[arg-type]
        )

    return make
