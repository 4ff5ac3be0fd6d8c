"""Whether a node brings what was ordered: its GPUs, all of them healthy, and InfiniBand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iris_operator.api.core import Node
from iris_operator.api.names import GPU_RESOURCE, RDMA_RESOURCE
from iris_operator.api.quantity import amounts


@dataclass(frozen=True)
class NodeProblem:
    """Why a node can't take a worker. `unfit`: it is Ready, but not what was ordered."""

    reason: str
    message: str
    unfit: bool = False


def node_problem(node: Node, gpus: int, infiniband: bool = False) -> NodeProblem | None:
    """What is wrong with a node that should have so many GPUs, and InfiniBand; None when it is fit."""
    name = node.metadata.name
    if not node.ready:
        return NodeProblem("NodeNotReady", f"node {name} is not Ready: {node.why_not_ready}")
    offered = _number(node.status.allocatable, GPU_RESOURCE)
    there = max(offered, _number(node.status.capacity, GPU_RESOURCE))
    if offered < gpus or (gpus and offered < there):
        sick = f", {there - offered} of its {there} unhealthy" if offered < there else ""
        return NodeProblem("NodeUnfit", f"node {name} offers {offered} of {gpus} GPUs ({GPU_RESOURCE}){sick}", True)
    if infiniband and not _number(node.status.allocatable, RDMA_RESOURCE):
        return NodeProblem("NodeUnfit", f"node {name} offers no InfiniBand ({RDMA_RESOURCE})", True)
    return None


def _number(values: Mapping[str, str], name: str) -> int:
    return amounts({name: values.get(name, "0")})[name]
