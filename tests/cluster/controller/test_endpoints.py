"""A Task's ports in its Service, on a real API server: made, ready, put right, gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iris_devcluster.coreweave.testing import eventually
from iris_operator.ports.kube import ENDPOINT_SLICES, SLICES, TASKS, Kind
from tests.cluster.controller.world import Body, World

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]

_SERVICES = Kind("v1", "services")
_STATUS: Body = {"hostIP": "10.20.0.7", "ports": [{"name": "web", "port": 20001, "protocol": "TCP"}]}


@pytest.fixture
async def serving(world: World) -> World:
    """A Service without a selector, a Ready slice, and a running Task `t` with a readiness probe."""
    service = {"metadata": {"name": "web"}, "spec": {"ports": [{"name": "web", "port": 80}]}}
    await world.api.create(_SERVICES, {"apiVersion": "v1", "kind": "Service", **service}, world.namespace)
    await world.make(SLICES, "s", {"instanceType": "cd-gp-i64-erapids"})
    await world.phase(SLICES, "s", "Ready")
    probe = {"tcpSocket": {"port": "web"}}
    spec = {"image": "iris/task:1", "serviceName": "web", "ports": [{"name": "web"}], "readinessProbe": probe}
    await world.make(TASKS, "t", spec)
    await world.bound("t")
    await world.agent_says("t", "Running", **_STATUS)
    return world


async def _endpoints(world: World, suits: Callable[[list[Body]], bool]) -> list[Body]:
    """The Service's, once they suit."""
    found: list[Body] = []

    async def suit() -> bool:
        nonlocal found
        labels = "kubernetes.io/service-name=web"
        found = (await world.api.list(ENDPOINT_SLICES, world.namespace, labels=labels)).items
        return suits(found)

    try:
        await eventually(suit, 20)
    except AssertionError:
        raise AssertionError(f"not what was wanted: {found}") from None
    return found


def _ready(wanted: bool) -> Callable[[list[Body]], bool]:
    return lambda found: [one["endpoints"][0]["conditions"]["ready"] for one in found] == [wanted]


def _none(found: list[Body]) -> bool:
    return not found


async def _says_ready(world: World, status: str) -> None:
    condition: dict[str, Any] = {
        "type": "Ready", "status": status, "reason": "Probe", "message": "", "lastTransitionTime": "2026-11-21T12:00:00Z",
    }  # fmt: skip
    await world.agent_says("t", "Running", conditions=[condition])


async def test_follows_its_task_to_the_end(serving: World) -> None:
    (found,) = await _endpoints(serving, _ready(False))
    assert found["endpoints"][0]["addresses"] == ["10.20.0.7"]
    assert found["ports"] == [{"name": "web", "port": 20001, "protocol": "TCP"}]
    assert [one["kind"] for one in found["metadata"]["ownerReferences"]] == ["Task"]
    await _says_ready(serving, "True")
    (found,) = await _endpoints(serving, _ready(True))
    await serving.api.delete(ENDPOINT_SLICES, found["metadata"]["name"], serving.namespace)  # somebody meddles
    await _endpoints(serving, _ready(True))
    await serving.api.delete(TASKS, "t", serving.namespace)
    (leaving,) = await _endpoints(serving, _ready(False))
    assert leaving["endpoints"][0]["conditions"] == {"ready": False, "serving": True, "terminating": True}
    await serving.agent_lets_go("t")
    await serving.gone(TASKS, "t")
    await _endpoints(serving, _none)  # nobody collects garbage on this API server: the operator does
