"""The instance types that the simulated zone offers."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from iris_devcluster.coreweave import quantity


@dataclass(frozen=True)
class InstanceType:
    """One row of the vendor's table. `cpu` in cores, `memory` in bytes, `rdma` counts rdma/ib."""

    name: str
    cpu: float
    memory: float
    gpus: int = 0
    rdma: int = 0
    gpu_class: str = ""
    gpu_model: str = ""
    nodes_per_rack: int = 0

    @property
    def has_racks(self) -> bool:
        """Whether it is sold by the rack (NVL72)."""
        return self.nodes_per_rack > 0


Catalogue = Mapping[str, InstanceType]


def parse(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, InstanceType]:
    """From the data file's shape: name -> {cpu, memory, gpus, rdma, gpuClass, gpuModel, nodesPerRack}."""
    return {
        name: InstanceType(
            name=name,
            cpu=quantity.parse(row["cpu"]),
            memory=quantity.parse(row["memory"]),
            gpus=int(row.get("gpus", 0)),
            rdma=int(row.get("rdma", 0)),
            gpu_class=str(row.get("gpuClass", "")),
            gpu_model=str(row.get("gpuModel", "")),
            nodes_per_rack=int(row.get("nodesPerRack", 0)),
        )
        for name, row in rows.items()
    }


@functools.cache
def load() -> Catalogue:
    """The catalogue that ships with the package."""
    text = (resources.files(__package__) / "data" / "instance_types.yaml").read_text()
    return parse(yaml.safe_load(text))
