"""What the planners look at: frozen views of one Slice with all that belongs to it, and of the whole installation."""

from __future__ import annotations

from dataclasses import dataclass

from iris_operator.api.cluster import IrisClusterSpec
from iris_operator.api.core import Lease, Node, Pod
from iris_operator.api.nodepool import NodePool
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.plan.settings import NoCluster


@dataclass(frozen=True)
class SliceView:
    """One Slice and what exists of it. `pods` and `leases` are by worker Pod name, `tasks` are bound and not ended."""

    slice: Slice
    settings: IrisClusterSpec | NoCluster
    node_pool: NodePool | None
    nodes: tuple[Node, ...]
    pods: dict[str, Pod]
    leases: dict[str, Lease]
    tasks: tuple[Task, ...]
