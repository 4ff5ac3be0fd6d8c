"""The NodePool kind as the API server enforces it."""

from __future__ import annotations

from typing import Any

import pytest

from iris_devcluster.coreweave import store
from iris_devcluster.coreweave.controller.apply import POOLS
from iris_devcluster.coreweave.kube import KubeClient, KubeError
from iris_devcluster.coreweave.testing import GB200, Pools, eventually

pytestmark = pytest.mark.cluster

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no target": ({"targetNodes": None}, "exactly one of targetNodes and targetRacks"),
    "both targets": ({"targetNodes": 1, "targetRacks": 1, "instanceType": GB200}, "exactly one of targetNodes"),
    "racks of a type without": ({"targetRacks": 1}, "targetRacks is only available for NVL72"),
    "autoscaled racks": (
        {"targetRacks": 1, "instanceType": GB200, "autoscaling": True},
        "autoscaling is not supported",
    ),
    "negative": ({"targetNodes": -1}, "should be greater than or equal to 0"),
    "no such class": ({"computeClass": "cheap"}, "Unsupported value"),
    "no such effect": ({"nodeTaints": [{"key": "a", "effect": "Maybe"}]}, "Unsupported value"),
    "no such strategy": ({"lifecycle": {"scaleDownStrategy": "Now"}}, "Unsupported value"),
    "least over most": ({"minNodes": 2, "maxNodes": 1}, "minNodes must not be greater"),
}


@pytest.mark.parametrize(("spec", "message"), REFUSED.values(), ids=REFUSED)
async def test_refused(pools: Pools, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(KubeError) as error:
        await pools.create(**spec)
    assert error.value.status == 422
    assert message in str(error.value)


async def test_defaults(pools: Pools) -> None:
    spec = (await pools.create())["spec"]
    assert (spec["computeClass"], spec["autoscaling"]) == ("default", False)
    assert spec["lifecycle"] == {"scaleDownStrategy": "IdleOnly"}


async def test_instance_type_is_immutable(pools: Pools) -> None:
    await pools.create()
    with pytest.raises(KubeError, match="InstanceType cannot be changed"):
        await pools.patch(instanceType="turin-gp")
    assert (await pools.patch(targetNodes=3))["spec"]["targetNodes"] == 3


async def test_image_and_gpu_together_are_accepted_as_documented(pools: Pools) -> None:
    assert await pools.create(image={"name": "x"}, gpu={"version": "570"})


async def test_columns(kube: KubeClient, pools: Pools) -> None:
    await pools.create()
    rows = [{"type": kind, "status": "True", "reason": f"Is{kind}"} for kind in ("Validated", "Capacity", "Quota")]
    await kube.merge(f"{POOLS}/pool/status", {"status": {"currentNodes": 1, "conditions": rows}})
    crd = await kube.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepools.compute.coreweave.com")
    assert crd is not None
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [one["name"] for one in columns if not one.get("priority")] == [
        "Instance Type", "Target", "Queued", "InProgress", "Current", "Validated", "Capacity", "Quota", "Age",
    ]  # fmt: skip


@pytest.mark.parametrize("names", [{"pool"}, {"*"}, {"other", "pool"}], ids=["by name", "all", "one of several"])
async def test_refusals(kube: KubeClient, pools: Pools, names: set[str]) -> None:
    await pools.create()
    await store.change(kube, lambda document: document.refusals.update(delete=names))
    await eventually(lambda: _is_refused(pools))
    assert (await pools.patch(targetNodes=2))["spec"]["targetNodes"] == 2
    await store.change(kube, lambda document: document.drop_faults())

    async def deleted() -> bool:
        return not await _is_refused(pools)

    await eventually(deleted)


async def _is_refused(pools: Pools) -> bool:
    try:
        await pools.delete()
    except KubeError as error:
        assert error.status == 403
        assert "the CoreWeave API refuses to delete Node Pool pool" in str(error)
        return True
    await pools.create()  # the policy had not seen the settings yet
    return False
