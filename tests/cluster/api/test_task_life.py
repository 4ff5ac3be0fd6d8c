"""What the API server refuses of how a Task is to run: ports, probes, its container, limits, retries. By our schemas alone."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.ports.kube import TASKS
from tests.cluster.api.kit import EXEC, TASK, Refused, assert_refused, made, refused_tasks, task_with

pytestmark = pytest.mark.cluster


def _gpus(requests: Any, limits: Any) -> dict[str, Any]:
    return {**TASK, "resources": {"requests": {"nvidia.com/gpu": requests}, "limits": {"nvidia.com/gpu": limits}}}


def _quantity(text: Any) -> dict[str, Any]:
    return {**TASK, "resources": {"limits": {"memory": text}}}


def _probe(**probe: Any) -> dict[str, Any]:
    return task_with(readinessProbe=probe)


def _lifetime(**lifetime: Any) -> dict[str, Any]:
    return task_with(containerLifetime=lifetime)


def _stays(policy: str = "Persistent", lifetime: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    found = {"policy": policy, "name": "c", **(lifetime or {})}
    return task_with(containerLifetime=found, placement={"sliceName": "s"}, **spec)


_CASES: dict[str, tuple[Any, ...]] = {
    "port without a name": (task_with(ports=[{"containerPort": 80}]), "spec.ports[0].name", "Required"),
    "port beyond the last": (task_with(ports=[{"name": "a", "containerPort": 65536}]), "containerPort", "65535"),
    "two ports of one number": (
        task_with(ports=[{"name": "a", "containerPort": 80}, {"name": "b", "containerPort": 80}]), "spec.ports", "taken once"
    ),
    "service without ports": (task_with(serviceName="web"), "spec.serviceName", "serviceName needs ports"),
    "service of a bad name": (task_with(serviceName="Web", ports=[{"name": "a"}]), "spec.serviceName"),
    "probe that asks nothing": (_probe(periodSeconds=5), "spec.readinessProbe", "exactly one of exec, httpGet"),
    "probe that asks two": (_probe(**EXEC, tcpSocket={"port": 80}), "spec.readinessProbe", "exactly one of"),
    "probe without a port": (_probe(httpGet={"path": "/"}), "httpGet.port", "Required"),
    "probe of port 0": (_probe(tcpSocket={"port": 0}), "tcpSocket.port", "1"),
    "probe of port 65536": (_probe(tcpSocket={"port": 65536}), "tcpSocket.port", "65535"),
    "probe of no port": (_probe(httpGet={"port": "web"}), "spec.readinessProbe", "the name of no port"),
    "startup probe of no port": (task_with(startupProbe={"tcpSocket": {"port": "web"}}), "startupProbe", "the name of no port"),
    "liveness probe of another port": (
        task_with(livenessProbe={"httpGet": {"port": "web"}}, ports=[{"name": "api"}]), "livenessProbe", "the name of no port"
    ),
    "probe without a pause": (_probe(**EXEC, periodSeconds=0), "readinessProbe.periodSeconds", "1"),
    "probe without a threshold": (_probe(**EXEC, failureThreshold=0), "readinessProbe.failureThreshold", "1"),
    "preStop of nothing": (task_with(lifecycle={"preStop": {}}), "lifecycle.preStop", "exactly one of exec and httpGet"),
    "preStop of no port": (
        task_with(lifecycle={"preStop": {"httpGet": {"port": "web"}}}), "spec.lifecycle", "the name of no port"
    ),
    "stop signal by number": (task_with(lifecycle={"stopSignal": "15"}), "lifecycle.stopSignal", "SIG"),
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
    "placing in no time": (task_with(timeouts={"schedulingSeconds": 0}), "timeouts.schedulingSeconds", "1"),
    "building in no time": (task_with(timeouts={"buildingSeconds": 0}), "timeouts.buildingSeconds", "1"),
    "running in no time": (task_with(timeouts={"runningSeconds": 0}), "timeouts.runningSeconds", "1"),
    "priority beyond all others": (task_with(priority=1001), "spec.priority", "1000"),
    "user retries without end": (task_with(retryPolicy={"user": 1001}), "retryPolicy.user", "1000"),
    "backoff of two days": (task_with(retryPolicy={"backoffSeconds": 172800}), "retryPolicy.backoffSeconds", "86400"),
    "rule of no exit code": (
        task_with(retryPolicy={"onExitCodes": [{"exitCodes": [], "action": "Fail"}]}), "onExitCodes[0].exitCodes", "at least 1"
    ),
    "rule of exit code 256": (
        task_with(retryPolicy={"onExitCodes": [{"exitCodes": [256], "action": "Fail"}]}), "exitCodes[0]", "255"
    ),
    "rule that shrugs": (
        task_with(retryPolicy={"onExitCodes": [{"exitCodes": [1], "action": "Shrug"}]}), "onExitCodes[0].action", "Succeed"
    ),
    "capability with CAP_ in lower case": (
        task_with(securityContext={"capabilities": {"add": ["net_admin"]}}), "capabilities.add[0]"
    ),
    "runtime of another house": (task_with(runtime="podman"), "spec.runtime", "enroot"),
    "hugepages of less than none": (task_with(resources={"limits": {"hugepages-2Mi": "-2Mi"}}), "hugepages-2Mi"),
    "no process at all": (task_with(resources={"pids": 0}), "resources.pids", "1"),
}  # fmt: skip

REFUSED = {
    **refused_tasks(_CASES),
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
        TASKS, {**TASK, "resources": {"limits": {"nvidia.com/gpu": "500m"}}}, ("spec.resources", "whole devices")
    ),
    "relative working directory": Refused(TASKS, {**TASK, "workingDir": "tmp"}, ("spec.workingDir",)),
    "grace period of two days": Refused(
        TASKS, {**TASK, "terminationGracePeriodSeconds": 172800}, ("terminationGracePeriodSeconds", "86400")
    ),
    "two values of one variable": Refused(
        TASKS, {**TASK, "env": [{"name": "A"}, {"name": "A"}]}, ("spec.env", "Duplicate")
    ),
    "variable name with =": Refused(TASKS, {**TASK, "env": [{"name": "A=B"}]}, ("spec.env[0].name",)),
    "unknown pull policy": Refused(TASKS, {**TASK, "imagePullPolicy": "Sometimes"}, ("imagePullPolicy", "Always")),
    "negative user": Refused(TASKS, {**TASK, "securityContext": {"runAsUser": -1}}, ("runAsUser",)),
    "retries of less than none": Refused(
        TASKS, {**TASK, "retryPolicy": {"infrastructure": -1}}, ("spec.retryPolicy.infrastructure", "0")
    ),
}

TAKEN = {
    "ports and probes": task_with(
        ports=[{"name": "web", "containerPort": 80}, {"name": "dns", "containerPort": 80, "protocol": "UDP"},
               {"name": "free"}, {"name": "free2", "containerPort": 0}],
        serviceName="web",
        startupProbe={"tcpSocket": {"port": "free"}}, livenessProbe=EXEC, readinessProbe={"httpGet": {"port": 80}},
        lifecycle={"preStop": {"httpGet": {"port": "web"}}, "stopSignal": "SIGRTMIN+3"},
    ),
    "a container that stays": _stays(
        lifetime={"setupScript": {"packaged": "sshd"}, "idleSeconds": 60},
        volumes=[{"name": "v", "nodeCache": {}}], volumeMounts=[{"name": "v", "mountPath": "/v"}],
    ),
    "a container that is there": _stays("NoLaunch"),
    "a script for one run": _lifetime(setupScript={"inline": "x" * (256 * 1024)}),
    "retries by cause": task_with(
        retryPolicy={
            "user": 3, "infrastructure": 0, "preemption": 10000, "backoffSeconds": 0, "maxBackoffSeconds": 0,
            "onExitCodes": [{"exitCodes": [42, 137], "action": "Retry"}, {"exitCodes": [0], "action": "Fail"}],
        },
        timeouts={"schedulingSeconds": 60, "buildingSeconds": 60, "runningSeconds": 60},
    ),
    "all that a policy may refuse": task_with(
        runtime="enroot",
        securityContext={"privileged": True, "capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]}},
    ),
    "a number with and without quotes": _gpus(2, "2"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_with_the_field_s_name(api: KubeClient, name: str) -> None:
    await assert_refused(api, REFUSED[name])


@pytest.mark.parametrize("name", TAKEN)
async def test_taken(api: KubeClient, name: str) -> None:
    async with made(api, TASKS, TAKEN[name]):
        pass
