"""The library's face: open a cluster, boot and remove real nodes in it."""

from __future__ import annotations

from iris_devcluster.cluster import Cluster
from iris_devcluster.machines.machine import ProcessState
from iris_devcluster.machines.process import Process
from iris_devcluster.node.spec import NodeSpec

__all__ = ["Cluster", "NodeSpec", "Process", "ProcessState"]
