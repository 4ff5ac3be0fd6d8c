"""On which network Tasks are, and what goes with one that is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iris_operator.agent.node.network import cut_off, namespace_to_join
from iris_operator.agent.sandbox import labels
from iris_runtimes.errors import NodeFault
from iris_runtimes.protocol import CgroupParent, PodContext, Sandbox, SandboxState
from tests.unit.iris_operator.agent.build import POD_UID
from tests.unit.iris_operator.agent.harness import Node, until

POD_NET = "/proc/7/ns/net"
CONTEXT = PodContext(CgroupParent("/x"), network_namespace=POD_NET)


def test_the_nodes_unless_the_worker_has_its_own() -> None:
    assert namespace_to_join(CONTEXT, host_network=True) == ""
    assert namespace_to_join(CONTEXT, host_network=False) == POD_NET
    with pytest.raises(NodeFault, match="does not tell"):
        namespace_to_join(replace(CONTEXT, network_namespace=""), host_network=False)


def made(sandbox_id: str, worker: str, address: str) -> Sandbox:
    said = {labels.WORKER_UID: worker, labels.HOST_IP: address}
    return Sandbox(sandbox_id, said, SandboxState.RUNNING)


def test_what_is_on_a_network_of_before() -> None:
    there = [
        made("old", POD_UID, "10.1.0.2"),
        made("new", POD_UID, "10.1.0.3"),
        made("foreign", "another", "10.1.0.2"),
        made("unsaid", POD_UID, ""),
    ]
    assert [one.id for one in cut_off(there, POD_UID, "10.1.0.3")] == ["old"]


async def test_a_task_joins_its_pods_network(node: Node) -> None:
    node.runtime.context = replace(node.runtime.context, network_namespace=POD_NET)
    async with node.agent(address="10.1.0.2", host_network=False):
        uid = await node.bind(ports=[{"name": "http"}])
        status = await node.phase("Succeeded")
    assert node.runtime.specs[f"task-{uid}-1"].network_namespace == POD_NET
    assert status["hostIP"] == "10.1.0.2"
    async with node.agent(address="10.0.0.1"):
        uid = await node.bind("u")
        await node.phase("Succeeded", "u")
    assert node.runtime.specs[f"task-{uid}-1"].network_namespace == ""


async def test_a_task_whose_network_is_gone_is_lost_by_the_platforms_fault(node: Node) -> None:
    node.runtime.context = replace(node.runtime.context, network_namespace=POD_NET)
    async with node.agent(address="10.1.0.2", host_network=False):
        uid = await node.bind(command=("sleep", "100"))
        await node.phase("Running")
    async with node.agent(address="10.1.0.2", host_network=False):
        await node.phase("Running")
        assert f"task-{uid}-1" in node.runtime.sandboxes
    async with node.agent(address="10.1.0.3", host_network=False):
        status = await node.phase("Pending")
    assert (status["reason"], status["retries"]["infrastructure"]) == ("SandboxLost", 1)
    assert f"task-{uid}-1" not in node.runtime.sandboxes


async def test_an_agent_that_can_not_tell_its_network_says_so(node: Node) -> None:
    async with node.agent(ready=False, address="10.1.0.2", host_network=False) as agent:
        await until(lambda: "does not tell this Pod's network" in agent.health_problem())
