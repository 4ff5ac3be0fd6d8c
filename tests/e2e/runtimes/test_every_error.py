"""Each error of docs/runtimes.md, provoked on a real containerd: one that nothing can provoke should not be in the table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from iris_runtimes import errors
from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.errors import NotSupported, RuntimeFault
from iris_runtimes.execution import ExecRequest
from iris_runtimes.protocol import Device, SandboxSpec
from tests.contracts.runtime import ended
from tests.e2e.runtimes.test_pull import Registries, puller, registries

__all__ = ["puller", "registries"]  # fixtures

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

KINDS = {
    one
    for one in vars(errors).values()
    if isinstance(one, type) and issubclass(one, RuntimeFault) and one not in (RuntimeFault, NotSupported)
}
Provoke = Callable[["Stage"], Awaitable[Any]]


class Stage:
    """What a provocation needs."""

    def __init__(self, runtime: ContainerdRuntime, make_spec: Callable[..., SandboxSpec], scratch: Path) -> None:
        self.runtime = runtime
        self.scratch = scratch
        self._make_spec = make_spec

    async def start(self, command: list[str], **more: Any) -> SandboxSpec:
        """Start, and say how."""
        spec = self._make_spec("provoked", command, **more)
        await self.runtime.start(spec)
        return spec

    async def remove_image_in_use(self) -> None:
        """While a sandbox stands on it."""
        spec = await self.start(["sleep", "1000"])
        await self.runtime.remove_image(spec.image)

    async def execute_after_the_end(self) -> None:
        """In a sandbox that has ended."""
        spec = await self.start(["true"])
        await ended(self.runtime, spec.id)
        await self.runtime.execute(spec.id, ExecRequest(["true"]))

    async def ask_nobody(self) -> None:
        """Where no containerd is."""
        driver = ContainerdRuntime(str(self.scratch / "none.sock"))
        try:
            await driver.list()
        finally:
            await driver.close()


PROVOCATIONS: dict[type[RuntimeFault], Provoke] = {
    errors.ImageNotFound: lambda stage: stage.runtime.pull("open.test/iris/none:1"),
    errors.ImageUnauthorized: lambda stage: stage.runtime.pull("locked.test/iris/task:1", "Always"),
    errors.ImageInvalid: lambda stage: stage.runtime.pull("open.test/UPPER:1"),
    errors.ImageInUse: lambda stage: stage.remove_image_in_use(),
    errors.ImagePullFailed: lambda stage: stage.runtime.pull("gone.test/iris/task:1"),
    errors.CommandNotFound: lambda stage: stage.start(["nope"]),
    errors.CommandNotExecutable: lambda stage: stage.start(["/etc/passwd"]),
    errors.InvalidSpec: lambda stage: stage.start(["true"], add_capabilities=["FLY"]),
    errors.InvalidLimits: lambda stage: stage.start(["true"], memory_limit_bytes=4096),
    errors.NodeFault: lambda stage: stage.start(["true"], devices=[Device("/dev/nope", "/dev/nope")]),
    errors.SandboxNotFound: lambda stage: stage.runtime.get("task-never-made-1"),
    errors.SandboxNotRunning: lambda stage: stage.execute_after_the_end(),
    errors.RuntimeUnavailable: lambda stage: stage.ask_nobody(),
}


async def test_every_error_has_its_provocation() -> None:
    assert set(PROVOCATIONS) == KINDS


@pytest.mark.parametrize("kind", PROVOCATIONS, ids=lambda kind: str(kind.__name__))
async def test_provoked(
    puller: ContainerdRuntime,
    registries: Registries,
    make_spec: Callable[..., SandboxSpec],
    tmp_path: Path,
    kind: type[RuntimeFault],
) -> None:
    with pytest.raises(RuntimeFault) as caught:
        await PROVOCATIONS[kind](Stage(puller, make_spec, tmp_path))
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    assert str(caught.value)
