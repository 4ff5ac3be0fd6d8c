"""What may change of an object that was made, and what the refusal says of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.ports.errors import ApiError
from iris_operator.ports.kube import IRIS_CLUSTERS, SCALE_GROUPS, SLICES, TASKS, Kind
from tests.cluster.api.kit import EXEC, NAMESPACE, SLICE, TASK, made

pytestmark = pytest.mark.cluster

BINDING = {
    "sliceName": "s", "nodeName": "n", "workerPod": "s-worker-0", "workerUid": "u", "rank": 0, "attempt": 1,
    "boundAt": "2026-11-21T12:00:00Z",
}  # fmt: skip


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
    "slice: instance type": Change(SLICES, SLICE, {"instanceType": "gd-8xh100ib-i128"}, _SLICE_FIXED),
    "slice: node count": Change(SLICES, SLICE, {"nodeCount": 2}, _SLICE_FIXED),
    "slice: a label": Change(SLICES, SLICE, {"nodeLabels": {"a": "b"}}, _SLICE_FIXED),
    "slice: compute class": Change(SLICES, SLICE, {"computeClass": "spot"}, _SLICE_FIXED),
    "slice: GPUs": Change(SLICES, SLICE, {"gpusPerNode": 8}, _SLICE_FIXED),
    "slice: kind of GPU": Change(SLICES, SLICE, {"gpuClass": "H100"}, _SLICE_FIXED),
    "slice: InfiniBand": Change(SLICES, SLICE, {"infiniband": True}, _SLICE_FIXED),
    "slice: racks": Change(SLICES, {**SLICE, "nodeCount": 18}, {"racks": 1}, _SLICE_FIXED),
    "slice: a taint": Change(SLICES, SLICE, {"nodeTaints": [{"key": "k", "effect": "NoSchedule"}]}, _SLICE_FIXED),
    "slice: group": Change(SLICES, SLICE, {"scaleGroupName": "g"}, _SLICE_FIXED),
    "slice: machines of one's own": Change(SLICES, SLICE, {"external": {"serviceAccountName": "m"}}, _SLICE_FIXED),
    "slice: whose machines": Change(
        SLICES,
        {**SLICE, "external": {"serviceAccountName": "m"}},
        {"external": {"serviceAccountName": "other"}},
        _SLICE_FIXED,
    ),
    "slice: drained": Change(SLICES, SLICE, {"availability": "Drained"}),
    "slice: uncordoned": Change(SLICES, {**SLICE, "availability": "Cordoned"}, {"availability": "Schedulable"}),
    "slice: held": Change(SLICES, SLICE, {"holdUntil": "2026-11-22T12:00:00Z"}),
    "slice: released": Change(SLICES, {**SLICE, "holdUntil": "2026-11-22T12:00:00Z"}, {"holdUntil": None}),
    "slice: protected": Change(SLICES, SLICE, {"deletionProtection": True}),
    "slice: repair": Change(SLICES, SLICE, {"repair": {"policy": "Wait"}}),
    "slice: lifetime, set": Change(SLICES, SLICE, {"maxLifetimeSeconds": 86400}),
    "slice: lifetime, taken off": Change(SLICES, {**SLICE, "maxLifetimeSeconds": 86400}, {"maxLifetimeSeconds": None}),
    "slice: cluster": Change(SLICES, SLICE, {"clusterName": "other"}, _SLICE_FIXED),
    "task: image": Change(TASKS, TASK, {"image": "iris/task:2"}, _TASK_FIXED),
    "task: command, added": Change(TASKS, TASK, {"command": ["sh"]}, _TASK_FIXED),
    "task: command, removed": Change(TASKS, {**TASK, "command": ["sh"]}, {"command": None}, _TASK_FIXED),
    "task: args": Change(TASKS, TASK, {"args": ["x"]}, _TASK_FIXED),
    "task: env": Change(TASKS, TASK, {"env": [{"name": "A", "value": "b"}]}, _TASK_FIXED),
    "task: resources": Change(TASKS, TASK, {"resources": {"limits": {"cpu": 1}}}, _TASK_FIXED),
    "task: user": Change(TASKS, TASK, {"securityContext": {"runAsUser": 0}}, _TASK_FIXED),
    "task: placement": Change(TASKS, TASK, {"placement": {"sliceName": "s"}}, _TASK_FIXED),
    "task: grace period": Change(TASKS, TASK, {"terminationGracePeriodSeconds": 5}, _TASK_FIXED),
    "task: working directory": Change(TASKS, TASK, {"workingDir": "/tmp"}, _TASK_FIXED),
    "task: pull policy": Change(TASKS, TASK, {"imagePullPolicy": "Always"}, _TASK_FIXED),
    "task: pull secrets": Change(TASKS, TASK, {"imagePullSecrets": [{"name": "s"}]}, _TASK_FIXED),
    "task: retries": Change(TASKS, TASK, {"retryPolicy": {"infrastructure": 1}}, _TASK_FIXED),
    "task: runtime": Change(TASKS, TASK, {"runtime": "docker"}, _TASK_FIXED),
    "task: env from": Change(TASKS, TASK, {"envFrom": [{"secretRef": {"name": "s"}}]}, _TASK_FIXED),
    "task: setup": Change(TASKS, TASK, {"setup": [{"command": ["true"]}]}, _TASK_FIXED),
    "task: bundle": Change(TASKS, TASK, {"bundle": {"configMap": {"name": "c"}}}, _TASK_FIXED),
    "task: volumes": Change(TASKS, TASK, {"volumes": [{"name": "v", "emptyDir": {}}]}, _TASK_FIXED),
    "task: ports": Change(TASKS, TASK, {"ports": [{"name": "a"}]}, _TASK_FIXED),
    "task: probes": Change(TASKS, TASK, {"livenessProbe": EXEC}, _TASK_FIXED),
    "task: startup probe": Change(TASKS, TASK, {"startupProbe": EXEC}, _TASK_FIXED),
    "task: readiness probe": Change(TASKS, TASK, {"readinessProbe": EXEC}, _TASK_FIXED),
    "task: lifecycle": Change(TASKS, TASK, {"lifecycle": {"stopSignal": "SIGINT"}}, _TASK_FIXED),
    "task: lifetime": Change(TASKS, TASK, {"containerLifetime": {"idleSeconds": 5}}, _TASK_FIXED),
    "task: timeouts": Change(TASKS, TASK, {"timeouts": {"runningSeconds": 5}}, _TASK_FIXED),
    "task: service": Change(TASKS, {**TASK, "ports": [{"name": "a"}]}, {"serviceName": "web"}, _TASK_FIXED),
    "task: mounts": Change(
        TASKS,
        {**TASK, "volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        _TASK_FIXED,
    ),
    "task: cluster": Change(TASKS, TASK, {"clusterName": "other"}, _TASK_FIXED),
    "task: priority": Change(TASKS, TASK, {"priority": 5}),
    "task: binding, set": Change(TASKS, TASK, {"binding": BINDING}),
    "task: binding, told to stop": Change(TASKS, {**TASK, "binding": BINDING}, {"binding": {"stopReason": "Why"}}),
    "task: binding, taken off": Change(TASKS, {**TASK, "binding": BINDING}, {"binding": None}),
    "group: bounds": Change(SCALE_GROUPS, {"template": {"spec": SLICE}}, {"minSlices": 2, "maxSlices": 4}),
    "group: template": Change(
        SCALE_GROUPS, {"template": {"spec": SLICE}}, {"template": {"spec": {"instanceType": "gd-8xh100ib-i128"}}}
    ),
    "group: minSlices over maxSlices": Change(
        SCALE_GROUPS, {"template": {"spec": SLICE}}, {"minSlices": 5}, "lower minSlices or raise maxSlices"
    ),
    "group: template, to racks": Change(
        SCALE_GROUPS, {"template": {"spec": SLICE}}, {"template": {"spec": {"racks": 2, "nodeCount": 36}}}
    ),
    "cluster: agent's image": Change(IRIS_CLUSTERS, {}, {"images": {"agent": "iris/agent:2"}}),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_what_may_change(api: KubeClient, name: str) -> None:
    case = CHANGES[name]
    async with made(api, case.kind, case.spec) as what:
        answer = await _refusal(api, case, what)
        assert case.refused in answer if case.refused else not answer


async def _refusal(api: KubeClient, case: Change, name: str) -> str:
    try:
        await api.patch(case.kind, name, {"spec": case.patch}, namespace=NAMESPACE)
    except ApiError as error:
        return error.message
    return ""
