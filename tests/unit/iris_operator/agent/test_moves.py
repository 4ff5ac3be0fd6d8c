"""Attempts that end while their Task goes on elsewhere: what is told, when, and what becomes of the logs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from iris_operator.ports.kube import PODS, TASKS
from iris_runtimes.errors import RuntimeUnavailable
from tests.unit.iris_operator.agent.build import POD, binding
from tests.unit.iris_operator.agent.harness import Node, until


@pytest.mark.parametrize("reason", ["SliceDrained", "SliceDeleted", "SliceFailed"])
async def test_an_attempt_is_stopped_and_its_task_waits_again(node: Node, reason: str) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        await node.phase("Running")
        await node.stop(reason)
        status = await node.over(1)
        assert not node.runtime.sandboxes  # before it was told, not after
        assert node.status_writes() == 2
    assert (status["phase"], status["reason"], status.get("retries", {}).get("infrastructure", 0)) == (
        "Pending",
        reason,
        0,
    )
    (attempt,) = status["attempts"]
    assert (attempt["attempt"], attempt.get("cause"), attempt["exitCode"]) == (1, None, 143)
    assert attempt["logPath"].endswith(f"/logs/{uid}/1/output.log")
    assert "startTime" not in status
    assert node.runtime.signals == [(f"task-{uid}-1", 15)]


async def test_done_within_its_grace_is_done(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        node.runtime.ignores_sigterm.add(f"task-{uid}-1")
        await node.phase("Running")
        await node.stop("SliceDrained")
        await until(lambda: node.runtime.signals)
        node.runtime.finish(f"task-{uid}-1", 0)
        status = await node.phase("Succeeded")
    assert "endedAttempt" not in status


async def test_the_end_of_its_pod_moves_tasks_and_charges_nothing(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        await node.phase("Running")
        await node.bind("later", resources={"limits": {"cpu": "1"}}, image="registry.test/task:2")
        await node.phase("Succeeded", "later")
        await node.api.delete(PODS, POD, "default")
    # The agent has ended by now, and has seen to everything before.
    status = await node.over(1)
    assert (status["phase"], status["reason"], status.get("retries", {}).get("infrastructure", 0)) == (
        "Pending",
        "WorkerDeleted",
        0,
    )
    assert node.runtime.signals == [(f"task-{uid}-1", 15)]
    assert not node.runtime.sandboxes


async def test_nothing_is_told_while_the_sandbox_stands(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one rule that keeps a Task from running twice."""
    monkeypatch.setattr("iris_operator.agent.loop._RETRY_SECONDS", 0.02)
    real, tries = node.runtime.remove, 0

    async def stuck(sandbox_id: str) -> None:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise RuntimeUnavailable("a process that no SIGKILL ends")
        await real(sandbox_id)

    monkeypatch.setattr(node.runtime, "remove", stuck)
    async with node.agent():
        await node.bind(command=("sleep", "100"))
        await node.phase("Running")
        await node.stop("SliceDeleted")
        while tries < 4:
            assert "endedAttempt" not in ((await node.task()) or {})["status"]
            await asyncio.sleep(0.005)
        await node.over(1)


async def test_an_agent_that_ends_between_removal_and_word(node: Node) -> None:
    """kill -9 after the sandbox was removed: the next agent tells, without the exit code."""
    async with node.agent():
        await node.bind(command=("sleep", "100"))
        await node.phase("Running")
    await node.stop("SliceDrained")
    node.runtime.sandboxes.clear()
    async with node.agent():
        status = await node.over(1)
    assert (status["reason"], status["attempts"][0].get("cause")) == ("SliceDrained", None)
    assert len(node.runtime.started) == 1


async def test_over_and_bound_still_it_is_not_started_again(node: Node) -> None:
    async with node.agent():
        await node.bind(command=("sleep", "100"))
        await node.phase("Running")
        await node.stop("SliceDrained")
        await node.over(1)
    async with node.agent() as agent:
        await until(lambda: agent.describe()["tasks"] == 1)
        await asyncio.sleep(0.1)
    assert len(node.runtime.started) == 1
    assert node.status_writes() == 2


async def _moved(node: Node) -> str:
    """A Task that ran here and is free again; its uid. It has a log."""
    uid = await node.bind(command=("sleep", "100"))
    await node.phase("Running")
    node.write_log(uid, "words\n")
    await node.stop("SliceDrained")
    await node.over(1)
    await node.unbind()
    return uid


def _reads(node: Node, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    real, asked = node.fake.get, list[str]()

    async def get(kind: Any, name: str, namespace: str | None = None) -> dict[str, Any]:
        if kind == TASKS:
            asked.append(name)
        return await real(kind, name, namespace)

    monkeypatch.setattr(node.fake, "get", get)
    return asked


async def test_logs_outlive_the_move(node: Node) -> None:
    async with node.agent() as agent:
        uid = await _moved(node)
        await until(lambda: agent.describe()["tasks"] == 0)
        await asyncio.sleep(0.1)
        assert (node.folder / "logs" / uid / "1" / "output.log").read_text() == "words\n"
        assert agent.log_state(uid, 1) == "unknown"  # served as far as it goes
    async with node.agent():
        await asyncio.sleep(0.1)
        assert (node.folder / "logs" / uid).exists()


async def test_logs_of_a_task_that_was_deleted_elsewhere_go_with_the_next_start(node: Node) -> None:
    async with node.agent():
        uid = await _moved(node)
    await node.api.delete(TASKS, "t", "default")
    await node.bind("t", ("sleep", "100"))  # another one of that name
    async with node.agent():
        await until(lambda: not (node.folder / "logs" / uid).exists())


async def test_logs_stay_while_nobody_can_be_asked(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iris_operator.agent.loop._RETRY_SECONDS", 0.02)
    async with node.agent():
        uid = await _moved(node)
        await node.fake.set_down(True)
        await asyncio.sleep(0.1)
        assert (node.folder / "logs" / uid).exists()
        await node.fake.set_down(False)


async def test_a_task_deleted_under_the_agent_costs_no_question(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        await node.phase("Running")
        node.write_log(uid, "words\n")
        asked = _reads(node, monkeypatch)
        await node.api.delete(TASKS, "t", "default")
        await until(lambda: not (node.folder / "logs" / uid).exists() and not node.runtime.sandboxes)
        await asyncio.sleep(0.1)
    assert not asked


async def test_back_on_the_node_it_runs_as_the_next_attempt(node: Node) -> None:
    async with node.agent():
        uid = await _moved(node)
        patch = {"spec": {"binding": binding(workerUid=node.pod_uid, attempt=2)}}
        await node.api.patch(TASKS, "t", patch, namespace="default")
        status = await node.phase("Running")
        node.runtime.finish(f"task-{uid}-2", 0)
        done = await node.phase("Succeeded")
    assert node.runtime.started == [f"task-{uid}-1", f"task-{uid}-2"]
    assert (status["attempt"], status["endedAttempt"], len(status["attempts"])) == (2, 1, 1)
    assert (done["attempt"], done["endedAttempt"]) == (2, 1)
    assert {one["type"]: one["status"] for one in done["conditions"]} == {
        "Complete": "True", "Running": "False", "Scheduled": "True",
    }  # fmt: skip
    assert (node.folder / "logs" / uid / "1" / "output.log").exists()
