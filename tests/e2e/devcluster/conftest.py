"""A cluster for the tests that leave it whole, and clusters of their own for those that break one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iris_devcluster import lifecycle
from iris_devcluster.cluster import Cluster
from iris_devcluster.progress import Progress


@pytest.fixture(scope="session", autouse=True)
def _as_root() -> None:
    assert os.geteuid() == 0, "the embedded cluster needs root; run: sudo make test"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all, with nodes system-0 and worker-0; a test removes what it adds."""
    root = tmp_path_factory.mktemp("shared") / "root"
    try:
        made = lifecycle.up(root, "shared", Progress())
        yield made
    finally:
        lifecycle.down(root, "shared", Progress())


@pytest.fixture
def own_root(tmp_path: Path) -> Iterator[Path]:
    """A root directory whose cluster, if any, named `own`, ends with the test."""
    root = tmp_path / "root"
    yield root
    lifecycle.down(root, "own", Progress())


@pytest.fixture
def own_cluster(own_root: Path) -> Callable[[], Cluster]:
    """Brings up the test's own cluster; again, it repairs it."""
    return lambda: lifecycle.up(own_root, "own", Progress())
