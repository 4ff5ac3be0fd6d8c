"""How large a worker is, and what of it Tasks may use."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.api.cluster import Worker
from iris_operator.api.core import Pod
from iris_operator.plan.slices.worker_size import pod_requests, task_capacity, worker_size
from tests.builders import NodeBuilder, node, worker

_MI = 2**20


def _neighbour(phase: str = "Running", **spec: Any) -> Pod:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]
    body = {"metadata": {"name": "ds"}, "spec": {"containers": containers, **spec}, "status": {"phase": phase}}
    return Pod.parse(body)


def _container(**requests: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests}}


SIZES: dict[str, tuple[NodeBuilder, list[Pod], dict[str, int]]] = {
    "an empty node, less the headroom": (node(cpu="4", memory="8Gi"), [], {"cpu": 3900, "memory": 8064 * _MI}),
    "less its neighbours": (node(cpu="4", memory="8Gi"), [_neighbour()], {"cpu": 3400, "memory": 7040 * _MI}),
    "ended neighbours don't count": (
        node(cpu="4", memory="8Gi"), [_neighbour("Succeeded"), _neighbour("Failed")], {"cpu": 3900, "memory": 8064 * _MI},
    ),
    "all its GPUs and InfiniBand": (
        node(cpu="4", memory="8Gi", gpu=8, rdma=64), [],
        {"cpu": 3900, "memory": 8064 * _MI, "nvidia.com/gpu": 8, "rdma/ib": 64},
    ),
    "memory in whole Mi": (node(cpu="1", memory="1073742000"), [], {"cpu": 900, "memory": 896 * _MI}),
    "never nothing": (node(cpu="100m", memory="64Mi"), [_neighbour()], {"cpu": 100, "memory": 64 * _MI}),
    "no GPU resource where none is left": (
        node(cpu="4", memory="8Gi", gpu=1),
        [_neighbour(containers=[_container(**{"nvidia.com/gpu": "1"})])], {"cpu": 3900, "memory": 8064 * _MI},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_worker_size(name: str) -> None:
    on, neighbours, size = SIZES[name]
    assert worker_size(on.build(), neighbours, Worker()) == size


def test_other_resources_are_left_alone() -> None:
    assert "pods" not in worker_size(node(pods=110).build(), [], Worker())


REQUESTS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "the sum of the containers": ({"containers": [_container(cpu="1"), _container(cpu="500m")]}, {"cpu": 1500}),
    "a larger init container": (
        {"containers": [_container(cpu="1")], "initContainers": [_container(cpu="3"), _container(cpu="2")]}, {"cpu": 3000},
    ),
    "overhead on top": ({"containers": [_container(cpu="1")], "overhead": {"cpu": "250m"}}, {"cpu": 1250}),
    "limits where requests are missing": (
        {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, {"cpu": 2000},
    ),
    "nothing at all": ({"containers": [{"name": "c"}]}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_what_a_pod_counts_as(name: str) -> None:
    spec, wanted = REQUESTS[name]
    assert pod_requests(_neighbour(**spec)) == wanted


def test_tasks_get_what_the_agent_leaves() -> None:
    reserve = Worker(agent_reserve={"cpu": "250m", "memory": "1Gi"})
    found = task_capacity(worker(cpu="3", memory="6Gi", gpu=8).build(), reserve)
    assert found == {"cpu": 2750, "memory": 5 * 2**30, "nvidia.com/gpu": 8}
