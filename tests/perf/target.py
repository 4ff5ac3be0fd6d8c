"""What is measured on: one Ready slice, its node and its worker Pod."""

from __future__ import annotations

from dataclasses import dataclass

from iris_devcluster.nodes import Cluster
from iris_operator.adapters.kube.client import KubeClient

LABEL = "iris.dev/bench"
COMMAND = ["/bin/true"]


@dataclass(frozen=True)
class Target:
    """One node of the embedded cluster, and the way to its API. `image` is as Tasks and Pods name it."""

    cluster: Cluster
    api: KubeClient
    namespace: str
    slice_name: str
    node: str
    worker_pod: str
    worker_uid: str
    image: str
