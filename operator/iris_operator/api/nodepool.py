"""The vendor's NodePool, as far as Iris reads it (CoreWeave's reference page "Node Pool"); written by manifests/nodepool.py."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from iris_operator.api.base import Model, Resource
from iris_operator.api.core import CoreCondition

NODEPOOL_API_VERSION = "compute.coreweave.com/v1alpha1"


class NodePoolSpec(Model):
    """The parts of the spec that Iris reads back."""

    instance_type: str = ""
    compute_class: str = "default"
    target_nodes: int = 0
    target_racks: int = 0


class NodePoolStatus(Model):
    """The parts of the status that Iris reads."""

    current_nodes: int = 0
    queued_nodes: int = 0
    in_progress: int = 0
    conditions: list[CoreCondition] = Field(default_factory=list)


class NodePool(Resource):
    """A set of bare-metal nodes of one instance type; cluster-scoped."""

    KIND: ClassVar[str] = "NodePool"
    PLURAL: ClassVar[str] = "nodepools"

    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()
