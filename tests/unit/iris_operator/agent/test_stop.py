"""Stopping: deletion, a stop asked for by the operator, the worker Pod's own end."""

from __future__ import annotations

from iris_operator.ports.kube import TASKS
from tests.unit.iris_operator.agent.harness import Node, until


async def test_deletion_stops_and_leaves_nothing(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        await node.phase("Running")
        log = node.folder / "logs" / uid / "1" / "output.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("words\n")
        await node.api.delete(TASKS, "t", "default")
        await node.gone()
        assert not log.parent.parent.exists()
    assert node.runtime.signals == [(f"task-{uid}-1", 15)]
    assert not node.runtime.sandboxes
    # Running, Killed; then the finalizer.
    assert node.status_writes() == 2
    assert node.fake.writes.count(("patch", "tasks", "t")) == 1


async def test_what_ignores_sigterm_is_killed_after_its_grace(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"), terminationGracePeriodSeconds=1)
        node.runtime.ignores_sigterm.add(f"task-{uid}-1")
        await node.phase("Running")
        await node.api.delete(TASKS, "t", "default")
        await node.gone()
    assert node.runtime.signals == [(f"task-{uid}-1", 15), (f"task-{uid}-1", 9)]


async def test_a_stop_for_good_is_killed_with_its_reason(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        await node.phase("Running")
        await node.stop("Stopped")
        status = await node.phase("Killed")
        await until(lambda: not node.runtime.sandboxes)
        assert await node.task() is not None
    assert status["reason"] == "Stopped"
    assert status["exitCode"] == 143
    assert node.runtime.signals == [(f"task-{uid}-1", 15)]


async def test_deleted_before_its_start_it_never_runs(node: Node) -> None:
    await node.bind()
    await node.api.delete(TASKS, "t", "default")
    async with node.agent():
        await node.gone()
    assert not node.runtime.started
    assert node.status_writes() == 0


async def test_the_end_of_the_agent_alone_stops_nothing(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        await node.phase("Running")
    assert node.runtime.signals == []
    assert f"task-{uid}-1" in node.runtime.sandboxes
