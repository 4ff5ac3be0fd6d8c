"""Tasks that lost their worker or had to leave it: placed again, never before it is certain that nothing of them runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from iris_devcluster.coreweave.testing import eventually
from iris_operator.ports.kube import NODES, PODS, SLICES, TASKS
from tests.cluster.controller.conftest import Start
from tests.cluster.controller.operators import Operator
from tests.cluster.controller.world import Body, World

pytestmark = pytest.mark.cluster

POD = "s-worker-0"
OVER: dict[str, Any] = {
    "reason": "SliceDrained", "endedAttempt": 1, "retries": {},
    "attempts": [{"attempt": 1, "reason": "SliceDrained"}],
}  # fmt: skip


async def _running(world: World, name: str = "t", compute_class: str = "default", **spec: Any) -> Body:
    """A Task that runs on slice `s`, made now."""
    if not await world.find(SLICES, "s"):
        await world.make(SLICES, "s", {"instanceType": "cd-gp-i64-erapids", "computeClass": compute_class})
    await world.phase(SLICES, "s", "Ready")
    await world.make(TASKS, name, {"image": "iris/task:1", **spec})
    await world.bound(name)
    await world.agent_says(name, "Running", startTime="2026-11-21T12:00:00Z")
    return await world.find(TASKS, name)


async def _attempt(world: World, number: int, name: str = "t") -> Body:
    """Wait until the Task is bound for that attempt; the Task."""

    async def bound() -> Body | None:
        found = await world.find(TASKS, name)
        return found if found.get("spec", {}).get("binding", {}).get("attempt") == number else None

    found = await eventually(bound)
    assert found is not None
    return found


@pytest.mark.usefixtures("operator")
async def test_a_worker_that_is_replaced_loses_its_tasks_to_its_successor(world: World) -> None:
    before = await _running(world)
    await world.api.delete(PODS, POD, world.namespace)
    found = await _attempt(world, 2)
    status = found["status"]
    assert (status["endedAttempt"], status["retries"]["infrastructure"]) == (1, 1)
    assert "startTime" not in status
    (attempt,) = status["attempts"]
    assert (attempt["attempt"], attempt["reason"], attempt["cause"]) == (1, "WorkerLost", "Infrastructure")
    assert attempt["startTime"] == "2026-11-21T12:00:00Z"
    old, new = before["spec"]["binding"], found["spec"]["binding"]
    assert (old["workerPod"], old["workerUid"] != new["workerUid"]) == (new["workerPod"], True)
    assert found["metadata"]["finalizers"] == ["iris.dev/task"]
    assert "WorkerLost" in await world.event_reasons("t")


@pytest.mark.usefixtures("operator")
async def test_a_pod_deleted_by_force_on_a_silent_node_is_no_proof(world: World) -> None:
    await _running(world)
    world.ends = False  # the kubelet says nothing: it may well run everything
    await world.worker_vanishes(POD)
    for _ in range(20):
        await asyncio.sleep(0.1)
        found = await world.find(TASKS, "t")
        assert (found["status"]["phase"], found["spec"]["binding"]["attempt"]) == ("Running", 1)
    assert (await world.find(PODS, POD))["metadata"]["deletionGracePeriodSeconds"] == 0
    world.ends = True
    assert (await _attempt(world, 2))["status"]["retries"]["infrastructure"] == 1


@pytest.mark.usefixtures("operator")
async def test_containers_that_ended_are_no_proof_yet(world: World) -> None:
    """The kubelet has stopped the agent, and has not yet cleared the Pod's cgroup, where the Tasks are."""
    await _running(world)
    world.ends = False
    await world.api.delete(PODS, POD, world.namespace)
    over = {"status": {"phase": "Failed"}}
    await world.api.patch(PODS, POD, over, namespace=world.namespace, subresource="status")
    await asyncio.sleep(1.5)
    assert (await world.find(TASKS, "t"))["status"]["phase"] == "Running"
    world.ends = True
    await _attempt(world, 2)


@pytest.mark.usefixtures("operator")
async def test_a_node_that_is_gone_is_proof(world: World) -> None:
    found = await _running(world)
    world.ends = world.boots = False
    await world.api.delete(NODES, found["spec"]["binding"]["nodeName"])
    await world.gone(PODS, POD)
    status = (await world.phase(TASKS, "t", "Pending"))["status"]
    assert (status["endedAttempt"], status["retries"]["infrastructure"]) == (1, 1)
    world.ends = world.boots = True
    await _attempt(world, 2)


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize(
    ("compute_class", "phase", "reason", "cause"),
    [("default", "WorkerLost", "WorkerLost", "infrastructure"), ("spot", "Preempted", "SpotReclaimed", "preemption")],
)
async def test_without_a_retry_left_it_ends(
    world: World, compute_class: str, phase: str, reason: str, cause: str
) -> None:
    await _running(world, compute_class=compute_class, retryPolicy={cause: 0})
    await world.worker_vanishes(POD)
    found = await world.phase(TASKS, "t", phase)
    assert found["status"]["reason"] == reason
    assert "not the command's fault" in found["status"]["message"]
    assert f"retryPolicy.{cause} is 0" in found["status"]["message"]
    assert found["spec"]["binding"]["attempt"] == 1
    await world.api.delete(TASKS, "t", world.namespace)
    await world.gone(TASKS, "t")


@pytest.mark.usefixtures("operator")
async def test_a_task_that_leaves_with_its_worker_just_leaves(world: World) -> None:
    await _running(world)
    await world.api.delete(TASKS, "t", world.namespace)
    await world.worker_vanishes(POD)
    await world.gone(TASKS, "t")


@pytest.mark.usefixtures("operator")
async def test_the_agents_word_frees_it_for_another_place(world: World) -> None:
    await _running(world)
    await world.make(SLICES, "other", {"instanceType": "cd-gp-i64-erapids"})
    await world.phase(SLICES, "other", "Ready")
    await world.api.delete(SLICES, "s", world.namespace)

    async def told() -> bool:
        return bool((await world.find(TASKS, "t"))["spec"]["binding"].get("stopReason") == "SliceDeleted")

    await eventually(told)
    await world.agent_says("t", "Pending", **{**OVER, "reason": "SliceDeleted"})
    found = await _attempt(world, 2)
    assert (found["spec"]["binding"]["sliceName"], found["status"]["retries"]) == ("other", {})
    assert not found["spec"]["binding"].get("stopReason")
    await world.gone(SLICES, "s")


@pytest.mark.usefixtures("operator")
async def test_deleted_between_two_attempts_nothing_holds_it(world: World) -> None:
    await _running(world, placement={"sliceName": "s"})
    await world.api.delete(SLICES, "s", world.namespace)
    await world.agent_says("t", "Pending", **OVER)

    async def free() -> bool:
        return "binding" not in (await world.find(TASKS, "t"))["spec"]

    await eventually(free)
    await world.api.delete(TASKS, "t", world.namespace)
    assert not await world.find(TASKS, "t")  # at once: no finalizer is left


@pytest.mark.usefixtures("operator")
async def test_over_and_deleted_at_once(world: World) -> None:
    await _running(world)
    await world.api.delete(TASKS, "t", world.namespace)
    await world.agent_says("t", "Pending", **OVER)
    await world.gone(TASKS, "t")


async def test_an_operator_that_ends_between_its_two_writes(
    world: World, operator: Operator, start_operator: Start
) -> None:
    """kill -9 after "over", before the binding is cleared; then after that, before the next one."""
    await _running(world)
    operator.kill()
    await world.agent_says("t", "Pending", **OVER)
    await world.lease_runs_out()
    await start_operator().leads()
    found = await _attempt(world, 2)
    assert (found["status"]["retries"], len(found["status"]["attempts"])) == ({}, 1)
    assert found["status"]["endedAttempt"] == 1


async def test_a_worker_that_ends_while_no_operator_looks(
    world: World, operator: Operator, start_operator: Start
) -> None:
    await _running(world)
    operator.kill()
    await world.api.delete(PODS, POD, world.namespace)
    await asyncio.sleep(0.5)
    assert await world.find(PODS, POD)  # held for whoever comes
    await world.lease_runs_out()
    await start_operator().leads()
    found = await _attempt(world, 2)
    assert (found["status"]["retries"], found["status"]["attempts"][0]["reason"]) == (
        {"infrastructure": 1},
        "WorkerLost",
    )
