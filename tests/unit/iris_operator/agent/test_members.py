"""Members of a Task of several replicas, as one node's agent sees them: what they are told, and their common container."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from iris_operator.agent.sandbox.members import member_variables
from iris_operator.api.task import Binding
from iris_operator.ports.kube import TASKS
from tests.unit.iris_operator.agent.build import binding, task_body
from tests.unit.iris_operator.agent.harness import Node, until

HOLD = "hold-default-lab"
PEERS = [{"nodeName": "a", "address": "10.0.0.1"}, {"nodeName": "n", "address": "10.0.0.2"}]
STAYS: dict[str, Any] = {"containerLifetime": {"policy": "Persistent", "name": "lab"}, "placement": {"sliceName": "s"}}
REFUSED = {"action": "Refuse", "reason": "ContainerPartlyRunning", "message": "it runs on node a and not on node n"}


async def _bind(node: Node, name: str = "t-1", command: tuple[str, ...] = ("sleep", "1"), **spec: Any) -> str:
    """The member of rank 1; its uid."""
    body = task_body(name, command, **spec)
    body["spec"]["binding"] |= {"workerUid": node.pod_uid, "member": {"rank": 1, "peers": PEERS}}
    return str((await node.api.create(TASKS, body, node.namespace))["metadata"]["uid"])


async def _tell(node: Node, verdict: dict[str, str], name: str = "t-1") -> None:
    patch = {"spec": {"binding": {"member": {"container": verdict}}}}
    await node.api.patch(TASKS, name, patch, namespace=node.namespace)


async def _waits(node: Node, name: str = "t-1") -> dict[str, Any]:
    async with asyncio.timeout(10):
        while True:
            status = ((await node.task(name)) or {}).get("status") or {}
            if status.get("reason") == "WaitingForMembers":
                return dict(status)
            await asyncio.sleep(0.005)


def test_what_a_member_is_told() -> None:
    alone = Binding.model_validate(binding(rank=3))
    assert list(member_variables(alone)) == [("IRIS_RANK", "3")]
    one = Binding.model_validate({**binding(rank=3), "member": {"rank": 1, "peers": PEERS}})
    assert dict(member_variables(one)) == {
        "IRIS_RANK": "1",
        "IRIS_NODE_RANK": "3",
        "IRIS_REPLICAS": "2",
        "IRIS_PEERS": "10.0.0.1,10.0.0.2",
        "IRIS_LEADER": "10.0.0.1",
    }


async def test_a_member_runs_like_any_task_and_knows_the_others(node: Node) -> None:
    async with node.agent():
        uid = await _bind(node)
        await node.phase("Running", "t-1")
    assert dict(node.runtime.specs[f"task-{uid}-1"].env)["IRIS_PEERS"] == "10.0.0.1,10.0.0.2"


async def test_it_tells_what_is_there_and_waits(node: Node) -> None:
    async with node.agent():
        uid = await _bind(node, **STAYS)
        status = await _waits(node)
        assert status["phase"] == "Building"
        assert status["container"]["running"] is False
        assert status["container"]["tagDigest"]
        assert (
            status["message"]
            == "container lab does not run on node node-1; waits for what the other members' nodes have"
        )
        assert node.runtime.started == []
        await _tell(node, {"action": "Launch"})
        await node.phase("Running", "t-1")
        assert node.runtime.specs[f"task-{uid}-1"].inside == HOLD
        second = await _bind(node, "u-1", **STAYS)
        seen = (await _waits(node, "u-1"))["container"]
        assert (seen["running"], seen["image"]) == (True, "registry.test/task:1")
        assert seen["imageDigest"] == seen["tagDigest"]
        await _tell(node, {"action": "Attach"}, "u-1")
        await node.phase("Running", "u-1")
        assert node.runtime.specs[f"task-{second}-1"].inside == HOLD
    assert node.runtime.started.count(HOLD) == 1


async def test_a_new_agent_tells_again_and_goes_on(node: Node) -> None:
    async with node.agent():
        await _bind(node, **STAYS)
        await _waits(node)
    await _tell(node, {"action": "Launch"})
    async with node.agent():
        await node.phase("Running", "t-1")


async def test_what_all_are_refused_is_the_users_fault(node: Node) -> None:
    async with node.agent():
        await _bind(node, **STAYS)
        await _waits(node)
        await _tell(node, REFUSED)
        status = await node.phase("Failed", "t-1")
    assert (status["reason"], status["message"]) == ("ContainerPartlyRunning", REFUSED["message"])
    assert node.runtime.started == []


@pytest.mark.parametrize(
    ("there", "action", "words"),
    [
        (False, "Attach", "has ended on node node-1 since all members found it running"),
        (True, "Launch", "was begun on node node-1 by another Task since all members found none"),
    ],
)
async def test_what_changed_since_is_refused(node: Node, there: bool, action: str, words: str) -> None:
    async with node.agent():
        if there:
            await node.bind("other", ("sleep", "1"), **STAYS)
            await node.phase("Running", "other")
        await _bind(node, **STAYS)
        await _waits(node)
        await _tell(node, {"action": action})
        status = await node.phase("Failed", "t-1")
    assert status["reason"] == "ContainerPartlyRunning"
    assert words in status["message"]


async def test_it_enters_what_it_made_itself_before_it_was_set_up(node: Node) -> None:
    """Set up by the agent before: found running, and its own."""
    script = {**STAYS["containerLifetime"], "setupScript": {"inline": "make ready"}, "startTimeoutSeconds": 86400}
    async with node.agent():
        await _bind(node, **{**STAYS, "containerLifetime": script})
        await _waits(node)
        await _tell(node, {"action": "Launch"})
        await until(lambda: f"{HOLD}-setup" in node.runtime.started)
    async with node.agent():
        node.runtime.finish(f"{HOLD}-setup")
        await node.phase("Running", "t-1")
    assert node.runtime.started.count(HOLD) == 1
