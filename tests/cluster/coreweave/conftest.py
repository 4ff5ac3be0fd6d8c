"""The shared API server with the vendor's kind installed, and a simulator whose nodes are only objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from iris_devcluster.coreweave.controller.install import install
from iris_devcluster.coreweave.kube import Connection, KubeClient
from iris_devcluster.coreweave.testing import FakeHost, Pools, clean


@pytest.fixture
async def kube(connection: Connection) -> AsyncIterator[KubeClient]:
    """A client of an API server that holds nothing of an earlier test."""
    async with KubeClient(connection) as client:
        await install(client)
        await clean(client)
        yield client


@pytest.fixture
async def host(kube: KubeClient, tmp_path: Path) -> FakeHost:
    return FakeHost(kube, tmp_path)


@pytest.fixture
def pools(kube: KubeClient) -> Pools:
    return Pools(kube)
