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


def _with(**spec: Any) -> dict[str, Any]:
    return {**_TASK, **spec}


def _volume(**source: Any) -> dict[str, Any]:
    return _with(volumes=[{"name": "v", **source}])


def _mount(**mount: Any) -> dict[str, Any]:
    return _with(volumes=[{"name": "v", "nodeCache": {}}], volumeMounts=[{"name": "v", "mountPath": "/v", **mount}])


def _variable(**source: Any) -> dict[str, Any]:
    return _with(env=[{"name": "A", **source}])


def _probe(**probe: Any) -> dict[str, Any]:
    return _with(readinessProbe=probe)


def _lifetime(**lifetime: Any) -> dict[str, Any]:
    return _with(containerLifetime=lifetime)


def _stays(policy: str = "Persistent", lifetime: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    found = {"policy": policy, "name": "c", **(lifetime or {})}
    return _with(containerLifetime=found, placement={"sliceName": "s"}, **spec)


_KEY_OF = {"name": "o", "key": "k"}
_SHA = f"sha256:{'0' * 64}"
_HTTP = {"url": "https://h/a.tgz"}
_EXEC = {"exec": {"command": ["true"]}}

_REFUSED_TASKS: dict[str, tuple[Any, ...]] = {
    "a value from two places": (_variable(value="x", valueFrom={"secretKeyRef": _KEY_OF}), "spec.env[0]", "keep one"),
    "a value from nowhere": (_variable(valueFrom={}), "spec.env[0].valueFrom", "exactly one of"),
    "a value from a Secret and a ConfigMap": (
        _variable(valueFrom={"secretKeyRef": _KEY_OF, "configMapKeyRef": _KEY_OF}), "valueFrom", "exactly one of"
    ),
    "a value from a Secret's no key": (_variable(valueFrom={"secretKeyRef": {"name": "o"}}), "secretKeyRef.key", "Required"),
    "a value from an unknown fact": (
        _variable(valueFrom={"fieldRef": {"fieldPath": "spec.nodeName"}}), "fieldRef.fieldPath", "spec.binding.nodeName"
    ),
    "an environment from nothing": (_with(envFrom=[{"prefix": "A"}]), "spec.envFrom[0]", "exactly one of"),
    "an environment from two": (
        _with(envFrom=[{"secretRef": {"name": "a"}, "configMapRef": {"name": "a"}}]), "spec.envFrom[0]", "exactly one of"
    ),
    "set-up without a command": (_with(setup=[{"name": "a"}]), "spec.setup[0].command", "Required"),
    "set-up of an empty command": (_with(setup=[{"command": []}]), "spec.setup[0].command", "at least 1"),
    "33 set-up commands": (_with(setup=[{"command": ["true"]}] * 33), "spec.setup", "32"),
    "bundle of nothing": (_with(bundle={"digest": _SHA}), "spec.bundle", "exactly one of http, s3, configMap and volume"),
    "bundle of two": (
        _with(bundle={"digest": _SHA, "http": _HTTP, "configMap": {"name": "c"}}), "spec.bundle", "exactly one of"
    ),
    "bundle by HTTP without a digest": (_with(bundle={"http": _HTTP}), "spec.bundle", "digest is required"),
    "bundle by S3 without a digest": (
        _with(bundle={"s3": {"bucket": "b", "key": "k"}}), "spec.bundle", "as sha256sum prints it"
    ),
    "bundle with half a digest": (_with(bundle={"digest": "sha256:0", "http": _HTTP}), "bundle.digest", "sha256"),
    "bundle by FTP": (_with(bundle={"digest": _SHA, "http": {"url": "ftp://h/a"}}), "bundle.http.url", "https?"),
    "bundle from no volume": (_with(bundle={"volume": {"name": "v"}}), "spec.bundle", "mend the name"),
    "bundle from above its volume": (
        _with(volumes=[{"name": "v", "nodeCache": {}}], bundle={"volume": {"name": "v", "path": "a/../../b"}}),
        "spec.bundle.volume.path",
    ),
    "volume of nothing": (_volume(), "spec.volumes[0]", "exactly one of emptyDir"),
    "volume of two": (_volume(emptyDir={}, nodeCache={}), "spec.volumes[0]", "exactly one of"),
    "two volumes of one name": (
        _with(volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "nodeCache": {}}]), "spec.volumes[1]", "Duplicate"
    ),
    "volume on paper": (_volume(emptyDir={"medium": "Paper"}), "emptyDir.medium", "Memory"),
    "volume of less than nothing": (_volume(emptyDir={"sizeLimit": "-1Gi"}), "emptyDir.sizeLimit"),
    "relative path of the node": (_volume(hostPath={"path": "data"}), "hostPath.path"),
    "path of the node that leads out": (_volume(hostPath={"path": "/data/../etc"}), "hostPath.path"),
    "file above its volume": (
        _volume(configMap={"name": "c", "items": [{"key": "k", "path": "../k"}]}), "configMap.items[0].path"
    ),
    "absolute file of a Secret": (
        _volume(secret={"secretName": "c", "items": [{"key": "k", "path": "/k"}]}), "secret.items[0].path"
    ),
    "permissions beyond all": (_volume(configMap={"name": "c", "defaultMode": 512}), "configMap.defaultMode", "511"),
    "claim without a name": (_volume(persistentVolumeClaim={}), "persistentVolumeClaim.claimName", "Required"),
    "cache with a path for a name": (_volume(nodeCache={"name": "../x"}), "nodeCache.name"),
    "mount of no volume": (_with(volumeMounts=[{"name": "v", "mountPath": "/v"}]), "spec.volumeMounts", "mend the name"),
    "mount of another volume": (
        {**_mount(), "volumeMounts": [{"name": "w", "mountPath": "/v"}]}, "spec.volumeMounts", "mend the name"
    ),
    "mount at a relative path": (_mount(mountPath="v"), "volumeMounts[0].mountPath"),
    "mount over the root": (_mount(mountPath="/"), "volumeMounts[0].mountPath"),
    "mount of what is above": (_mount(subPath="a/.."), "volumeMounts[0].subPath"),
    "two mounts at one path": (
        {**_mount(), "volumeMounts": [{"name": "v", "mountPath": "/v"}] * 2}, "volumeMounts[1]", "Duplicate"
    ),
    "port without a name": (_with(ports=[{"containerPort": 80}]), "spec.ports[0].name", "Required"),
    "port beyond the last": (_with(ports=[{"name": "a", "containerPort": 65536}]), "containerPort", "65535"),
    "two ports of one number": (
        _with(ports=[{"name": "a", "containerPort": 80}, {"name": "b", "containerPort": 80}]), "spec.ports", "taken once"
    ),
    "service without ports": (_with(serviceName="web"), "spec.serviceName", "serviceName needs ports"),
    "service of a bad name": (_with(serviceName="Web", ports=[{"name": "a"}]), "spec.serviceName"),
    "probe that asks nothing": (_probe(periodSeconds=5), "spec.readinessProbe", "exactly one of exec, httpGet"),
    "probe that asks two": (_probe(**_EXEC, tcpSocket={"port": 80}), "spec.readinessProbe", "exactly one of"),
    "probe without a port": (_probe(httpGet={"path": "/"}), "httpGet.port", "Required"),
    "probe of port 0": (_probe(tcpSocket={"port": 0}), "tcpSocket.port", "1"),
    "probe of port 65536": (_probe(tcpSocket={"port": 65536}), "tcpSocket.port", "65535"),
    "probe of no port": (_probe(httpGet={"port": "web"}), "spec.readinessProbe", "the name of no port"),
    "startup probe of no port": (_with(startupProbe={"tcpSocket": {"port": "web"}}), "startupProbe", "the name of no port"),
    "liveness probe of another port": (
        _with(livenessProbe={"httpGet": {"port": "web"}}, ports=[{"name": "api"}]), "livenessProbe", "the name of no port"
    ),
    "probe without a pause": (_probe(**_EXEC, periodSeconds=0), "readinessProbe.periodSeconds", "1"),
    "probe without a threshold": (_probe(**_EXEC, failureThreshold=0), "readinessProbe.failureThreshold", "1"),
    "preStop of nothing": (_with(lifecycle={"preStop": {}}), "lifecycle.preStop", "exactly one of exec and httpGet"),
    "preStop of no port": (
        _with(lifecycle={"preStop": {"httpGet": {"port": "web"}}}), "spec.lifecycle", "the name of no port"
    ),
    "stop signal by number": (_with(lifecycle={"stopSignal": "15"}), "lifecycle.stopSignal", "SIG"),
    "container of no name that stays": (_lifetime(policy="Persistent"), "containerLifetime.name", "name is required"),
    "container of no name that is there": (_lifetime(policy="NoLaunch"), "containerLifetime.name", "name is required"),
    "container that stays somewhere": (
        _lifetime(policy="Persistent", name="c"), "placement.sliceName", "the container lives on that slice"
    ),
    "set-up commands for a container that stays": (
        _stays(setup=[{"command": ["true"]}]), "spec.setup", "write a containerLifetime.setupScript"
    ),
    "bundle for a container that stays": (
        _stays(bundle={"configMap": {"name": "b"}}), "spec.bundle", "use a nodeCache volume"
    ),
    "volume of one attempt in a container that stays": (
        _stays(volumes=[{"name": "v", "emptyDir": {}}]), "spec.volumes", "takes only hostPath"
    ),
    "script for a container that isn't started": (
        _lifetime(policy="NoLaunch", name="c", setupScript={"inline": "true"}), "setupScript", "starts no container"
    ),
    "script of nothing": (_lifetime(setupScript={}), "setupScript", "exactly one of inline"),
    "script of two": (_lifetime(setupScript={"inline": "true", "packaged": "sshd"}), "setupScript", "exactly one of"),
    "script that isn't packaged": (_lifetime(setupScript={"packaged": "telnetd"}), "setupScript.packaged", "sshd"),
    "script of 257 KiB": (_lifetime(setupScript={"inline": "x" * (257 * 1024)}), "setupScript.inline", "262144"),
    "removed key launch": (_lifetime(launch=False), "containerLifetime.launch", "write policy: PerRun"),
    "removed key enabled": (_lifetime(enabled=True), "containerLifetime.enabled", "leave it out"),
    "lifetime of a year": (_lifetime(policy="Forever", name="c"), "containerLifetime.policy", "NoLaunch"),
    "start in no time": (_lifetime(startTimeoutSeconds=0), "startTimeoutSeconds", "1"),
    "placing in no time": (_with(timeouts={"schedulingSeconds": 0}), "timeouts.schedulingSeconds", "1"),
    "building in no time": (_with(timeouts={"buildingSeconds": 0}), "timeouts.buildingSeconds", "1"),
    "running in no time": (_with(timeouts={"runningSeconds": 0}), "timeouts.runningSeconds", "1"),
    "priority beyond all others": (_with(priority=1001), "spec.priority", "1000"),
    "user retries without end": (_with(retryPolicy={"user": 1001}), "retryPolicy.user", "1000"),
    "backoff of two days": (_with(retryPolicy={"backoffSeconds": 172800}), "retryPolicy.backoffSeconds", "86400"),
    "rule of no exit code": (
        _with(retryPolicy={"onExitCodes": [{"exitCodes": [], "action": "Fail"}]}), "onExitCodes[0].exitCodes", "at least 1"
    ),
    "rule of exit code 256": (
        _with(retryPolicy={"onExitCodes": [{"exitCodes": [256], "action": "Fail"}]}), "exitCodes[0]", "255"
    ),
    "rule that shrugs": (
        _with(retryPolicy={"onExitCodes": [{"exitCodes": [1], "action": "Shrug"}]}), "onExitCodes[0].action", "Succeed"
    ),
    "capability with CAP_ in lower case": (
        _with(securityContext={"capabilities": {"add": ["net_admin"]}}), "capabilities.add[0]"
    ),
    "runtime of another house": (_with(runtime="podman"), "spec.runtime", "enroot"),
    "hugepages of less than none": (_with(resources={"limits": {"hugepages-2Mi": "-2Mi"}}), "hugepages-2Mi"),
    "no process at all": (_with(resources={"pids": 0}), "resources.pids", "1"),
}  # fmt: skip

_TAKEN_TASKS = {
    "environment from everywhere": _with(
        env=[
            {"name": "A", "value": "x"}, {"name": "B", "valueFrom": {"secretKeyRef": _KEY_OF}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {**_KEY_OF, "optional": True}}},
            {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "spec.binding.rank"}}},
        ],
        envFrom=[{"prefix": "P_", "secretRef": {"name": "s"}}, {"configMapRef": {"name": "c", "optional": True}}],
    ),
    "every kind of volume": _with(
        volumes=[
            {"name": "a", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "b", "hostPath": {"path": "/data/..x/y", "type": "DirectoryOrCreate"}},
            {"name": "c", "configMap": {"name": "c", "items": [{"key": "k", "path": "a/..k/./k"}], "defaultMode": 0}},
            {"name": "d", "secret": {"secretName": "s"}},
            {"name": "e", "persistentVolumeClaim": {"claimName": "p", "readOnly": True}},
            {"name": "f", "nodeCache": {"name": "pip"}},
        ],
        volumeMounts=[{"name": name, "mountPath": f"/{name}", "subPath": "x/y"} for name in "abcdef"],
    ),
    "bundle by HTTP": _with(bundle={"digest": _SHA, "http": {**_HTTP, "secretName": "s"}}),
    "bundle from a ConfigMap, without a digest": _with(bundle={"configMap": {"name": "c"}, "mountPath": "/code"}),
    "bundle from a volume": _with(
        volumes=[{"name": "v", "nodeCache": {}}], bundle={"volume": {"name": "v", "path": "code/a.tgz"}}
    ),
    "ports and probes": _with(
        ports=[{"name": "web", "containerPort": 80}, {"name": "dns", "containerPort": 80, "protocol": "UDP"},
               {"name": "free"}, {"name": "free2", "containerPort": 0}],
        serviceName="web",
        startupProbe={"tcpSocket": {"port": "free"}}, livenessProbe=_EXEC, readinessProbe={"httpGet": {"port": 80}},
        lifecycle={"preStop": {"httpGet": {"port": "web"}}, "stopSignal": "SIGRTMIN+3"},
    ),
    "a container that stays": _stays(
        lifetime={"setupScript": {"packaged": "sshd"}, "idleSeconds": 60},
        volumes=[{"name": "v", "nodeCache": {}}], volumeMounts=[{"name": "v", "mountPath": "/v"}],
    ),
    "a container that is there": _stays("NoLaunch"),
    "a script for one run": _lifetime(setupScript={"inline": "x" * (256 * 1024)}),
    "retries by cause": _with(
        retryPolicy={
            "user": 3, "infrastructure": 0, "preemption": 10000, "backoffSeconds": 0, "maxBackoffSeconds": 0,
            "onExitCodes": [{"exitCodes": [42, 137], "action": "Retry"}, {"exitCodes": [0], "action": "Fail"}],
        },
        timeouts={"schedulingSeconds": 60, "buildingSeconds": 60, "runningSeconds": 60},
    ),
    "all that a policy may refuse": _with(
        runtime="enroot",
        securityContext={"privileged": True, "capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]}},
    ),
}  # fmt: skip


REFUSED = {
    **{f"task: {name}": Refused(TASKS, case[0], case[1:]) for name, case in _REFUSED_TASKS.items()},
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
    "claim of the workers without a name": Refused(
        IRIS_CLUSTERS,
        {"worker": {"volumeClaims": [{"readOnly": True}]}},
        ("worker.volumeClaims[0].claimName", "Required"),
    ),
    "one claim of the workers twice": Refused(
        IRIS_CLUSTERS, {"worker": {"volumeClaims": [{"claimName": "a"}] * 2}}, ("worker.volumeClaims[1]", "Duplicate")
    ),
    "runtime of the workers": Refused(IRIS_CLUSTERS, {"worker": {"runtime": "podman"}}, ("worker.runtime", "docker")),
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
async def test_refused_with_the_field_s_name(api: KubeClient, namespace: str, name: str) -> None:
    case = REFUSED[name]
    with pytest.raises(InvalidError) as caught:
        await api.create(case.kind, _body(case.kind, case.spec), namespace)
    for word in case.words:
        assert word in caught.value.message


@pytest.mark.parametrize("name", _TAKEN_TASKS)
async def test_taken(api: KubeClient, namespace: str, name: str) -> None:
    await api.create(TASKS, _body(TASKS, _TAKEN_TASKS[name]), namespace)


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
    "task: runtime": Change(TASKS, _TASK, {"runtime": "docker"}, _TASK_FIXED),
    "task: env from": Change(TASKS, _TASK, {"envFrom": [{"secretRef": {"name": "s"}}]}, _TASK_FIXED),
    "task: setup": Change(TASKS, _TASK, {"setup": [{"command": ["true"]}]}, _TASK_FIXED),
    "task: bundle": Change(TASKS, _TASK, {"bundle": {"configMap": {"name": "c"}}}, _TASK_FIXED),
    "task: volumes": Change(TASKS, _TASK, {"volumes": [{"name": "v", "emptyDir": {}}]}, _TASK_FIXED),
    "task: ports": Change(TASKS, _TASK, {"ports": [{"name": "a"}]}, _TASK_FIXED),
    "task: probes": Change(TASKS, _TASK, {"livenessProbe": _EXEC}, _TASK_FIXED),
    "task: startup probe": Change(TASKS, _TASK, {"startupProbe": _EXEC}, _TASK_FIXED),
    "task: readiness probe": Change(TASKS, _TASK, {"readinessProbe": _EXEC}, _TASK_FIXED),
    "task: lifecycle": Change(TASKS, _TASK, {"lifecycle": {"stopSignal": "SIGINT"}}, _TASK_FIXED),
    "task: lifetime": Change(TASKS, _TASK, {"containerLifetime": {"idleSeconds": 5}}, _TASK_FIXED),
    "task: timeouts": Change(TASKS, _TASK, {"timeouts": {"runningSeconds": 5}}, _TASK_FIXED),
    "task: service": Change(TASKS, {**_TASK, "ports": [{"name": "a"}]}, {"serviceName": "web"}, _TASK_FIXED),
    "task: mounts": Change(
        TASKS,
        {**_TASK, "volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        _TASK_FIXED,
    ),
    "task: cluster": Change(TASKS, _TASK, {"clusterName": "other"}, _TASK_FIXED),
    "task: priority": Change(TASKS, _TASK, {"priority": 5}),
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
