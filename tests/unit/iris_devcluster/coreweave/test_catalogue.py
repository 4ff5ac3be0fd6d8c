"""The data files that ship with the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from iris_devcluster.coreweave import catalogue, quantity
from iris_devcluster.coreweave.controller.idle import holds_node
from iris_devcluster.coreweave.controller.install import manifests
from iris_devcluster.coreweave.host import host_size


def test_types_of_the_examples() -> None:
    types = catalogue.load()
    assert (types["gd-8xh100ib-i128"].gpus, types["gd-8xh100ib-i128"].rdma) == (8, 64)
    assert types["gb200-4x"].nodes_per_rack == 18
    assert types["cd-gp-i64-erapids"].gpus == 0
    assert all(kind.gpu_class and kind.gpu_model for kind in types.values() if kind.gpus)


def test_manifests_start_with_the_kind() -> None:
    assert manifests()[0]["kind"] == "CustomResourceDefinition"


@pytest.mark.parametrize(("text", "value"), [("2", 2), ("500m", 0.5), ("4Gi", 4 * 2**30), ("1.5k", 1500), (3, 3)])
def test_quantities(text: str | int, value: float) -> None:
    assert quantity.parse(text) == value


@pytest.mark.parametrize("text", ["", "Gi", "4 Gi", "-1"])
def test_no_quantities(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(text)


def test_host_size(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:       1024 kB\nMemFree: 1 kB\n")
    assert host_size(tmp_path / "meminfo").memory == 2**20


def test_which_pods_keep_a_node() -> None:
    plain = {"metadata": {}, "status": {"phase": "Running"}}
    assert holds_node(plain)
    assert not holds_node({**plain, "status": {"phase": "Succeeded"}})
    assert not holds_node({**plain, "metadata": {"ownerReferences": [{"kind": "DaemonSet"}]}})
    assert not holds_node({**plain, "metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})
    assert not holds_node({**plain, "metadata": {"labels": {"qos.coreweave.cloud/interruptable": "true"}}})
