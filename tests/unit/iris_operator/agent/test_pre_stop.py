"""preStop on a whole agent: before the stop signal, within the grace, and however it goes, the stop goes on."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.ports.kube import TASKS
from tests.unit.iris_operator.agent.harness import Node, until


def hook(*command: str) -> dict[str, Any]:
    return {"preStop": {"exec": {"command": list(command)}}}


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("true",), "(exit code 138, by SIGUSR1)"),
        (("sh", "-c", "exit 3"), "; preStop failed: exit code 3 ("),
        (("/nonexistent",), "; preStop failed: /nonexistent is not in the image ("),
    ],
)
async def test_it_is_done_and_then_the_stop_signal_is_sent(node: Node, command: tuple[str, ...], says: str) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"), lifecycle={**hook(*command), "stopSignal": "SIGUSR1"})
        await node.phase("Running")
        await node.stop("Stopped")
        status = await node.phase("Killed")
        assert says in status["message"]
        assert node.runtime.signals == [(f"task-{uid}-1", 10)]
        await until(lambda: not node.runtime.sandboxes)
    assert [one.request.command for one in node.runtime.sessions] in ([list(command)], [])


async def test_one_that_hangs_is_killed_at_the_end_of_the_grace(node: Node) -> None:
    async with node.agent():
        lifecycle = hook("sleep", "100")
        uid = await node.bind(command=("sleep", "100"), terminationGracePeriodSeconds=1, lifecycle=lifecycle)
        await node.phase("Running")
        await node.api.delete(TASKS, "t", "default")
        await node.gone()
        assert node.runtime.signals == [(f"task-{uid}-1", 9)]
        assert [one.closed for one in node.runtime.sessions] == [True]


async def test_an_agent_that_comes_in_between_does_it_again(node: Node) -> None:
    async with node.agent():
        await node.bind(command=("sleep", "100"), lifecycle=hook("sleep", "100"))
        await node.phase("Running")
        await node.stop("Stopped")
        await until(lambda: len(node.runtime.sessions) == 1)
    assert node.runtime.sessions[0].closed and not node.runtime.signals
    async with node.agent():
        await until(lambda: len(node.runtime.sessions) == 2)
        node.runtime.sessions[1].end(0)
        await node.phase("Killed")


async def test_what_ends_by_itself_while_it_runs_is_not_signalled(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"), lifecycle=hook("sleep", "100"))
        await node.phase("Running")
        await node.stop("SliceDrained")
        await until(lambda: len(node.runtime.sessions) == 1)
        node.runtime.finish(f"task-{uid}-1", 0)
        await node.phase("Succeeded")
        await until(lambda: not node.runtime.sandboxes)
    assert node.runtime.signals == [] and node.runtime.sessions[0].closed


async def test_a_port_that_has_no_number(node: Node) -> None:
    async with node.agent():
        await node.bind(lifecycle={"preStop": {"httpGet": {"port": "web"}}})
        assert "port 'web'" in (await node.phase("Failed"))["message"]


async def test_running_too_long_ends_it(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"), timeouts={"runningSeconds": 1})
        status = await node.phase("Failed")
        await until(lambda: not node.runtime.sandboxes)
    assert (status["reason"], status["exitCode"]) == ("RunningTimeout", 143)
    assert node.runtime.signals == [(f"task-{uid}-1", 15)]


async def test_a_users_failure_is_told_when_nothing_of_it_is_left(node: Node) -> None:
    async with node.agent():
        await node.bind(command=("exit", "3"), retryPolicy={"user": 1})
        status = await node.over()
        assert not node.runtime.sandboxes
    assert (status["phase"], status["retries"]["user"], status["attempts"][0]["exitCode"]) == ("Pending", 1, 3)
    assert node.status_writes() == 1
