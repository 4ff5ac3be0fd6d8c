"""An agent on a machine without Kubernetes, with a real containerd: Tasks run where it was said, and outlive its restart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.agent.agent import Agent
from iris_operator.agent.config import from_environment
from iris_operator.agent.node.outside import as_in_a_pod
from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import TASKS
from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.protocol import SandboxState
from tests.e2e.runtimes.conftest import IMAGE
from tests.e2e.runtimes.private_containerd import PrivateContainerd
from tests.unit.iris_operator.agent.build import NODE, task_body

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

_SECONDS = 30


class Machine:
    """Its agents come and go; the API server is a fake."""

    def __init__(self, runtime: ContainerdRuntime, folder: Path) -> None:
        self.api, self.runtime = FakeKube(), runtime
        said = {"NODE_NAME": NODE, "POD_NAMESPACE": "default", "IRIS_SLICE": "machines", "IRIS_OUTSIDE": "kubeconfig"}
        self.config = from_environment(as_in_a_pod({**said, "IRIS_CACHE_DIR": str(folder)}, "the-machine"))

    @contextlib.asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent]:
        """From its start to SIGTERM."""
        agent, stop = Agent(self.config, self.api, self.runtime), asyncio.Event()
        running = asyncio.create_task(agent.run(stop))
        try:
            yield agent
        finally:
            stop.set()
            await running

    async def bind(self, name: str, command: tuple[str, ...]) -> str:
        """As someone who may write spec.binding; the Task's uid."""
        body = task_body(name, command, image=IMAGE, imagePullPolicy="Never")
        body["spec"]["binding"]["workerUid"] = self.config.pod_uid
        return str((await self.api.create(TASKS, body, "default"))["metadata"]["uid"])

    async def phase(self, name: str, wanted: str) -> dict[str, Any]:
        """Wait for it; the status."""
        async with asyncio.timeout(_SECONDS):
            while True:
                status: dict[str, Any] = (await self.api.get(TASKS, name, "default")).get("status") or {}
                if status.get("phase") == wanted:
                    return status
                await asyncio.sleep(0.02)

    async def delete(self, name: str) -> None:
        """Until it is gone."""
        await self.api.delete(TASKS, name, "default")
        with contextlib.suppress(NotFoundError):
            async with asyncio.timeout(_SECONDS):
                while True:
                    await self.api.get(TASKS, name, "default")
                    await asyncio.sleep(0.02)


@pytest.fixture
def machine(
    runtime: ContainerdRuntime, containerd: PrivateContainerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    monkeypatch.setenv("IRIS_CGROUP_PARENT", containerd.cgroup)
    return Machine(runtime, tmp_path / "cache")


async def test_a_task_outlives_the_agent_and_is_told_by_the_next(machine: Machine) -> None:
    async with machine.agent():
        uid = await machine.bind(
            "t", ("sh", "-c", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.1; done")
        )
        await machine.phase("t", "Running")
    (sandbox,) = await machine.runtime.list()
    assert sandbox.state is SandboxState.RUNNING  # SIGTERM was for the agent alone
    cgroup = Path(f"/proc/{sandbox.pid}/cgroup").read_text()
    assert "/iris-test-steady-" in cgroup
    async with machine.agent():
        await asyncio.sleep(0.2)
        await machine.runtime.signal(sandbox.id, 15)
        status = await machine.phase("t", "Failed")
        assert (status["exitCode"], status["attempt"]) == (3, 1)
        assert machine.config.log_path(uid, 1).read_text() == "up\nbye\n"
        await machine.delete("t")
    assert await machine.runtime.list() == []
    assert not machine.config.log_path(uid, 1).exists()


async def test_nobodys_sandboxes_go_and_other_peoples_stay(machine: Machine, containerd: PrivateContainerd) -> None:
    orphan, uid = "task-6dad5bce-aaa1-4e3e-be79-27a1842a2106-1", "6dad5bce-aaa1-4e3e-be79-27a1842a2106"
    containerd.call("containers", "create", IMAGE, "not-of-iris", "sleep", "600")
    containerd.call("containers", "create", "--label", f"iris.dev/task-uid={uid}", IMAGE, orphan, "true")
    async with machine.agent():
        async with asyncio.timeout(_SECONDS):
            while orphan in containerd.call("containers", "ls", "-q"):
                await asyncio.sleep(0.05)
        await machine.bind("t", ("true",))
        await machine.phase("t", "Succeeded")
        assert "not-of-iris" in containerd.call("containers", "ls", "-q").split()
        await machine.delete("t")
    assert "not-of-iris" in containerd.call("containers", "ls", "-q").split()
    containerd.call("containers", "delete", "not-of-iris")
