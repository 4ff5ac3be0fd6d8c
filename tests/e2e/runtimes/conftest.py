"""Private containerds with a small image; nothing of them outlives the tests."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from iris_devcluster.images.binary import task_image
from iris_devcluster.images.oci import write_archive
from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.protocol import CgroupParent, SandboxSpec
from tests.e2e.runtimes.private_containerd import PrivateContainerd

IMAGE = "registry.test/iris/task:dev"


def own_capabilities() -> int:
    """What this machine has to give; one that is itself a container lacks some."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("CapBnd")).split()[1], 16)


@contextmanager
def started(folder: Path, name: str, kubelets: str = "") -> Iterator[PrivateContainerd]:
    """A containerd with IMAGE, swept at the end. `kubelets`: PrivateContainerd's."""
    containerd = PrivateContainerd(folder, f"{name}-{os.getpid()}", kubelets)
    try:
        containerd.start()
        write_archive(folder / "task.tar", task_image({}), [IMAGE])
        containerd.call("images", "import", str(folder / "task.tar"))
        yield containerd
    finally:
        containerd.sweep()


@pytest.fixture(scope="package")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateContainerd]:
    """For tests that leave it running."""
    with started(tmp_path_factory.mktemp("containerd"), "steady") as one:
        yield one


@pytest_asyncio.fixture(loop_scope="session")  # grpc.aio keeps to the loop it first saw
async def runtime(containerd: PrivateContainerd, tmp_path: Path) -> AsyncIterator[ContainerdRuntime]:
    driver = ContainerdRuntime(
        str(containerd.socket),
        containerd.namespace,
        exec_folder=tmp_path / "exec",
        cdi_folders=[tmp_path / "cdi"],
        node_capabilities=own_capabilities(),
        busybox=Path("/bin/busybox"),
    )
    yield driver
    for sandbox in await driver.list():
        await driver.remove(sandbox.id)
    await driver.close()


@pytest.fixture
def make_spec(containerd: PrivateContainerd, tmp_path: Path) -> Callable[..., SandboxSpec]:
    def make(name: str, command: list[str], image: str = IMAGE, **more: object) -> SandboxSpec:
        return SandboxSpec(
            id=f"task-{name}-1",
            image=image,
            log_path=tmp_path / name / "output.log",
            cgroup=CgroupParent(containerd.cgroup),
            labels={"iris.dev/task-name": name},
            command=command,
            **more,  # type: ignore[arg-type]
        )

    return make
