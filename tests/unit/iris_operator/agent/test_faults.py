"""Restarts and outages: of the agent, the API server, the runtime."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from iris_operator.agent.sandbox import store as sandboxes
from iris_operator.ports.kube import TASKS
from iris_runtimes.errors import ImagePullFailed, RuntimeUnavailable
from iris_runtimes.protocol import Image, Sandbox, SandboxSpec
from tests.unit.iris_operator.agent.build import sandbox
from tests.unit.iris_operator.agent.harness import Node, until


async def test_a_restarted_agent_adopts_silently(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        await node.phase("Running")
    writes = node.status_writes()
    async with node.agent() as agent:
        await until(lambda: agent.describe()["tasks"] == 1)
        await asyncio.sleep(0.1)
        assert node.status_writes() == writes
        node.runtime.finish(f"task-{uid}-1", 0)
        await node.phase("Succeeded")
    assert node.runtime.started == [f"task-{uid}-1"]


async def test_an_exit_while_the_agent_was_away_is_told_truly(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        await node.phase("Running")
    before = datetime.now(UTC).replace(microsecond=0)
    node.runtime.finish(f"task-{uid}-1", 5)
    async with node.agent():
        status = await node.phase("Failed")
    assert status["exitCode"] == 5
    assert datetime.fromisoformat(status["finishTime"]) >= before


async def test_what_started_before_it_could_be_told_is_adopted(node: Node) -> None:
    """kill -9 between the start and the Running patch."""
    uid = await node.bind(command=("sleep", "100"))
    found = sandbox(uid=uid, worker=node.pod_uid)
    node.runtime.sandboxes[found.id] = found
    async with node.agent():
        status = await node.phase("Running")
    assert node.runtime.started == []
    assert status["startTime"] == "2026-11-21T12:00:00Z"


async def test_a_vanished_sandbox_is_lost_and_never_run_again(node: Node) -> None:
    async with node.agent():
        await node.bind(command=("sleep", "100"))
        await node.phase("Running")
    node.runtime.sandboxes.clear()
    async with node.agent():
        status = await node.over(1)
    assert (status["phase"], status["reason"], status["retries"]["infrastructure"]) == ("Pending", "SandboxLost", 1)
    assert len(node.runtime.started) == 1


async def test_orphans_and_their_logs_go(node: Node) -> None:
    orphan = sandbox(uid="nobody", worker=node.pod_uid)
    foreign = Sandbox("someone-elses", {}, orphan.state)
    node.runtime.sandboxes = {orphan.id: orphan, foreign.id: foreign}
    left = node.folder / "logs" / "nobody-either"
    left.mkdir(parents=True)
    async with node.agent():
        await until(lambda: orphan.id not in node.runtime.sandboxes and not left.exists())
    assert foreign.id in node.runtime.sandboxes


async def test_an_earlier_attempt_goes_before_the_new_one_starts(node: Node) -> None:
    uid = await node.bind(command=("sleep", "1"))
    await node.api.patch(TASKS, "t", {"spec": {"binding": {"attempt": 2}}}, namespace="default")
    old = sandbox(uid=uid, worker=node.pod_uid, attempt=1)
    node.runtime.sandboxes[old.id] = old
    async with node.agent():
        status = await node.phase("Running")
        assert set(node.runtime.sandboxes) == {f"task-{uid}-2"}
    assert status["attempt"] == 2


async def test_the_api_server_may_be_away(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        await node.phase("Running")
        await node.fake.set_down(True)
        node.runtime.finish(f"task-{uid}-1", 0)
        await until(lambda: node.status_writes() >= 3)
        # What can't be told yet must not be removed either.
        assert f"task-{uid}-1" in node.runtime.sandboxes
        await node.fake.set_down(False)
        await node.phase("Succeeded")
        await until(lambda: not node.runtime.sandboxes)


async def test_a_platform_error_is_tried_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    real, tries = node.runtime.pull, 0

    async def flaky(*args: object, **kwargs: object) -> Image:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ImagePullFailed("registry.test: connection refused")
        return await real(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(node.runtime, "pull", flaky)
    async with node.agent():
        await node.bind()
        building = await node.phase("Building")
        await node.phase("Succeeded")
    assert building["reason"] == "ImagePullFailed"
    assert "connection refused" in building["message"]
    assert "failed 2 times" in building["message"]


async def test_a_runtime_that_is_away_is_nobodys_failure(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    real, tries = node.runtime.start, 0

    async def flaky(spec: SandboxSpec) -> Sandbox:
        nonlocal tries
        tries += 1
        if tries == 1:
            await real(spec)  # it was made, and the answer got lost
            raise RuntimeUnavailable("containerd does not answer")
        return await real(spec)

    monkeypatch.setattr(node.runtime, "start", flaky)
    async with node.agent():
        await node.bind()
        await node.phase("Succeeded")
    assert len(node.runtime.started) == 1


async def test_a_restarted_runtime_is_listed_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "_BACKOFF_SECONDS", (0.01, 0.05))
    async with node.agent() as agent:
        uid = await node.bind(command=("sleep", "100"))
        await node.phase("Running")
        node.runtime.break_down()
        await until(lambda: agent.health_problem())
        assert "has not answered" in agent.health_problem()
        assert agent.problem() == ""  # not for so short a time
        node.runtime.finish(f"task-{uid}-1", 4)
        node.runtime.available = True
        status = await node.phase("Failed")
        assert agent.health_problem() == ""
    assert status["exitCode"] == 4


async def test_it_registers_only_with_a_runtime(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "_BACKOFF_SECONDS", (0.01, 0.05))
    node.runtime.available = False
    async with node.agent(ready=False) as agent:
        await asyncio.sleep(0.1)
        assert agent.problem()
        assert not [write for write in node.fake.writes if write[1] == "leases"]
        node.runtime.available = True
        await until(lambda: any(write[1] == "leases" for write in node.fake.writes))
        assert agent.problem() == ""
    lease = await node.lease()
    assert lease["spec"]["holderIdentity"] == node.pod_uid
    assert lease["metadata"]["labels"]["iris.dev/slice"] == "s"
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node.pod_uid


async def test_an_end_that_was_written_over_is_told_again(node: Node) -> None:
    async with node.agent():
        await node.bind()
        before = await node.phase("Succeeded")
        await until(lambda: not node.runtime.sandboxes)
        late = {"status": {"phase": "Pending", "reason": "Assigned", "conditions": []}}
        await node.api.patch(TASKS, "t", late, namespace="default", subresource="status")
        assert await node.phase("Succeeded") == before
    assert len(node.runtime.started) == 1
