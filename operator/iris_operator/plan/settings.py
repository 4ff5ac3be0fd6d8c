"""Which IrisCluster's settings apply to an object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iris_operator.api.cluster import IrisCluster

DEFAULT_NAME = "default"


@dataclass(frozen=True)
class NoCluster:
    """Why no settings apply; `reason` is a condition's reason."""

    reason: str
    message: str


def cluster_for(namespace: str, name: str, clusters: Iterable[IrisCluster]) -> IrisCluster | NoCluster:
    """The IrisCluster that an object of `namespace` names, else the only one there, else the one named default."""
    here = {one.metadata.name: one for one in clusters if one.metadata.namespace == namespace}
    if name:
        return here.get(name) or NoCluster(
            "ClusterNotFound",
            f"no IrisCluster {name} in namespace {namespace}: make it, or name another in spec.clusterName",
        )
    if len(here) == 1:
        return next(iter(here.values()))
    if DEFAULT_NAME in here:
        return here[DEFAULT_NAME]
    if not here:
        return NoCluster(
            "ClusterNotFound", f"no IrisCluster in namespace {namespace}: install the chart there, or make one"
        )
    return NoCluster(
        "ClusterAmbiguous",
        f"IrisClusters {', '.join(sorted(here))} and none named default: name one in spec.clusterName",
    )
