"""A cluster for the tests that leave it whole, and clusters of their own for those that break one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iris_devcluster import lifecycle
from iris_devcluster.cluster import Cluster
from iris_devcluster.progress import Progress


@pytest.fixture(scope="session", autouse=True)
def _as_root() -> None:
    assert os.geteuid() == 0, "the embedded cluster needs root; run: sudo make test"


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all, with nodes system-0 and worker-0; a test removes what it adds."""
    root = tmp_path_factory.mktemp("shared") / "root"
    try:
        made = lifecycle.up(root, "shared", Progress())
        yield made
    finally:
        lifecycle.down(root, "shared", Progress())


@pytest.fixture(scope="module")
def own_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a module's own cluster, named `own`, is, if any; it ends with the module at the latest."""
    root = tmp_path_factory.mktemp("own") / "root"
    yield root
    lifecycle.down(root, "own", Progress())


@pytest.fixture
def own_cluster(own_root: Path) -> Callable[[], Cluster]:
    """Brings up the module's own cluster; what runs already stays, what died is repaired.

    So a test that leaves it whole saves the next one a start: it takes away its nodes, and its Pods have names that
    no other test gives.
    """
    return lambda: lifecycle.up(own_root, "own", Progress())


@pytest.fixture
def empty_root(own_root: Path) -> Path:
    """own_root, with no cluster in it."""
    lifecycle.down(own_root, "own", Progress())
    return own_root


@pytest.fixture(scope="module")
def other_cluster() -> Iterator[Cluster]:
    """A second one, below /var, of which machines have their own; a space in its name."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="iris devcluster ") as folder:
        root = Path(folder) / "root"
        try:
            yield lifecycle.up(root, "own", Progress())
        finally:
            lifecycle.down(root, "own", Progress())
