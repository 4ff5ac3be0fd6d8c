"""Where a node stands in the vendor's fabrics: the labels that placement will look at (docs/coreweave-nodepool.md)."""

from __future__ import annotations

from iris_operator.api.core import Node

# Widest first. The backend.* labels are the vendor's newer, fabric-agnostic names; the ib.* ones stay on InfiniBand nodes.
LABELS = (
    "backend.coreweave.cloud/flavor",
    "backend.coreweave.cloud/fabric",
    "backend.coreweave.cloud/superpod",
    "backend.coreweave.cloud/leafgroup",
    "ib.coreweave.cloud/fabric",
    "ib.coreweave.cloud/superpod",
    "ib.coreweave.cloud/leafgroup",
    "ds.coreweave.com/nvlink.domain",
    "nvidia.com/gpu.clique",
    "node.coreweave.cloud/rack",
)


def topology(node: Node) -> dict[str, str]:
    """Those of LABELS that the node has: label to value."""
    return {name: node.metadata.labels[name] for name in LABELS if node.metadata.labels.get(name)}
