"""A ScaleGroup keeps its minimum, grows for Tasks, and gives back what nobody needs."""

from __future__ import annotations

import pytest

from iris_devcluster.coreweave.testing import eventually
from iris_operator.ports.kube import IRIS_CLUSTERS, NODEPOOLS, SCALE_GROUPS, SLICES, TASKS
from tests.cluster.controller.world import Body, World

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]

_TEMPLATE = {"spec": {"instanceType": "cd-gp-i64-erapids"}}


async def _ready(world: World, wanted: int) -> list[Body]:
    async def enough() -> bool:
        return bool((await world.find(SCALE_GROUPS, "g")).get("status", {}).get("ready") == wanted)

    await eventually(enough, 30)
    return await world.all(SLICES)


async def _settle(world: World, **autoscaler: int) -> None:
    """Tests have no minutes."""
    spec = {"spec": {"autoscaler": autoscaler}}
    await world.api.patch(IRIS_CLUSTERS, "default", spec, namespace=world.namespace)


def _names(slices: list[Body]) -> set[str]:
    return {one["metadata"]["name"] for one in slices}


async def test_keeps_its_minimum(world: World) -> None:
    made = await world.make(SCALE_GROUPS, "g", {"minSlices": 2, "maxSlices": 3, "template": _TEMPLATE})
    slices = await _ready(world, 2)
    assert len(slices) == 2
    for one in slices:
        assert one["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert one["spec"]["scaleGroupName"] == "g"
    (pool, _) = await world.all(NODEPOOLS)
    assert pool["metadata"]["labels"]["iris-scale-group"] == "g"
    status = (await world.find(SCALE_GROUPS, "g"))["status"]
    assert (status["slices"], status["bounds"], status["observedGeneration"]) == (2, "2-3", 1)


async def test_a_deleted_slice_is_made_anew(world: World) -> None:
    await world.make(SCALE_GROUPS, "g", {"minSlices": 1, "maxSlices": 2, "template": _TEMPLATE})
    (first,) = await _ready(world, 1)
    await world.api.delete(SLICES, first["metadata"]["name"], world.namespace)

    async def another() -> bool:
        now = await world.all(SLICES)
        return len(now) == 1 and _names(now) != _names([first]) and now[0].get("status", {}).get("phase") == "Ready"

    await eventually(another, 30)


@pytest.mark.parametrize("maximum", [1, 2])
async def test_a_failed_slice_is_replaced(world: World, maximum: int) -> None:
    """With room beside it, and without."""
    await _settle(world, backoffSeconds=1, maxBackoffSeconds=2)
    world.boots = False
    await world.make(SCALE_GROUPS, "g", {"minSlices": 1, "maxSlices": maximum, "template": _TEMPLATE})

    async def one() -> list[Body]:
        return await world.all(SLICES)

    (first,) = await eventually(one)
    name = first["metadata"]["name"]
    await world.phase(SLICES, name, "Booting")
    failed = {"status": {"phase": "Failed", "message": "told by the test"}}
    await world.api.patch(SLICES, name, failed, namespace=world.namespace, subresource="status")
    world.boots = True
    slices = await _ready(world, 1)
    # A failed one stays to be read; it counts until its nodes are given back.
    may_bill = [one for one in slices if one["status"]["phase"] != "Failed" or one["status"].get("nodePoolName")]
    assert len(may_bill) <= maximum
    assert _names(slices) - {name}


async def test_a_raised_minimum(world: World) -> None:
    await world.make(SCALE_GROUPS, "g", {"minSlices": 0, "maxSlices": 3, "template": _TEMPLATE})

    async def seen() -> bool:
        return "status" in await world.find(SCALE_GROUPS, "g")

    await eventually(seen)
    assert await world.all(SLICES) == []
    await world.api.patch(SCALE_GROUPS, "g", {"spec": {"minSlices": 1}}, namespace=world.namespace)
    assert len(await _ready(world, 1)) == 1


_EAGER = {"scaleUpDelaySeconds": 0, "scaleDownDelaySeconds": 1, "evaluationIntervalSeconds": 1}
_TASK = {"image": "iris/task:1", "resources": {"limits": {"cpu": 1}}}


async def test_from_zero_on_a_task_and_back(world: World) -> None:
    """Scale-down takes two steps: it is cordoned with the reason, and gone ten seconds later."""
    await _settle(world, **_EAGER)
    await world.make(SCALE_GROUPS, "g", {"maxSlices": 2, "template": _TEMPLATE})
    await world.make(TASKS, "t", _TASK)
    bound = await world.bound("t", 30)
    (only,) = await world.all(SLICES)
    assert bound["spec"]["binding"]["sliceName"] == only["metadata"]["name"]
    await world.agent_says("t", "Succeeded", exitCode=0)
    await world.agent_lets_go("t")

    async def cordoned() -> bool:
        (one,) = await world.all(SLICES)
        notes = one["metadata"].get("annotations", {})
        return (one["spec"].get("availability"), notes.get("iris.dev/retiring")) == ("Cordoned", "ScaleDown")

    await eventually(cordoned, 30)

    async def none() -> bool:
        return not await world.all(SLICES) and not await world.all(NODEPOOLS)

    await eventually(none, 40)
    status = (await world.find(SCALE_GROUPS, "g"))["status"]
    assert [(one["action"], one["reason"]) for one in status["decisions"]] == [
        ("ScaleDown", "Idle"),
        ("ScaleUp", "Demand"),
    ]
    assert [boot["sliceName"] for boot in status["recentBoots"]] == [only["metadata"]["name"]]
    assert status["nodeResources"]["nvidia.com/gpu"] == "8"
    assert {"ScaleUp", "ScaleDown"} <= set(await world.event_reasons("g"))


async def test_a_task_that_comes_between_cordon_and_deletion_keeps_the_slice(world: World) -> None:
    await _settle(world, **_EAGER)
    await world.make(SCALE_GROUPS, "g", {"minSlices": 1, "maxSlices": 1, "template": _TEMPLATE})
    (only,) = await _ready(world, 1)
    await world.api.patch(SCALE_GROUPS, "g", {"spec": {"minSlices": 0}}, namespace=world.namespace)

    async def cordoned() -> bool:
        (one,) = await world.all(SLICES)
        return bool(one["spec"].get("availability") == "Cordoned")

    await eventually(cordoned, 30)
    await world.make(TASKS, "t", _TASK)
    bound = await world.bound("t", 8)
    (one,) = await world.all(SLICES)
    assert bound["spec"]["binding"]["sliceName"] == only["metadata"]["name"]
    assert (one["metadata"]["uid"], one["spec"]["availability"]) == (only["metadata"]["uid"], "Schedulable")
    assert "iris.dev/retiring" not in one["metadata"].get("annotations", {})


async def test_a_group_that_coreweave_refuses_sends_its_demand_to_the_next(world: World) -> None:
    await _settle(world, **_EAGER)
    world.boots = False
    await world.make(SCALE_GROUPS, "a", {"maxSlices": 2, "priority": 9, "template": _TEMPLATE})
    await world.make(TASKS, "t", _TASK)
    (first,) = await eventually(lambda: world.all(SLICES))
    name = first["metadata"]["name"]
    await world.phase(SLICES, name, "Booting")
    refused = {"status": {"phase": "Failed", "failure": "OverQuota", "message": "quota of 0 nodes"}}
    await world.api.patch(SLICES, name, refused, namespace=world.namespace, subresource="status")

    async def blocked() -> bool:
        return "blockedUntil" in (await world.find(SCALE_GROUPS, "a")).get("status", {})

    await eventually(blocked)

    async def told() -> bool:
        words = (await world.find(TASKS, "t")).get("status", {}).get("message", "")
        return "group a is blocked until" in words and "quota of 0 nodes" in words

    await eventually(told, 25)
    world.boots = True
    await world.make(SCALE_GROUPS, "b", {"maxSlices": 2, "template": _TEMPLATE})
    bound = await world.bound("t", 30)
    assert bound["spec"]["binding"]["sliceName"].startswith("b-")


async def test_a_new_template_rolls_out(world: World) -> None:
    await _settle(world, **_EAGER)
    await world.make(SCALE_GROUPS, "g", {"minSlices": 1, "maxSlices": 2, "template": _TEMPLATE})
    (first,) = await _ready(world, 1)
    template = {"spec": {"template": {"spec": {"nodeLabels": {"team": "a"}}}}}
    await world.api.patch(SCALE_GROUPS, "g", template, namespace=world.namespace)

    async def another() -> bool:
        now = await world.all(SLICES)
        ready = [one for one in now if one.get("status", {}).get("phase") == "Ready"]
        return len(now) == len(ready) == 1 and ready[0]["spec"].get("nodeLabels") == {"team": "a"}

    await eventually(another, 60)
    assert _names(await world.all(SLICES)) != _names([first])
    decisions = (await world.find(SCALE_GROUPS, "g"))["status"]["decisions"]
    assert [one["action"] for one in decisions].count("Roll") == 1
