from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from iris_runtimes.fake import FakeRuntime
from iris_runtimes.protocol import CgroupParent, SandboxSpec
from tests.contracts.runtime import InsideContract, RuntimeContract


@pytest.fixture
def runtime() -> FakeRuntime:
    fake = FakeRuntime()
    fake.missing_images = {"missing"}
    return fake


@pytest.fixture
def make_spec(tmp_path: Path) -> Callable[..., SandboxSpec]:
    def make(name: str, command: list[str], **more: object) -> SandboxSpec:
        return SandboxSpec(
            id=f"task-{name}-1",
            image="task",
            log_path=tmp_path / name / "output.log",
            cgroup=CgroupParent("/kubepods/pod-fake"),
            labels={"iris.dev/task-name": name},
            command=command,
            **more,  # type: ignore[arg-type]
        )

    return make


class TestFakeRuntime(RuntimeContract, InsideContract):
    """The fake behaves as the drivers do."""
