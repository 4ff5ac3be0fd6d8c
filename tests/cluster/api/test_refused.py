"""What the API server refuses of Slices, ScaleGroups and IrisClusters, by our schemas alone: bounds, patterns, CEL rules."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.ports.kube import IRIS_CLUSTERS, SCALE_GROUPS, SLICES
from tests.cluster.api.kit import SLICE, Refused, assert_refused, made

pytestmark = pytest.mark.cluster

REFUSED = {
    "slice without an instance type": Refused(SLICES, {"nodeCount": 1}, ("spec.instanceType", "Required")),
    "instance type in capitals": Refused(SLICES, {"instanceType": "GD-8xH100"}, ("spec.instanceType",)),
    "slice of no nodes": Refused(SLICES, {**SLICE, "nodeCount": 0}, ("spec.nodeCount", "1")),
    "slice of too many nodes": Refused(SLICES, {**SLICE, "nodeCount": 1025}, ("spec.nodeCount", "1024")),
    "negative GPUs": Refused(SLICES, {**SLICE, "gpusPerNode": -1}, ("spec.gpusPerNode", "0")),
    "unknown compute class": Refused(SLICES, {**SLICE, "computeClass": "cheap"}, ("spec.computeClass", "spot")),
    "unknown taint effect": Refused(
        SLICES, {**SLICE, "nodeTaints": [{"key": "k", "effect": "Never"}]}, ("nodeTaints[0].effect", "NoSchedule")
    ),
    "minSlices over maxSlices": Refused(
        SCALE_GROUPS,
        {"minSlices": 3, "maxSlices": 2, "template": {"spec": SLICE}},
        ("spec.minSlices", "lower minSlices or raise maxSlices"),
    ),
    "minSlices over the default of maxSlices": Refused(
        SCALE_GROUPS, {"minSlices": 2, "template": {"spec": SLICE}}, ("spec.minSlices", "raise maxSlices")
    ),
    "group without a template": Refused(SCALE_GROUPS, {"minSlices": 1}, ("spec.template", "Required")),
    "group of too many slices": Refused(
        SCALE_GROUPS, {"maxSlices": 1001, "template": {"spec": SLICE}}, ("spec.maxSlices", "1000")
    ),
    "one rack of too few nodes": Refused(
        SLICES, {**SLICE, "racks": 1, "nodeCount": 17}, ("spec.nodeCount", "18 * racks")
    ),
    "two racks of one": Refused(SLICES, {**SLICE, "racks": 2, "nodeCount": 18}, ("spec.nodeCount", "18 * racks")),
    "a rack and nothing else": Refused(SLICES, {**SLICE, "racks": 1}, ("spec.nodeCount", "18 * racks")),
    "more racks than nodes can be": Refused(SLICES, {**SLICE, "racks": 57, "nodeCount": 1024}, ("spec.racks", "56")),
    "a group's racks": Refused(
        SCALE_GROUPS, {"template": {"spec": {**SLICE, "racks": 1}}}, ("template.spec.nodeCount", "18 * racks")
    ),
    "unknown availability": Refused(SLICES, {**SLICE, "availability": "Paused"}, ("spec.availability", "Drained")),
    "hold until a word": Refused(SLICES, {**SLICE, "holdUntil": "tomorrow"}, ("spec.holdUntil", "date-time")),
    "lifetime of a second": Refused(SLICES, {**SLICE, "maxLifetimeSeconds": 1}, ("spec.maxLifetimeSeconds", "60")),
    "repair by a miracle": Refused(
        SLICES, {**SLICE, "repair": {"policy": "Pray"}}, ("spec.repair.policy", "Wait", "Replace")
    ),
    "repair before it broke": Refused(SLICES, {**SLICE, "repair": {"delaySeconds": -1}}, ("repair.delaySeconds", "0")),
    **{
        f"maxUnavailable {value!r}": Refused(
            SCALE_GROUPS,
            {"template": {"spec": SLICE}, "disruption": {"maxUnavailable": value}},
            ("spec.disruption.maxUnavailable",),
        )
        for value in (-1, "-1", "101%", "10 %", "half", "", "1.5", "5%%")
    },
    "buffer of less than nothing": Refused(
        SCALE_GROUPS, {"bufferSlices": -1, "template": {"spec": SLICE}}, ("spec.bufferSlices", "0")
    ),
    "negative price": Refused(
        SCALE_GROUPS, {"costPerNodeHour": -0.5, "template": {"spec": SLICE}}, ("spec.costPerNodeHour", "0")
    ),
    "node resources that are no quantity": Refused(
        SCALE_GROUPS, {"nodeResources": {"cpu": "many"}, "template": {"spec": SLICE}}, ("spec.nodeResources.cpu",)
    ),
    "launches never": Refused(
        IRIS_CLUSTERS, {"autoscaler": {"launchesPerMinute": 0}}, ("spec.autoscaler.launchesPerMinute", "1")
    ),
    "evaluation without a pause": Refused(
        IRIS_CLUSTERS, {"autoscaler": {"evaluationIntervalSeconds": 0}}, ("autoscaler.evaluationIntervalSeconds", "1")
    ),
    "port out of range": Refused(IRIS_CLUSTERS, {"worker": {"port": 65536}}, ("spec.worker.port", "65535")),
    "lease shorter than two renewals": Refused(
        IRIS_CLUSTERS, {"timeouts": {"agentLeaseSeconds": 10}}, ("spec.timeouts.agentLeaseSeconds", "20")
    ),
    "claim of the workers without a name": Refused(
        IRIS_CLUSTERS,
        {"worker": {"volumeClaims": [{"readOnly": True}]}},
        ("worker.volumeClaims[0].claimName", "Required"),
    ),
    "one claim of the workers twice": Refused(
        IRIS_CLUSTERS, {"worker": {"volumeClaims": [{"claimName": "a"}] * 2}}, ("worker.volumeClaims[1]", "Duplicate")
    ),
    "runtime of the workers": Refused(IRIS_CLUSTERS, {"worker": {"runtime": "podman"}}, ("worker.runtime", "docker")),
    "machines of nobody": Refused(
        SLICES, {"instanceType": "m", "external": {}}, ("external.serviceAccountName", "Required")
    ),
    "workers' own network without containerd": Refused(
        IRIS_CLUSTERS, {"worker": {"hostNetwork": False, "runtime": "docker"}}, ("worker", "needs runtime containerd")
    ),
    "no Tasks on a node": Refused(IRIS_CLUSTERS, {"worker": {"maxTasks": 0}}, ("worker.maxTasks", "1")),
    "images collected for ever": Refused(
        IRIS_CLUSTERS, {"worker": {"disk": {"collectImagesBelowPercent": 90}}}, ("worker.disk", "for ever")
    ),
    "disk that is more than full": Refused(
        IRIS_CLUSTERS, {"worker": {"disk": {"refuseTasksAbovePercent": 101}}}, ("disk.refuseTasksAbovePercent", "100")
    ),
    "relative path allowed": Refused(
        IRIS_CLUSTERS, {"policy": {"allowedHostPaths": ["data"]}}, ("policy.allowedHostPaths[0]",)
    ),
    "allowed path that leads out": Refused(
        IRIS_CLUSTERS, {"policy": {"allowedHostPaths": ["/data/.."]}}, ("policy.allowedHostPaths[0]",)
    ),
    "archive by FTP": Refused(
        IRIS_CLUSTERS, {"logs": {"archive": {"endpoint": "ftp://h"}}}, ("logs.archive.endpoint", "https?")
    ),
    "log of less than nothing": Refused(IRIS_CLUSTERS, {"logs": {"maxBytes": "-1"}}, ("logs.maxBytes",)),
    "boot time of nothing": Refused(IRIS_CLUSTERS, {"timeouts": {"bootSeconds": 0}}, ("timeouts.bootSeconds", "1")),
    "headroom that is no quantity": Refused(
        IRIS_CLUSTERS, {"worker": {"headroom": {"cpu": "some"}}}, ("spec.worker.headroom.cpu",)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_with_the_field_s_name(api: KubeClient, name: str) -> None:
    await assert_refused(api, REFUSED[name])


@pytest.mark.parametrize("value", [0, 3, "3", "0%", "10%", "99%", "100%"])
async def test_shares_that_are_taken(api: KubeClient, value: Any) -> None:
    async with made(api, SCALE_GROUPS, {"template": {"spec": SLICE}, "disruption": {"maxUnavailable": value}}):
        pass


@pytest.mark.parametrize("racks", [1, 56])
async def test_racks_of_18_nodes(api: KubeClient, racks: int) -> None:
    async with made(api, SLICES, {**SLICE, "racks": racks, "nodeCount": 18 * racks}):
        pass
