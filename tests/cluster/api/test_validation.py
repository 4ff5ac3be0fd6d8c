"""What the API server refuses, by our schemas alone: bounds, patterns, CEL rules, and words that help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.ports.errors import ApiError, InvalidError
from iris_operator.ports.kube import IRIS_CLUSTERS, SCALE_GROUPS, SLICES, TASKS, Kind

pytestmark = pytest.mark.cluster

_KINDS = {TASKS: "Task", SLICES: "Slice", SCALE_GROUPS: "ScaleGroup", IRIS_CLUSTERS: "IrisCluster"}
_SLICE = {"instanceType": "cd-gp-i64-erapids"}
_TASK = {"image": "iris/task:1"}
_BINDING = {
    "sliceName": "s", "nodeName": "n", "workerPod": "s-worker-0", "workerUid": "u", "rank": 0, "attempt": 1,
    "boundAt": "2026-11-21T12:00:00Z",
}  # fmt: skip


@dataclass(frozen=True)
class Refused:
    """A spec that is refused, with words that must be in the answer."""

    kind: Kind
    spec: dict[str, Any]
    words: tuple[str, ...]


def _gpus(requests: Any, limits: Any) -> dict[str, Any]:
    return {**_TASK, "resources": {"requests": {"nvidia.com/gpu": requests}, "limits": {"nvidia.com/gpu": limits}}}


def _quantity(text: Any) -> dict[str, Any]:
    return {**_TASK, "resources": {"limits": {"memory": text}}}


REFUSED = {
    "task without an image": Refused(TASKS, {"command": ["true"]}, ("spec.image", "Required")),
    "task with an empty image": Refused(TASKS, {"image": ""}, ("spec.image", "at least 1")),
    "task image with a space": Refused(TASKS, {"image": "a b"}, ("spec.image",)),
    "quantity with a unit of another world": Refused(TASKS, _quantity("5GB"), ("spec.resources.limits.memory",)),
    "quantity below zero": Refused(TASKS, _quantity("-1"), ("spec.resources.limits.memory",)),
    "bare integer below zero": Refused(TASKS, _quantity(-1), ("spec.resources.limits.memory",)),
    "quantity of a billion digits": Refused(TASKS, _quantity("1e999999999"), ("spec.resources.limits.memory",)),
    "quantity that is a word": Refused(TASKS, _quantity("much"), ("spec.resources.limits.memory",)),
    "GPU requests under limits": Refused(TASKS, _gpus("1", "2"), ("spec.resources", "set just limits")),
    "GPU requests over limits": Refused(TASKS, _gpus(2, 1), ("spec.resources", "set just limits")),
    "half a GPU": Refused(
        TASKS, {**_TASK, "resources": {"limits": {"nvidia.com/gpu": "500m"}}}, ("spec.resources", "whole devices")
    ),
    "relative working directory": Refused(TASKS, {**_TASK, "workingDir": "tmp"}, ("spec.workingDir",)),
    "grace period of two days": Refused(
        TASKS, {**_TASK, "terminationGracePeriodSeconds": 172800}, ("terminationGracePeriodSeconds", "86400")
    ),
    "two values of one variable": Refused(
        TASKS, {**_TASK, "env": [{"name": "A"}, {"name": "A"}]}, ("spec.env", "Duplicate")
    ),
    "variable name with =": Refused(TASKS, {**_TASK, "env": [{"name": "A=B"}]}, ("spec.env[0].name",)),
    "unknown pull policy": Refused(TASKS, {**_TASK, "imagePullPolicy": "Sometimes"}, ("imagePullPolicy", "Always")),
    "negative user": Refused(TASKS, {**_TASK, "securityContext": {"runAsUser": -1}}, ("runAsUser",)),
    "slice without an instance type": Refused(SLICES, {"nodeCount": 1}, ("spec.instanceType", "Required")),
    "instance type in capitals": Refused(SLICES, {"instanceType": "GD-8xH100"}, ("spec.instanceType",)),
    "slice of no nodes": Refused(SLICES, {**_SLICE, "nodeCount": 0}, ("spec.nodeCount", "1")),
    "slice of too many nodes": Refused(SLICES, {**_SLICE, "nodeCount": 1025}, ("spec.nodeCount", "1024")),
    "negative GPUs": Refused(SLICES, {**_SLICE, "gpusPerNode": -1}, ("spec.gpusPerNode", "0")),
    "unknown compute class": Refused(SLICES, {**_SLICE, "computeClass": "cheap"}, ("spec.computeClass", "spot")),
    "unknown taint effect": Refused(
        SLICES, {**_SLICE, "nodeTaints": [{"key": "k", "effect": "Never"}]}, ("nodeTaints[0].effect", "NoSchedule")
    ),
    "minSlices over maxSlices": Refused(
        SCALE_GROUPS,
        {"minSlices": 3, "maxSlices": 2, "template": {"spec": _SLICE}},
        ("spec.minSlices", "lower minSlices or raise maxSlices"),
    ),
    "minSlices over the default of maxSlices": Refused(
        SCALE_GROUPS, {"minSlices": 2, "template": {"spec": _SLICE}}, ("spec.minSlices", "raise maxSlices")
    ),
    "group without a template": Refused(SCALE_GROUPS, {"minSlices": 1}, ("spec.template", "Required")),
    "group of too many slices": Refused(
        SCALE_GROUPS, {"maxSlices": 1001, "template": {"spec": _SLICE}}, ("spec.maxSlices", "1000")
    ),
    "one rack of too few nodes": Refused(
        SLICES, {**_SLICE, "racks": 1, "nodeCount": 17}, ("spec.nodeCount", "18 * racks")
    ),
    "two racks of one": Refused(SLICES, {**_SLICE, "racks": 2, "nodeCount": 18}, ("spec.nodeCount", "18 * racks")),
    "a rack and nothing else": Refused(SLICES, {**_SLICE, "racks": 1}, ("spec.nodeCount", "18 * racks")),
    "more racks than nodes can be": Refused(SLICES, {**_SLICE, "racks": 57, "nodeCount": 1024}, ("spec.racks", "56")),
    "a group's racks": Refused(
        SCALE_GROUPS, {"template": {"spec": {**_SLICE, "racks": 1}}}, ("template.spec.nodeCount", "18 * racks")
    ),
    "unknown availability": Refused(SLICES, {**_SLICE, "availability": "Paused"}, ("spec.availability", "Drained")),
    "hold until a word": Refused(SLICES, {**_SLICE, "holdUntil": "tomorrow"}, ("spec.holdUntil", "date-time")),
    "lifetime of a second": Refused(SLICES, {**_SLICE, "maxLifetimeSeconds": 1}, ("spec.maxLifetimeSeconds", "60")),
    "repair by a miracle": Refused(
        SLICES, {**_SLICE, "repair": {"policy": "Pray"}}, ("spec.repair.policy", "Wait", "Replace")
    ),
    "repair before it broke": Refused(SLICES, {**_SLICE, "repair": {"delaySeconds": -1}}, ("repair.delaySeconds", "0")),
    **{
        f"maxUnavailable {value!r}": Refused(
            SCALE_GROUPS,
            {"template": {"spec": _SLICE}, "disruption": {"maxUnavailable": value}},
            ("spec.disruption.maxUnavailable",),
        )
        for value in (-1, "-1", "101%", "10 %", "half", "", "1.5", "5%%")
    },
    "buffer of less than nothing": Refused(
        SCALE_GROUPS, {"bufferSlices": -1, "template": {"spec": _SLICE}}, ("spec.bufferSlices", "0")
    ),
    "negative price": Refused(
        SCALE_GROUPS, {"costPerNodeHour": -0.5, "template": {"spec": _SLICE}}, ("spec.costPerNodeHour", "0")
    ),
    "node resources that are no quantity": Refused(
        SCALE_GROUPS, {"nodeResources": {"cpu": "many"}, "template": {"spec": _SLICE}}, ("spec.nodeResources.cpu",)
    ),
    "launches never": Refused(
        IRIS_CLUSTERS, {"autoscaler": {"launchesPerMinute": 0}}, ("spec.autoscaler.launchesPerMinute", "1")
    ),
    "evaluation without a pause": Refused(
        IRIS_CLUSTERS, {"autoscaler": {"evaluationIntervalSeconds": 0}}, ("autoscaler.evaluationIntervalSeconds", "1")
    ),
    "retries of less than none": Refused(
        TASKS, {**_TASK, "retryPolicy": {"infrastructure": -1}}, ("spec.retryPolicy.infrastructure", "0")
    ),
    "port out of range": Refused(IRIS_CLUSTERS, {"worker": {"port": 65536}}, ("spec.worker.port", "65535")),
    "lease shorter than two renewals": Refused(
        IRIS_CLUSTERS, {"timeouts": {"agentLeaseSeconds": 10}}, ("spec.timeouts.agentLeaseSeconds", "20")
    ),
    "boot time of nothing": Refused(IRIS_CLUSTERS, {"timeouts": {"bootSeconds": 0}}, ("timeouts.bootSeconds", "1")),
    "headroom that is no quantity": Refused(
        IRIS_CLUSTERS, {"worker": {"headroom": {"cpu": "some"}}}, ("spec.worker.headroom.cpu",)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_with_the_field_s_name(api: KubeClient, namespace: str, name: str) -> None:
    case = REFUSED[name]
    with pytest.raises(InvalidError) as caught:
        await api.create(case.kind, _body(case.kind, case.spec), namespace)
    for word in case.words:
        assert word in caught.value.message


async def test_a_number_is_the_same_with_and_without_quotes(api: KubeClient, namespace: str) -> None:
    await api.create(TASKS, _body(TASKS, _gpus(2, "2")), namespace)


@pytest.mark.parametrize("value", [0, 3, "3", "0%", "10%", "99%", "100%"])
async def test_shares_that_are_taken(api: KubeClient, namespace: str, value: Any) -> None:
    spec = {"template": {"spec": _SLICE}, "disruption": {"maxUnavailable": value}}
    await api.create(SCALE_GROUPS, _body(SCALE_GROUPS, spec), namespace)


@pytest.mark.parametrize("racks", [1, 56])
async def test_racks_of_18_nodes(api: KubeClient, namespace: str, racks: int) -> None:
    await api.create(SLICES, _body(SLICES, {**_SLICE, "racks": racks, "nodeCount": 18 * racks}), namespace)


@dataclass(frozen=True)
class Change:
    """A patch of a made object's spec; `refused` is in the answer, empty when it is taken."""

    kind: Kind
    spec: dict[str, Any]
    patch: dict[str, Any]
    refused: str = ""


_SLICE_FIXED = "what a Slice is made of can't be changed: delete it and make another"
_TASK_FIXED = "a Task's spec can't be changed: delete it and make another"

CHANGES = {
    "slice: instance type": Change(SLICES, _SLICE, {"instanceType": "gd-8xh100ib-i128"}, _SLICE_FIXED),
    "slice: node count": Change(SLICES, _SLICE, {"nodeCount": 2}, _SLICE_FIXED),
    "slice: a label": Change(SLICES, _SLICE, {"nodeLabels": {"a": "b"}}, _SLICE_FIXED),
    "slice: compute class": Change(SLICES, _SLICE, {"computeClass": "spot"}, _SLICE_FIXED),
    "slice: GPUs": Change(SLICES, _SLICE, {"gpusPerNode": 8}, _SLICE_FIXED),
    "slice: kind of GPU": Change(SLICES, _SLICE, {"gpuClass": "H100"}, _SLICE_FIXED),
    "slice: InfiniBand": Change(SLICES, _SLICE, {"infiniband": True}, _SLICE_FIXED),
    "slice: racks": Change(SLICES, {**_SLICE, "nodeCount": 18}, {"racks": 1}, _SLICE_FIXED),
    "slice: a taint": Change(SLICES, _SLICE, {"nodeTaints": [{"key": "k", "effect": "NoSchedule"}]}, _SLICE_FIXED),
    "slice: group": Change(SLICES, _SLICE, {"scaleGroupName": "g"}, _SLICE_FIXED),
    "slice: drained": Change(SLICES, _SLICE, {"availability": "Drained"}),
    "slice: uncordoned": Change(SLICES, {**_SLICE, "availability": "Cordoned"}, {"availability": "Schedulable"}),
    "slice: held": Change(SLICES, _SLICE, {"holdUntil": "2026-11-22T12:00:00Z"}),
    "slice: released": Change(SLICES, {**_SLICE, "holdUntil": "2026-11-22T12:00:00Z"}, {"holdUntil": None}),
    "slice: protected": Change(SLICES, _SLICE, {"deletionProtection": True}),
    "slice: repair": Change(SLICES, _SLICE, {"repair": {"policy": "Wait"}}),
    "slice: lifetime, set": Change(SLICES, _SLICE, {"maxLifetimeSeconds": 86400}),
    "slice: lifetime, taken off": Change(SLICES, {**_SLICE, "maxLifetimeSeconds": 86400}, {"maxLifetimeSeconds": None}),
    "slice: cluster": Change(SLICES, _SLICE, {"clusterName": "other"}, _SLICE_FIXED),
    "task: image": Change(TASKS, _TASK, {"image": "iris/task:2"}, _TASK_FIXED),
    "task: command, added": Change(TASKS, _TASK, {"command": ["sh"]}, _TASK_FIXED),
    "task: command, removed": Change(TASKS, {**_TASK, "command": ["sh"]}, {"command": None}, _TASK_FIXED),
    "task: args": Change(TASKS, _TASK, {"args": ["x"]}, _TASK_FIXED),
    "task: env": Change(TASKS, _TASK, {"env": [{"name": "A", "value": "b"}]}, _TASK_FIXED),
    "task: resources": Change(TASKS, _TASK, {"resources": {"limits": {"cpu": 1}}}, _TASK_FIXED),
    "task: user": Change(TASKS, _TASK, {"securityContext": {"runAsUser": 0}}, _TASK_FIXED),
    "task: placement": Change(TASKS, _TASK, {"placement": {"sliceName": "s"}}, _TASK_FIXED),
    "task: grace period": Change(TASKS, _TASK, {"terminationGracePeriodSeconds": 5}, _TASK_FIXED),
    "task: working directory": Change(TASKS, _TASK, {"workingDir": "/tmp"}, _TASK_FIXED),
    "task: pull policy": Change(TASKS, _TASK, {"imagePullPolicy": "Always"}, _TASK_FIXED),
    "task: pull secrets": Change(TASKS, _TASK, {"imagePullSecrets": [{"name": "s"}]}, _TASK_FIXED),
    "task: retries": Change(TASKS, _TASK, {"retryPolicy": {"infrastructure": 1}}, _TASK_FIXED),
    "task: cluster": Change(TASKS, _TASK, {"clusterName": "other"}, _TASK_FIXED),
    "task: binding, set": Change(TASKS, _TASK, {"binding": _BINDING}),
    "task: binding, told to stop": Change(TASKS, {**_TASK, "binding": _BINDING}, {"binding": {"stopReason": "Why"}}),
    "task: binding, taken off": Change(TASKS, {**_TASK, "binding": _BINDING}, {"binding": None}),
    "group: bounds": Change(SCALE_GROUPS, {"template": {"spec": _SLICE}}, {"minSlices": 2, "maxSlices": 4}),
    "group: template": Change(
        SCALE_GROUPS, {"template": {"spec": _SLICE}}, {"template": {"spec": {"instanceType": "gd-8xh100ib-i128"}}}
    ),
    "group: minSlices over maxSlices": Change(
        SCALE_GROUPS, {"template": {"spec": _SLICE}}, {"minSlices": 5}, "lower minSlices or raise maxSlices"
    ),
    "group: template, to racks": Change(
        SCALE_GROUPS, {"template": {"spec": _SLICE}}, {"template": {"spec": {"racks": 2, "nodeCount": 36}}}
    ),
    "cluster: agent's image": Change(IRIS_CLUSTERS, {}, {"images": {"agent": "iris/agent:2"}}),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_what_may_change(api: KubeClient, namespace: str, name: str) -> None:
    case = CHANGES[name]
    await api.create(case.kind, _body(case.kind, case.spec), namespace)
    answer = await _refusal(api, case, namespace)
    assert case.refused in answer if case.refused else not answer


async def _refusal(api: KubeClient, case: Change, namespace: str) -> str:
    try:
        await api.patch(case.kind, "x", {"spec": case.patch}, namespace=namespace)
    except ApiError as error:
        return error.message
    return ""


def _body(kind: Kind, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": _KINDS[kind], "metadata": {"name": "x"}, "spec": spec}
