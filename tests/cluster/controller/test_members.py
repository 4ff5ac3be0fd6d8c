"""Tasks of several replicas on a real API server: members made, placed, repeated, ended and let go together."""

from __future__ import annotations

from typing import Any

import pytest

from iris_devcluster.coreweave.testing import eventually
from iris_operator.api.life import Cause
from iris_operator.api.task import Task
from iris_operator.plan.tasks.retry import AttemptEnd, attempt_over
from iris_operator.ports.errors import InvalidError
from iris_operator.ports.kube import SLICES, TASKS
from tests.builders import NOW
from tests.cluster.controller.operators import Operator
from tests.cluster.controller.world import Body, World

pytestmark = [pytest.mark.cluster]


@pytest.fixture
async def ready(world: World, operator: Operator) -> World:
    """A Ready slice `s` of two nodes with 8 GPUs each."""
    await world.make(SLICES, "s", {"instanceType": "cd-gp-i64-erapids", "nodeCount": 2})
    await world.phase(SLICES, "s", "Ready")
    return world


def _task(gpus: int = 8, **spec: Any) -> Body:
    return {"image": "iris/task:1", "replicas": 2, "resources": {"limits": {"nvidia.com/gpu": gpus}}, **spec}


async def _bound(world: World, name: str) -> Body:
    """The member, once it is there and bound."""

    async def found() -> Body | None:
        task = await world.find(TASKS, name)
        return task if task.get("spec", {}).get("binding") else None

    task = await eventually(found, 20)
    assert task is not None
    return task


async def _says(world: World, name: str, phase: str, **status: Any) -> None:
    """The agent, of the attempt that the member is bound for."""
    bound = await _bound(world, name)
    told = {"attempt": bound["spec"]["binding"]["attempt"], "startTime": "2026-11-21T12:00:00Z", **status}
    await world.agent_says(name, phase, **told)


async def _attempt_ends(world: World, name: str, reason: str, cause: Cause | None) -> None:
    """The agent: nothing of the attempt is there any more."""
    found = Task.parse(await _bound(world, name))
    status = attempt_over(found, AttemptEnd(reason, "so it is", NOW, cause)).wire()
    await world.api.patch(TASKS, name, {"status": status}, namespace=world.namespace, subresource="status")


async def _binding(world: World, name: str, attempt: int) -> Body:
    async def found() -> Body | None:
        binding: Body | None = (await world.find(TASKS, name)).get("spec", {}).get("binding")
        return binding if binding and binding["attempt"] == attempt else None

    binding = await eventually(found, 20)
    assert binding is not None
    return binding


async def _told(world: World, name: str) -> str:
    async def found() -> str:
        task = await world.find(TASKS, name)
        return str(task["spec"].get("binding", {}).get("stopReason", ""))

    reason = await eventually(found, 20)
    assert reason
    return reason


async def test_placed_together_and_done(ready: World) -> None:
    made = await ready.make(TASKS, "t", _task())
    first, second = await _binding(ready, "t-0", 1), await _binding(ready, "t-1", 1)
    assert (first["rank"], second["rank"]) == (0, 1)
    assert (first["member"]["rank"], second["member"]["rank"]) == (0, 1)
    peers = [one["nodeName"] for one in second["member"]["peers"]]
    assert peers == [first["nodeName"], second["nodeName"]]
    assert all(one["address"] for one in first["member"]["peers"])
    member = await ready.find(TASKS, "t-1")
    (owner,) = member["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
    assert member["metadata"]["labels"] == {"iris.dev/task": "t", "iris.dev/rank": "1"}
    assert member["spec"]["replicas"] == 1
    for name in ("t-0", "t-1"):
        await _says(ready, name, "Running")
    found = await ready.phase(TASKS, "t", "Running")
    assert found["status"]["membersReady"] == "2/2"
    assert "binding" not in found["spec"]
    for name in ("t-0", "t-1"):
        await _says(ready, name, "Succeeded", exitCode=0, finishTime="2026-11-21T12:01:00Z")
    found = await ready.phase(TASKS, "t", "Succeeded")
    assert (found["status"]["exitCode"], found["status"]["attempt"]) == (0, 1)
    await ready.api.delete(TASKS, "t", ready.namespace)
    for name in ("t-0", "t-1"):
        await ready.agent_lets_go(name)
    await ready.gone(TASKS, "t")
    assert await ready.all(TASKS) == []


async def test_one_is_lost_all_begin_anew(ready: World) -> None:
    await ready.make(TASKS, "t", _task(retryPolicy={"infrastructure": 1}))
    for name in ("t-0", "t-1"):
        await _says(ready, name, "Running")
    await ready.phase(TASKS, "t", "Running")
    await _attempt_ends(ready, "t-1", "WorkerLost", Cause.INFRASTRUCTURE)
    assert await _told(ready, "t-0") == "MembersRestart"
    assert "binding" not in (await ready.find(TASKS, "t-1"))["spec"]  # it waits for the other
    found = await ready.phase(TASKS, "t", "Pending")
    assert found["status"]["reason"] == "WorkerLost"
    await _attempt_ends(ready, "t-0", "MembersRestart", None)
    for name in ("t-0", "t-1"):
        binding = await _binding(ready, name, 2)
        assert binding["member"]["retries"]["infrastructure"] == 1
        await _says(ready, name, "Running")
    found = await ready.phase(TASKS, "t", "Running")
    assert (found["status"]["attempt"], found["status"]["retries"]["infrastructure"]) == (2, 1)
    assert [one["reason"] for one in found["status"]["attempts"]] == ["WorkerLost"]
    # The budget is that of both: the other one's first loss is one too many.
    await _attempt_ends(ready, "t-0", "WorkerLost", Cause.INFRASTRUCTURE)
    assert (await ready.find(TASKS, "t-0"))["status"]["phase"] == "WorkerLost"
    assert await _told(ready, "t-1") == "MemberFailed"
    await _says(ready, "t-1", "Killed", reason="MemberFailed")
    found = await ready.phase(TASKS, "t", "WorkerLost")
    assert "member t-0" in found["status"]["message"]


async def test_waits_whole_and_says_why(ready: World) -> None:
    await ready.make(TASKS, "other", {"image": "iris/task:1", "resources": {"limits": {"nvidia.com/gpu": 4}}})
    await ready.bound("other")
    await ready.make(TASKS, "t", _task())

    async def said() -> bool:
        found = (await ready.find(TASKS, "t")).get("status", {})
        return "of 2 there is room on slice s for 1" in str(found.get("message"))

    await eventually(said, 20)
    assert [one for one in await ready.all(TASKS) if one["spec"].get("binding")] == [await ready.find(TASKS, "other")]
    await ready.agent_says("other", "Succeeded", exitCode=0)
    await _binding(ready, "t-0", 1)
    await _binding(ready, "t-1", 1)


async def test_an_operator_killed_in_the_middle(world: World, start_operator: Any) -> None:
    """Again and again: members are made and placed once."""
    first = start_operator()
    await first.leads()
    await world.make(SLICES, "s", {"instanceType": "cd-gp-i64-erapids", "nodeCount": 2})
    await world.phase(SLICES, "s", "Ready")
    await world.make(TASKS, "t", _task(gpus=4, replicas=4))

    async def begun() -> bool:
        return len(await world.all(TASKS)) > 1

    await eventually(begun, 20)
    first.kill()
    second = start_operator()
    await second.leads()
    bindings = [await _binding(world, f"t-{rank}", 1) for rank in range(4)]
    assert len({str(one["member"]["peers"]) for one in bindings}) == 1
    assert [one["rank"] for one in bindings] == [0, 0, 1, 1]


async def test_the_schema_keeps_it_sane(world: World) -> None:
    made = await world.make(TASKS, "t", _task())
    with pytest.raises(InvalidError, match="can't be changed"):
        await world.api.patch(TASKS, "t", {"spec": {"replicas": 3}}, namespace=world.namespace)
    with pytest.raises(InvalidError):
        await world.make(TASKS, "none", _task(replicas=0))
    binding = {
        "sliceName": "s", "nodeName": "n", "workerPod": "w", "workerUid": "u", "rank": 0, "attempt": 1,
        "boundAt": "2026-11-21T12:00:00Z",
    }  # fmt: skip
    with pytest.raises(InvalidError, match="never placed itself"):
        await world.api.patch(TASKS, "t", {"spec": {"binding": binding}}, namespace=world.namespace)
    assert made["spec"]["replicas"] == 2
    plain = await world.make(TASKS, "plain", {"image": "iris/task:1"})
    assert plain["spec"]["replicas"] == 1
