"""The log through pods/proxy, for a cluster whose chart has no gateway yet."""

from __future__ import annotations

from typing import Protocol

from iris_operator.api.names import WORKER_PORT
from iris_operator.api.task import Binding, Task
from iris_operator.ports.kube import PODS, Body


class _Wanted(Protocol):
    @property
    def timestamps(self) -> bool: ...

    @property
    def since_seconds(self) -> int | None: ...


def proxy_path(pod: Body, task: Task, binding: Binding) -> str:
    """Path of the log through the API server, at the port that the worker Pod's agent listens on."""
    containers = pod.get("spec", {}).get("containers") or [{}]
    ports = containers[0].get("ports") or [{}]
    port = ports[0].get("containerPort", WORKER_PORT)
    base = PODS.path(task.metadata.namespace, f"{binding.worker_pod}:{port}", "proxy")
    return f"{base}/v1/logs/{task.metadata.uid}/{binding.attempt}"


def too_much_for_a_proxy(wanted: _Wanted) -> bool:
    """Whether only the gateway's road knows it."""
    return wanted.timestamps or wanted.since_seconds is not None
