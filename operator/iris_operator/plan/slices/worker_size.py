"""How large a worker Pod is, and what of it Tasks may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from iris_operator.api.cluster import Worker
from iris_operator.api.core import Node, Pod
from iris_operator.api.names import GPU_RESOURCE, RDMA_RESOURCE
from iris_operator.api.quantity import amounts, minus, plus

_SIZED = ("cpu", "memory", GPU_RESOURCE, RDMA_RESOURCE)
_SMALLEST = {"cpu": 100, "memory": 64 * 2**20}


def pod_requests(pod: Pod) -> dict[str, int]:
    """What the scheduler counts a Pod with: the larger of its containers' sum and any init container, and overhead."""
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        total = plus(total, _requests(container))
    for container in pod.spec.init_containers:
        wanted = _requests(container)
        total = {name: max(total.get(name, 0), wanted.get(name, 0)) for name in {**total, **wanted}}
    return plus(total, amounts(pod.spec.overhead))


def worker_size(node: Node, neighbours: Iterable[Pod], worker: Worker) -> dict[str, int]:
    """Requests (= limits) of the worker Pod: allocatable less the node's other Pods and the headroom.

    cpu in millicores, memory in bytes (whole Mi), devices in pieces. Never under 100m and 64Mi: on a node that is
    too full, the Pod then waits, and says so.
    """
    free = amounts({name: text for name, text in node.status.allocatable.items() if name in _SIZED})
    for pod in neighbours:
        if not pod.ended:
            free = minus(free, pod_requests(pod))
    free = minus(free, amounts(worker.headroom))
    free["memory"] = free.get("memory", 0) // 2**20 * 2**20
    sized = {name: value for name, value in free.items() if value > 0}
    return {**sized, **{name: max(sized.get(name, 0), least) for name, least in _SMALLEST.items()}}


def task_capacity(pod: Pod, worker: Worker) -> dict[str, int]:
    """What Tasks may use of a worker Pod: its limits less the agent's own reserve."""
    limits: Mapping[str, Any] = (pod.spec.containers[0].get("resources") or {}).get("limits") or {}
    return minus(amounts(limits), amounts(worker.agent_reserve))


def _requests(container: Mapping[str, Any]) -> dict[str, int]:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
