"""What the planners look at: frozen views of one Slice with all that belongs to it, and of the whole installation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from iris_operator.api.cluster import IrisClusterSpec
from iris_operator.api.core import Lease, Node, Pod
from iris_operator.api.nodepool import NodePool
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.slices.obstacles import Obstacle


@dataclass(frozen=True)
class SliceView:
    """One Slice and what exists of it. `pods` and `leases` are by worker Pod name, `tasks` are bound and not ended.

    `boots`: seconds that the last boots of its group took, newest first. `obstacle`: why a call that this very pass
    asked for was not made or was refused; the pass is then planned once more with it. `pool_events`: reasons of the
    vendor's Events on the NodePool, where they were asked for.
    """

    slice: Slice
    settings: IrisClusterSpec | NoCluster
    node_pool: NodePool | None
    nodes: tuple[Node, ...]
    pods: dict[str, Pod]
    leases: dict[str, Lease]
    tasks: tuple[Task, ...]
    boots: tuple[int, ...] = ()
    obstacle: Obstacle | None = None
    pool_events: tuple[str, ...] = ()

    @property
    def grouped(self) -> bool:
        """Whether a ScaleGroup made it and decides about it."""
        return any(owner.kind == "ScaleGroup" for owner in self.slice.metadata.owner_references)

    @property
    def external(self) -> bool:
        """Whether its nodes are machines, of no NodePool, that nobody gives back."""
        return self.slice.spec.external is not None

    @cached_property
    def node_names(self) -> frozenset[str]:
        """Of the nodes that stand."""
        return frozenset(node.metadata.name for node in self.nodes)
