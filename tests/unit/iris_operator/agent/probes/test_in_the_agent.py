"""Probes through a whole agent, on fakes: what is told, what is stopped, and what it costs in writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from iris_operator.agent.memory import Illness, Memory
from iris_operator.agent.probes.target import target_of
from iris_operator.ports.kube import TASKS
from iris_runtimes.protocol import Sandbox
from tests.unit.iris_operator.agent.build import NOW, POD_UID, binding, sandbox, task
from tests.unit.iris_operator.agent.harness import Node, until


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    found = Node(tmp_path)
    await found.set_up()
    yield found


def asks(*command: str, **more: Any) -> dict[str, Any]:
    """An exec probe."""
    return {"exec": {"command": list(command)}, "periodSeconds": 1, "failureThreshold": 1, **more}


async def condition(node: Node, kind: str, status: str) -> dict[str, Any]:
    """Wait for a condition of the Task."""
    async with asyncio.timeout(10):
        while True:
            told = ((await node.task() or {}).get("status") or {}).get("conditions", [])
            found: dict[str, Any] = next((one for one in told if one["type"] == kind), {})
            if found.get("status") == status:
                return found
            await asyncio.sleep(0.005)


async def test_readiness_is_told_when_it_changes_and_only_then(node: Node) -> None:
    node.runtime.missing_commands.add("check")
    async with node.agent():
        await node.bind(command=("sleep", "100"), readinessProbe=asks("check"))
        lost = await condition(node, "Ready", "False")
        node.runtime.missing_commands.discard("check")
        await condition(node, "Ready", "True")
        asked = len(node.runtime.sessions)
        await until(lambda: len(node.runtime.sessions) > asked + 1)
    assert lost["reason"] in ("ReadinessProbePending", "ReadinessProbeFailed")
    assert node.status_writes() <= 3  # Running; not ready, in what words; ready


async def test_liveness_ends_it_as_the_users_failure(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"), livenessProbe=asks("false"))
        status = await node.phase("Failed")
        await until(lambda: not node.runtime.sandboxes)
    assert status["reason"] == "LivenessProbeFailed"
    assert "liveness failed: `false` exit code 1" in status["message"]
    assert node.runtime.signals == [(f"task-{uid}-1", 15)]


async def test_after_a_failed_probe_the_user_may_have_it_run_again(node: Node) -> None:
    async with node.agent():
        await node.bind(
            command=("sleep", "100"),
            startupProbe=asks("sh", "-c", "exit 4"),
            retryPolicy={"user": 1, "backoffSeconds": 0},
        )
        status = await node.over(1)
    assert (status["phase"], status["retries"]["user"]) == ("Pending", 1)
    assert status["attempts"][0]["reason"] == "StartupProbeFailed"
    assert "startup failed: `sh -c 'exit 4'` exit code 4" in status["attempts"][0]["message"]


async def test_what_runs_elsewhere_is_not_ready_meanwhile(node: Node) -> None:
    async with node.agent():
        await node.bind(command=("sleep", "100"), readinessProbe=asks("true"))
        await condition(node, "Ready", "True")
        await node.stop("SliceDrained")
        status = await node.over(1)
    told = {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}
    assert told["Ready"] == told["Running"] == ("False", "SliceDrained")


async def test_started_is_told_once_the_startup_probe_succeeds(node: Node) -> None:
    node.runtime.missing_commands.add("check")
    async with node.agent():
        await node.bind(
            command=("sleep", "100"),
            startupProbe=asks("check", failureThreshold=99),
            livenessProbe=asks("false"),
        )
        assert (await condition(node, "Started", "False"))["reason"] == "StartupProbePending"
        assert not [one for one in node.runtime.sessions if one.request.command == ("false",)]
        node.runtime.missing_commands.discard("check")
        status = await node.phase("Failed")
    assert status["reason"] == "LivenessProbeFailed"


async def test_what_stops_is_not_ready_before_it_ends(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"), readinessProbe=asks("true"), terminationGracePeriodSeconds=60)
        await condition(node, "Ready", "True")
        node.runtime.ignores_sigterm.add(f"task-{uid}-1")
        await node.api.delete(TASKS, "t", namespace="default")
        left = await condition(node, "Ready", "False")
        assert (left["reason"], left["message"]) == ("TaskDeleted", "it is stopped because the Task was deleted")
        await until(lambda: node.runtime.signals)
        asked = len(node.runtime.sessions)
        node.runtime.finish(f"task-{uid}-1", 0)
        await node.gone()
    assert len(node.runtime.sessions) == asked


async def test_what_ends_by_itself_is_not_ready_any_more(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"), readinessProbe=asks("true"))
        await condition(node, "Ready", "True")
        node.runtime.finish(f"task-{uid}-1", 0)
        status = await node.phase("Succeeded")
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "Complete": "True",
        "Ready": "False",
        "Running": "False",
    }


async def test_a_restarted_agent_leaves_what_was_told_until_it_knows_better(node: Node) -> None:
    async with node.agent():
        await node.bind(command=("sleep", "100"), readinessProbe=asks("true"))
        await condition(node, "Ready", "True")
    before = node.status_writes()
    asked = len(node.runtime.sessions)
    async with node.agent():
        await until(lambda: len(node.runtime.sessions) > asked)
        await condition(node, "Ready", "True")
    assert node.status_writes() == before


RUNS = {"phase": "Running", "attempt": 1, "startTime": "2026-11-21T12:00:05Z"}
PROBE: Any = {"readinessProbe": {"tcpSocket": {"port": 80}}}
ASKED: dict[str, tuple[Any, list[Sandbox], Memory, bool]] = {
    "it runs and is told to": (task(RUNS, **PROBE), [sandbox()], Memory(), True),
    "no probe": (task(RUNS), [sandbox()], Memory(), False),
    "not told yet, its set-up may run": (task({"phase": "Building", "attempt": 1}, **PROBE), [sandbox()], Memory(), False),
    "told of an earlier attempt": (
        task(RUNS, bound=binding(attempt=2), **PROBE), [sandbox(attempt=2)], Memory(), False,
    ),
    "it has ended": (task(RUNS, **PROBE), [sandbox(code=0)], Memory(), False),
    "no sandbox": (task(RUNS, **PROBE), [], Memory(), False),
    "another worker's": (task(RUNS, **PROBE), [sandbox(worker="other")], Memory(), False),
    "deleted": (task(RUNS, deleting=True, **PROBE), [sandbox()], Memory(), False),
    "told to stop": (task(RUNS, bound=binding(stopReason="SliceDrained"), **PROBE), [sandbox()], Memory(), False),
    "ill": (task(RUNS, **PROBE), [sandbox()], Memory(attempt=1, ill=Illness("VolumeFull", "x")), False),
    "signalled": (task(RUNS, **PROBE), [sandbox()], Memory(attempt=1, term_sent=NOW), False),
    "an earlier attempt was": (task(RUNS, **PROBE), [sandbox()], Memory(attempt=0, term_sent=NOW), True),
    "gone": (None, [sandbox()], Memory(), False),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "sandboxes", "memory", "is_asked"), ASKED.values(), ids=ASKED)
def test_who_is_asked(wanted: Any, sandboxes: list[Sandbox], memory: Memory, is_asked: bool) -> None:
    target = target_of(wanted, sandboxes, memory, POD_UID)
    assert (target is not None) is is_asked
    if target is not None:  # the command's start, not its set-up's
        assert (target.started_at - NOW).total_seconds() == 5


@pytest.mark.parametrize("code", [0, 7, 143])
async def test_why_it_was_stopped_outlives_the_agent(node: Node, code: int) -> None:
    async with node.agent():
        node.runtime.ignores_sigterm.add(
            f"task-{await node.bind(command=('sleep', '9'), livenessProbe=asks('false'))}-1"
        )
        await until(lambda: node.runtime.signals)
        told = await condition(node, "Running", "True")
        await until(lambda: node.status_writes() == 2)
    assert told["status"] == "True"
    (sandbox_id,) = node.runtime.sandboxes
    node.runtime.finish(sandbox_id, code)
    async with node.agent():
        status = await node.phase("Failed")
    assert status["reason"] == "LivenessProbeFailed"
    assert "liveness failed: `false` exit code 1" in status["message"]
