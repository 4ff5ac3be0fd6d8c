"""The whole agent on a real API server, with a fake runtime: what the fake API can't prove."""

from __future__ import annotations

from pathlib import Path

import pytest

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.ports.kube import PODS, TASKS
from tests.unit.iris_operator.agent.build import POD
from tests.unit.iris_operator.agent.harness import Node, until

pytestmark = pytest.mark.cluster


@pytest.fixture
async def node(tmp_path: Path, api: KubeClient, namespace: str) -> Node:
    found = Node(tmp_path, api, namespace)
    await found.set_up()
    return found


async def test_life_and_deletion(node: Node) -> None:
    async with node.agent() as agent:
        uid = await node.bind(command=("sleep", "100"))
        running = await node.phase("Running")
        assert running["containerId"] == f"task-{uid}-1"
        await node.api.delete(TASKS, "t", node.namespace)
        await node.gone()
        assert agent.metrics.api_writes["patch", "tasks/status"] == 2
        assert agent.metrics.api_writes["patch", "tasks"] == 1
    assert node.runtime.signals == [(f"task-{uid}-1", 15)]
    assert not node.runtime.sandboxes


async def test_short_tasks_end_as_the_schema_wants(node: Node) -> None:
    async with node.agent():
        for number in range(20):
            await node.bind(f"t{number}")
        await node.bind("bad", ("/nonexistent",))
        for number in range(20):
            assert (await node.phase("Succeeded", f"t{number}"))["exitCode"] == 0
        assert (await node.phase("Failed", "bad"))["exitCode"] == 127
        await until(lambda: not node.runtime.sandboxes)


async def test_the_operators_words_meanwhile_are_no_obstacle(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        await node.phase("Running")
        words = {"status": {"message": "from elsewhere"}}
        await node.api.patch(TASKS, "t", words, namespace=node.namespace, subresource="status")
        node.runtime.finish(f"task-{uid}-1", 0)
        assert (await node.phase("Succeeded"))["message"] == "exit code 0"


async def test_a_restart_adopts(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        before = await node.phase("Running")
    async with node.agent() as agent:
        await until(lambda: agent.describe()["tasks"] == 1)
        assert (await node.phase("Running")) == before
        node.runtime.finish(f"task-{uid}-1", 0)
        await node.phase("Succeeded")
    assert node.runtime.started == [f"task-{uid}-1"]


async def test_a_move_is_written_as_the_schema_wants(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "100"))
        await node.phase("Running")
        await node.stop("SliceDrained")
        status = await node.over(1)
        assert (status["phase"], status["attempts"][0]["exitCode"]) == ("Pending", 143)
        assert "startTime" not in status
        node.write_log(uid, "words\n")
        await node.unbind()
        await until(lambda: not node.runtime.sandboxes)
        found = await node.task()
        assert found is not None and "binding" not in found["spec"] and "finalizers" not in found["metadata"]
    assert (node.folder / "logs" / uid / "1" / "output.log").exists()


async def test_the_pods_deletion_is_noticed(node: Node) -> None:
    async with node.agent():
        await node.bind(command=("sleep", "100"))
        await node.phase("Running")
        await node.api.delete(PODS, POD, node.namespace)
    assert (await node.over(1))["reason"] == "WorkerDeleted"


async def test_the_lease_is_the_pods(node: Node) -> None:
    async with node.agent():
        lease = await node.lease()
    assert lease["spec"]["holderIdentity"] == node.pod_uid
    assert lease["spec"]["leaseDurationSeconds"] == 40
    assert lease["metadata"]["ownerReferences"][0]["name"] == POD
    async with node.agent():
        again = await node.lease()
    assert again["metadata"]["uid"] == lease["metadata"]["uid"]
