"""An operator process on the shared API server, and the world around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.ports.kube import IRIS_CLUSTERS
from tests.cluster.controller.operators import Operator
from tests.cluster.controller.world import World

Start = Callable[[], Operator]


@pytest.fixture
def start_operator(kubeconfig: Path, namespace: str, tmp_path: Path) -> Iterator[Start]:
    """Starts a replica each time it is called; all are killed at the end."""
    started: list[Operator] = []

    def start() -> Operator:
        started.append(Operator(kubeconfig, namespace, tmp_path / f"operator-{len(started)}.log"))
        return started[-1]

    yield start
    for one in started:
        if one.exit_code is None:
            one.kill()


@pytest.fixture
async def world(api: KubeClient, namespace: str) -> AsyncIterator[World]:
    """Vendor, kubelets and agents at work; an IrisCluster `default`; no operator yet."""
    made = World(api, namespace)
    await made.make(IRIS_CLUSTERS, "default", {"images": {"agent": "iris/agent:test"}})
    async with made.turning():
        yield made


@pytest.fixture
async def operator(world: World, start_operator: Start) -> Operator:
    """One that leads."""
    found = start_operator()
    await found.leads()
    return found
