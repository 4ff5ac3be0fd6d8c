"""Tasks: placed, told why not, lost with their worker."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from iris_devcluster.coreweave.testing import eventually
from iris_operator.api.life import Cause
from iris_operator.api.task import Task
from iris_operator.plan.tasks.retry import AttemptEnd, attempt_over
from iris_operator.ports.kube import PODS, SLICES, TASKS
from tests.cluster.controller.operators import Operator
from tests.cluster.controller.world import Body, World

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]


@pytest.fixture
async def ready(world: World) -> World:
    """A Ready slice `s` of one node: 3800m cpu less neighbours, 8 GPUs."""
    await world.make(SLICES, "s", {"instanceType": "cd-gp-i64-erapids"})
    await world.phase(SLICES, "s", "Ready")
    return world


def _task(**limits: Any) -> Body:
    return {
        "image": "iris/task:1",
        "resources": {"limits": {name.replace("gpu", "nvidia.com/gpu"): value for name, value in limits.items()}},
    }


async def test_bound_with_our_finalizer_in_one_write(ready: World) -> None:
    made = await ready.make(TASKS, "t", _task(cpu=1))
    found = await ready.bound("t")
    (pod,) = await ready.all(PODS)
    assert found["metadata"]["finalizers"] == ["iris.dev/task"]
    binding = found["spec"]["binding"]
    assert (binding["sliceName"], binding["workerPod"], binding["attempt"], binding["rank"]) == (
        "s",
        "s-worker-0",
        1,
        0,
    )
    assert (binding["workerUid"], binding["nodeName"]) == (pod["metadata"]["uid"], pod["spec"]["nodeName"])
    assert found["metadata"]["generation"] == made["metadata"]["generation"] + 1


async def test_an_agent_that_is_slow_to_speak(ready: World) -> None:
    await ready.make(TASKS, "t", _task(cpu=1))
    found = await ready.phase(TASKS, "t", "Assigned")
    assert (found["status"]["reason"], found["status"]["attempt"]) == ("Assigned", 1)
    await ready.agent_says("t", "Running")
    await ready.agent_says("t", "Succeeded", exitCode=0)
    assert (await ready.find(TASKS, "t"))["status"]["phase"] == "Succeeded"


async def test_ready_slices_count_their_tasks(ready: World) -> None:
    await ready.make(TASKS, "t", _task(cpu=1))

    async def counted() -> bool:
        return bool((await ready.find(SLICES, "s"))["status"].get("tasks") == 1)

    await eventually(counted)
    assert "idleSince" not in (await ready.find(SLICES, "s"))["status"]
    await ready.agent_says("t", "Succeeded")

    async def idle() -> bool:
        return "idleSince" in (await ready.find(SLICES, "s"))["status"]

    await eventually(idle)


@pytest.mark.parametrize(
    ("limits", "reason", "words"),
    [
        ({"gpu": 9}, "TooLarge", "the largest node offers 8 nvidia.com/gpu"),
        ({"cpu": 100}, "TooLarge", "needs cpu 100"),
    ],
)
async def test_why_it_waits(ready: World, limits: Body, reason: str, words: str) -> None:
    await ready.make(TASKS, "t", _task(**limits))
    found = await ready.phase(TASKS, "t", "Pending")
    assert found["status"]["reason"] == reason
    assert words in found["status"]["message"]
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Scheduled", "False")


async def test_never_placed(world: World) -> None:
    """Denied at once; or not placed in the time that it gives itself."""
    await world.make(TASKS, "denied", {**_task(cpu=1), "securityContext": {"privileged": True}})
    await world.make(TASKS, "late", {**_task(cpu=1), "timeouts": {"schedulingSeconds": 2}})
    denied, late = [await world.phase(TASKS, name, "Failed") for name in ("denied", "late")]
    assert (denied["status"]["reason"], denied["status"]["message"]) == (
        "PolicyDenied", "securityContext.privileged: IrisCluster default spec.policy.allowPrivileged is false",
    )  # fmt: skip
    assert late["status"]["reason"] == "SchedulingTimeout"
    assert "not placed within 2s" in late["status"]["message"] and "NoSliceReady" in late["status"]["message"]
    assert not any("binding" in one["spec"] for one in (denied, late))

    async def told() -> bool:
        return "PolicyDenied" in await world.event_reasons("denied")

    await eventually(told)


async def test_rests_after_a_user_failure(ready: World) -> None:
    """The agent's word is that of attempt_over; the operator unbinds, waits, and binds the second attempt."""
    policy = {"user": 1, "backoffSeconds": 3}
    await ready.make(TASKS, "t", {**_task(cpu=1), "retryPolicy": policy})
    task = Task.parse(await ready.bound("t"))
    end = AttemptEnd("Error", "exit code 3", datetime.now(UTC), Cause.USER, exit_code=3)
    over = attempt_over(task, end)
    assert over.retry_after is not None
    body = {"status": over.wire()}
    await ready.api.patch(TASKS, "t", body, namespace=ready.namespace, subresource="status")

    async def again() -> Task | None:
        found = Task.parse(await ready.find(TASKS, "t"))
        return found if found.spec.binding is not None and found.spec.binding.attempt == 2 else None

    found = await eventually(again)
    assert found is not None and found.spec.binding is not None
    assert found.spec.binding.bound_at >= over.retry_after
    assert (found.status.retries.user, found.status.attempts[0].exit_code) == (1, 3)


async def test_waits_for_room_and_gets_it(ready: World) -> None:
    for name in ("a", "b"):
        await ready.make(TASKS, name, _task(gpu=5))
        if name == "a":
            await ready.bound("a")
    found = await ready.phase(TASKS, "b", "Pending")
    assert "1 node has 3 nvidia.com/gpu free" in found["status"]["message"]
    await ready.agent_says("a", "Succeeded", exitCode=0)
    await ready.bound("b", seconds=5)


async def test_waits_for_a_slice(world: World) -> None:
    await world.make(TASKS, "t", _task(cpu=1))
    found = await world.phase(TASKS, "t", "Pending")
    assert (found["status"]["reason"], "apply a Slice" in found["status"]["message"]) == ("NoSliceReady", True)
    await world.make(SLICES, "s", {"instanceType": "cd-gp-i64-erapids"})
    await world.bound("t")


async def test_ended_before_its_worker_vanished_stays_as_it_was(ready: World) -> None:
    await ready.make(TASKS, "t", _task(cpu=1))
    await ready.bound("t")
    await ready.agent_says("t", "Failed", reason="Error", exitCode=3)
    await ready.worker_vanishes("s-worker-0")
    await ready.phase(SLICES, "s", "Degraded")
    await ready.phase(SLICES, "s", "Ready")
    assert (await ready.find(TASKS, "t"))["status"]["phase"] == "Failed"


async def test_a_deleted_task_is_its_agent_s_to_let_go(ready: World) -> None:
    await ready.make(TASKS, "t", _task(cpu=1))
    await ready.bound("t")
    await ready.agent_says("t", "Running")
    await ready.api.delete(TASKS, "t", ready.namespace)
    await ready.make(TASKS, "next", _task(cpu=1))
    await ready.bound("next")
    assert (await ready.find(TASKS, "t"))["metadata"]["finalizers"] == ["iris.dev/task"]
    await ready.agent_lets_go("t")
    await ready.gone(TASKS, "t")


async def test_many_at_once_never_over_capacity(ready: World, operator: Operator) -> None:
    for number in range(20):
        await ready.make(TASKS, f"t{number:02}", _task(gpu=1, memory="64Mi"))
    tasks: list[Body] = []

    async def eight() -> bool:
        nonlocal tasks
        tasks = [one for one in await ready.all(TASKS) if one["spec"].get("binding")]
        return len(tasks) >= 8

    await eventually(eight)
    for one in tasks[:3]:
        await ready.agent_says(one["metadata"]["name"], "Succeeded")

    async def eleven() -> bool:
        return len([one for one in await ready.all(TASKS) if one["spec"].get("binding")]) >= 11

    await eventually(eleven)
    open_tasks = [
        one for one in await ready.all(TASKS)
        if one["spec"].get("binding") and one.get("status", {}).get("phase") != "Succeeded"
    ]  # fmt: skip
    assert len(open_tasks) == 8
    assert operator.exit_code is None
