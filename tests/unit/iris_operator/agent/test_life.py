"""A Task's life through a whole agent, on fakes: what is written, how often, and what is left."""

from __future__ import annotations

from iris_operator.ports.kube import TASKS
from tests.unit.iris_operator.agent.harness import Node, until


async def test_a_short_task_succeeds(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("true",))
        status = await node.phase("Succeeded")
        await until(lambda: not node.runtime.sandboxes)
    assert status["exitCode"] == 0
    assert status["reason"] == "Completed"
    assert status["containerId"] == f"task-{uid}-1"
    assert status["imageDigest"].startswith("sha256:")
    assert status["startTime"]
    assert status["finishTime"]
    assert {one["type"]: one["status"] for one in status["conditions"]} == {"Running": "False", "Complete": "True"}
    # It ended before anything was said of it: one patch tells all.
    assert node.status_writes() == 1


async def test_a_long_task_costs_two_writes(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        running = await node.phase("Running")
        node.runtime.finish(f"task-{uid}-1", 3)
        status = await node.phase("Failed")
    assert running["conditions"][0]["type"] == "Running"
    assert running["logPath"].endswith(f"/logs/{uid}/1/output.log")
    assert (status["reason"], status["message"], status["exitCode"]) == ("Error", "exit code 3", 3)
    assert status["startTime"] == running["startTime"]
    assert node.status_writes() == 2


async def test_out_of_memory_is_said_with_numbers(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"), resources={"limits": {"memory": "64Mi"}})
        await node.phase("Running")
        node.runtime.finish(f"task-{uid}-1", 137, oom_killed=True)
        status = await node.phase("Failed")
    assert status["reason"] == "OOMKilled"
    assert "64Mi" in status["message"]


async def test_the_command_knows_where_it_is(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(env=[{"name": "A", "value": "b"}, {"name": "IRIS_RANK", "value": "9"}])
        await node.phase("Succeeded")
    env = dict(node.runtime.specs[f"task-{uid}-1"].env)
    assert env["A"] == "b"
    assert env["IRIS_RANK"] == "0"
    assert env["IRIS_TASK_UID"] == uid
    assert env["IRIS_ATTEMPT"] == "1"
    assert env["IRIS_NODE_NAME"] == "node-1"
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"


async def test_many_side_by_side(node: Node) -> None:
    async with node.agent():
        for number in range(50):
            await node.bind(f"t{number}")
        for number in range(50):
            await node.phase("Succeeded", f"t{number}")
        await until(lambda: not node.runtime.sandboxes)
    assert len(node.runtime.started) == len(set(node.runtime.started)) == 50


async def test_a_missing_image_fails_at_once(node: Node) -> None:
    node.runtime.missing_images = {"registry.test/task:1"}
    async with node.agent():
        await node.bind()
        status = await node.phase("Failed")
    assert status["reason"] == "ImageNotFound"
    assert "startTime" not in status
    assert not node.runtime.started


async def test_a_missing_command_is_127(node: Node) -> None:
    async with node.agent():
        await node.bind(command=("/nonexistent",))
        status = await node.phase("Failed")
    assert (status["reason"], status["exitCode"]) == ("CommandNotFound", 127)
    assert status["conditions"][0]["type"] == "Failed"


async def test_a_task_bound_to_an_earlier_worker_is_left_alone(node: Node) -> None:
    async with node.agent():
        earlier, node.pod_uid = node.pod_uid, "an-earlier-pod"
        await node.bind("old")
        node.pod_uid = earlier
        await node.bind("new")
        await node.phase("Succeeded", "new")
    assert len(node.runtime.started) == 1
    assert node.status_writes("old") == 0


async def test_gpus_are_shared_out_whole(node: Node) -> None:
    from dataclasses import replace

    node.runtime.context = replace(node.runtime.context, env={"NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b,GPU-c"})
    gpus = {"limits": {"nvidia.com/gpu": "1"}}
    async with node.agent():
        first = await node.bind("a", ("sleep", "1"), resources=gpus)
        second = await node.bind("b", ("sleep", "1"), resources=gpus)
        await node.phase("Running", "a")
        await node.phase("Running", "b")
    async with node.agent():  # a restarted agent knows who has what
        third = await node.bind("c", ("sleep", "1"), resources=gpus)
        await node.phase("Running", "c")
    given = {dict(node.runtime.specs[f"task-{uid}-1"].env)["NVIDIA_VISIBLE_DEVICES"] for uid in (first, second, third)}
    assert given == {"GPU-a", "GPU-b", "GPU-c"}


async def test_a_task_whose_status_was_changed_meanwhile_is_decided_anew(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "1"))
        await node.phase("Running")
        await node.api.patch(TASKS, "t", {"metadata": {"labels": {"x": "y"}}}, namespace="default")
        node.runtime.finish(f"task-{uid}-1", 0)
        await node.phase("Succeeded")
