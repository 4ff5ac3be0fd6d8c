"""The docker driver on a real Engine, where there is one; tests/unit/iris_runtimes/docker has a fake."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from iris_devcluster.images.binary import task_image
from iris_devcluster.images.oci import write_archive
from iris_runtimes.docker import DockerRuntime
from iris_runtimes.docker.driver import DEFAULT_SOCKET
from iris_runtimes.protocol import CgroupParent, PullPolicy, SandboxSpec
from tests.contracts.runtime import RuntimeContract, ended

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not Path(DEFAULT_SOCKET).is_socket(), reason="no Docker Engine on this machine"),
]

IMAGE = "registry.test/iris/task:docker"


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    archive = tmp_path_factory.mktemp("docker") / "task.tar"
    write_archive(archive, task_image({}), [IMAGE])
    subprocess.run(["docker", "load", "-i", str(archive)], check=True, capture_output=True)
    return IMAGE


@pytest_asyncio.fixture
async def runtime(image: str) -> AsyncIterator[DockerRuntime]:
    driver = DockerRuntime()
    yield driver
    for sandbox in await driver.list():
        if f"-{os.getpid()}-" in sandbox.id:
            await driver.remove(sandbox.id)
    await driver.close()


@pytest.fixture
def make_spec(tmp_path: Path) -> Callable[..., SandboxSpec]:
    def make(name: str, command: list[str], **more: object) -> SandboxSpec:
        return SandboxSpec(
            id=f"task-{name}-{os.getpid()}-1",
            image=IMAGE,
            log_path=tmp_path / name / "output.log",
            cgroup=CgroupParent(""),
            labels={"iris.dev/task-name": name},
            command=command,
            **more,  # type: ignore[arg-type]
        )

    return make


class TestDockerContract(RuntimeContract):
    missing_image = "registry.test/iris/missing:1"
    missing_policy: PullPolicy = "Never"


async def test_oom_is_told(runtime: DockerRuntime, make_spec: Callable[..., SandboxSpec]) -> None:
    spec = make_spec("eats", ["sh", "-c", "x=a; while :; do x=$x$x; done"], memory_limit_bytes=32 * 2**20)
    await runtime.start(spec)
    found = await ended(runtime, spec.id)
    assert (found.exit_code, found.oom_killed) == (137, True)
