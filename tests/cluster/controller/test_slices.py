"""A Slice through its life, by the real operator on a real API server."""

from __future__ import annotations

import pytest

from iris_devcluster.coreweave.testing import eventually
from iris_operator.ports.errors import InvalidError
from iris_operator.ports.kube import IRIS_CLUSTERS, NODEPOOLS, NODES, PODS, SLICES, TASKS
from tests.cluster.controller.operators import Operator
from tests.cluster.controller.world import Body, World

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]

_CPU = {"instanceType": "cd-gp-i64-erapids"}
_TASK = {"image": "iris/task:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}


def _conditions(body: Body) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in body["status"].get("conditions", [])}


async def test_to_ready(world: World) -> None:
    world.boots = world.runs = False
    await world.make(SLICES, "s", {**_CPU, "nodeCount": 2, "gpusPerNode": 8, "infiniband": True})
    found = await world.phase(SLICES, "s", "Booting")
    assert found["metadata"]["finalizers"] == ["iris.dev/slice"]
    assert "0 of 2 nodes Ready" in found["status"]["message"]
    (pool,) = await world.all(NODEPOOLS)
    assert pool["metadata"]["labels"]["iris-slice-id"] == f"{world.namespace}-s" == pool["metadata"]["name"]
    assert (pool["spec"]["targetNodes"], pool["spec"]["autoscaling"]) == (2, False)
    world.boots = True
    await world.phase(SLICES, "s", "Initializing")

    async def both() -> bool:
        return len(await world.all(PODS)) == 2

    await eventually(both)
    world.runs = True
    found = await world.phase(SLICES, "s", "Ready")
    status = found["status"]
    assert (status["nodesReady"], status["observedGeneration"], status["tasks"]) == ("2/2", 1, 0)
    assert [node["rank"] for node in status["nodes"]] == [0, 1]
    assert status["nodes"][0]["allocatable"]["nvidia.com/gpu"] == "8"
    assert status["nodes"][0]["agentVersion"] == "test"
    assert _conditions(found) == {
        "AgentsReady": ("True", "AgentsReady"), "NodePoolAccepted": ("True", "Accepted"),
        "NodesReady": ("True", "NodesReady"), "Ready": ("True", "AgentsReady"),
    }  # fmt: skip

    async def told() -> bool:
        return {"Booting", "Initializing", "Ready"} <= set(await world.event_reasons("s"))

    await eventually(told)


async def test_worker_pods_are_as_the_manifest_says(world: World) -> None:
    """What the API server made of it: nothing was dropped, and it is Guaranteed."""
    await world.make(SLICES, "s", {**_CPU, "nodeTaints": [{"key": "team", "value": "ml", "effect": "NoSchedule"}]})
    await world.phase(SLICES, "s", "Ready")
    (pod,) = await world.all(PODS)
    assert pod["metadata"]["name"] == "s-worker-0"
    assert pod["status"]["qosClass"] == "Guaranteed"
    assert pod["spec"]["hostNetwork"] and pod["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "Slice"


async def test_rejected_by_the_vendor(world: World) -> None:
    world.rejects.add("s")
    await world.make(SLICES, "s", _CPU)
    found = await world.phase(SLICES, "s", "Failed")
    assert "by the test" in found["status"]["message"]
    await world.gone(NODEPOOLS, f"{world.namespace}-s")
    assert (await world.find(SLICES, "s"))["status"]["phase"] == "Failed"


async def test_a_node_pool_of_that_name_is_not_taken_over(world: World) -> None:
    name = f"{world.namespace}-s"
    body = {
        "apiVersion": NODEPOOLS.api_version,
        "kind": "NodePool",
        "metadata": {"name": name, "annotations": {"iris.dev/slice": "x/y"}},
    }
    await world.api.create(NODEPOOLS, {**body, "spec": {"instanceType": "a-type", "targetNodes": 0, "nodeLabels": {}}})
    await world.make(SLICES, "s", _CPU)
    found = await world.phase(SLICES, "s", "Pending")
    assert _conditions(found)["Ready"] == ("False", "NodePoolNameTaken")
    await world.api.delete(SLICES, "s", world.namespace)
    await world.gone(SLICES, "s")
    assert (await world.find(NODEPOOLS, name))["spec"]["instanceType"] == "a-type"


async def test_degrades_and_recovers_when_its_worker_vanishes(world: World) -> None:
    await world.make(SLICES, "s", _CPU)
    await world.phase(SLICES, "s", "Ready")
    world.runs = False
    await world.worker_vanishes("s-worker-0")
    await world.phase(SLICES, "s", "Degraded")
    world.runs = True
    await world.phase(SLICES, "s", "Ready")


async def test_given_back_in_order(world: World) -> None:
    await world.make(SLICES, "s", _CPU)
    await world.phase(SLICES, "s", "Ready")
    await world.make(TASKS, "t", _TASK)
    await world.bound("t")
    await world.agent_says("t", "Running")
    world.ends = world.releases = False
    await world.api.delete(SLICES, "s", world.namespace)

    async def reason() -> str:
        return _conditions(await world.find(SLICES, "s"))["Ready"][1]

    async def stopping() -> bool:
        return bool((await world.find(TASKS, "t"))["spec"]["binding"].get("stopReason"))

    await eventually(stopping)
    assert await reason() == "StoppingTasks"
    assert "deletionTimestamp" not in (await world.find(PODS, "s-worker-0"))["metadata"]
    await world.agent_says("t", "Killed", reason="SliceDeleted")

    async def pod_leaves() -> bool:
        return "deletionTimestamp" in (await world.find(PODS, "s-worker-0"))["metadata"]

    await eventually(pod_leaves)
    pool = f"{world.namespace}-s"
    assert "deletionTimestamp" not in (await world.find(NODEPOOLS, pool))["metadata"]
    world.ends = True

    async def pool_leaves() -> bool:
        return "deletionTimestamp" in (await world.find(NODEPOOLS, pool))["metadata"]

    await eventually(pool_leaves)
    assert await world.all(PODS) == []
    assert (await world.find(SLICES, "s"))["metadata"]["finalizers"] == ["iris.dev/slice"]
    world.releases = True
    await world.gone(SLICES, "s")
    assert [*await world.all(NODEPOOLS), *await world.all(NODES)] == []
    assert (await world.find(TASKS, "t"))["status"]["phase"] == "Killed"


async def test_deleted_before_anything_was_there(world: World) -> None:
    world.boots = False
    await world.make(SLICES, "s", _CPU)
    await world.api.delete(SLICES, "s", world.namespace)
    await world.gone(SLICES, "s")
    assert await world.all(NODEPOOLS) == []


async def test_settings_reach_slices_that_wait(world: World, operator: Operator) -> None:
    await world.api.patch(IRIS_CLUSTERS, "default", {"spec": {"images": {"agent": ""}}}, namespace=world.namespace)
    await world.make(SLICES, "s", _CPU)
    found = await world.phase(SLICES, "s", "Initializing")
    assert "spec.images.agent" in found["status"]["message"]
    assert await world.all(PODS) == []
    await world.api.patch(
        IRIS_CLUSTERS, "default", {"spec": {"images": {"agent": "late/agent:1"}}}, namespace=world.namespace
    )
    await world.phase(SLICES, "s", "Ready")
    (pod,) = await world.all(PODS)
    assert pod["spec"]["containers"][0]["image"] == "late/agent:1"
    assert operator.exit_code is None


async def test_a_slice_without_settings_says_so_and_goes_on_when_they_come(world: World) -> None:
    await world.make(SLICES, "s", {**_CPU, "clusterName": "late"})
    found = await world.phase(SLICES, "s", "Pending")
    assert _conditions(found)["Ready"] == ("False", "ClusterNotFound")
    await world.make(IRIS_CLUSTERS, "late", {"images": {"agent": "late/agent:1"}})
    await world.phase(SLICES, "s", "Ready")


async def test_a_slice_is_what_it_was_made(world: World) -> None:
    await world.make(SLICES, "s", _CPU)
    await world.phase(SLICES, "s", "Ready")
    with pytest.raises(InvalidError):
        await world.api.patch(SLICES, "s", {"spec": {"nodeCount": 2}}, namespace=world.namespace)


async def test_racks_are_bought_by_the_rack(world: World) -> None:
    """As the vendor's own schema wants it: exactly one of the two targets."""
    world.boots = False
    await world.make(SLICES, "s", {"instanceType": "gb200-4x", "racks": 1, "nodeCount": 18})
    found = await world.phase(SLICES, "s", "Booting")
    assert "0 of 18 nodes Ready" in found["status"]["message"]
    (pool,) = await world.all(NODEPOOLS)
    assert pool["spec"]["targetRacks"] == 1 and "targetNodes" not in pool["spec"]


async def test_a_node_without_its_gpus_is_not_kept(world: World) -> None:
    world.gpus = 7
    await _settings(world, timeouts={"fitSeconds": 1})
    await world.make(SLICES, "s", {**_CPU, "gpusPerNode": 8})
    found = await world.phase(SLICES, "s", "Failed")
    assert found["status"]["failure"] == "NodeUnfit"
    assert "7 of 8 GPUs" in found["status"]["message"]
    assert _conditions(found)["NodesFit"] == ("False", "NodeUnfit")
    await world.gone(NODEPOOLS, f"{world.namespace}-s")

    async def bills_nothing() -> bool:
        status = (await world.find(SLICES, "s"))["status"]
        return not status.get("nodePoolName") and _conditions({"status": status})["Deleted"][0] == "True"

    await eventually(bills_nothing)


async def test_drained_and_taken_back(world: World) -> None:
    await world.make(SLICES, "s", _CPU)
    await world.phase(SLICES, "s", "Ready")
    await world.make(TASKS, "t", _TASK)
    await world.bound("t")
    await world.agent_says("t", "Running")
    await world.api.patch(SLICES, "s", {"spec": {"availability": "Drained"}}, namespace=world.namespace)

    async def told() -> bool:
        return bool((await world.find(TASKS, "t"))["spec"]["binding"].get("stopReason") == "SliceDrained")

    await eventually(told)
    await world.agent_says("t", "Succeeded")

    async def drained() -> bool:
        return _conditions(await world.find(SLICES, "s")).get("Drained") == ("True", "Drained")

    await eventually(drained)
    await world.make(TASKS, "second", _TASK)
    await world.api.patch(SLICES, "s", {"spec": {"availability": "Schedulable"}}, namespace=world.namespace)
    await world.bound("second")
    assert "Drained" not in _conditions(await world.find(SLICES, "s"))


async def test_an_agent_that_falls_silent(world: World) -> None:
    await _settings(world, timeouts={"agentLeaseSeconds": 20})
    await world.make(SLICES, "s", _CPU)
    await world.phase(SLICES, "s", "Ready")
    world.beats = False
    found = await world.phase(SLICES, "s", "Degraded", 20 + 15)
    assert _conditions(found)["AgentsReady"] == ("False", "NodeStatusUnknown")
    assert found["status"]["nodes"][0]["lostSince"]
    world.beats = True
    found = await world.phase(SLICES, "s", "Ready")
    assert "lostSince" not in found["status"]["nodes"][0]


async def test_a_node_pool_without_its_slice_goes_and_a_stranger_s_stays(world: World) -> None:
    await _settings(world, timeouts={"orphanSeconds": 2})
    spec = {"instanceType": "a-type", "targetNodes": 0, "nodeLabels": {}}
    notes = {"iris.dev/slice": f"{world.namespace}/gone", "iris.dev/slice-uid": "gone"}
    base = {"apiVersion": NODEPOOLS.api_version, "kind": "NodePool", "spec": spec}
    ours, theirs = f"{world.namespace}-gone", f"{world.namespace}-theirs"
    strange = {**notes, "iris.dev/slice": "elsewhere/gone"}
    for name, said in ((ours, notes), (theirs, strange)):
        metadata = {"name": name, "labels": {"iris-managed": "true"}, "annotations": said}
        await world.api.create(NODEPOOLS, {**base, "metadata": metadata})

    async def marked() -> bool:
        found = await world.find(NODEPOOLS, ours)
        return not found or "iris.dev/orphaned-since" in found["metadata"]["annotations"]

    await eventually(marked)
    await world.gone(NODEPOOLS, ours)
    left = await world.find(NODEPOOLS, theirs)
    assert left["metadata"]["annotations"] == strange
    assert "deletionTimestamp" not in left["metadata"]


async def _settings(world: World, **spec: Body) -> None:
    await world.api.patch(IRIS_CLUSTERS, "default", {"spec": spec}, namespace=world.namespace)
