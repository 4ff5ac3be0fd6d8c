"""What a caller says about a node, and what the cluster remembers of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from iris_devcluster.machines.process import Process


@dataclass(frozen=True)
class NodeSpec:
    """A node as it registers itself.

    `taints` are mappings of key, value and effect. `system_reserved` is the kubelet's systemReserved, quantities by
    resource: what the machine has more than the instance type offers. `extra` programs run under the node's
    supervisor, inside its namespaces: where the kubelet's device-plugin sockets are at their canonical path.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    extra: Sequence[Process] = ()


@dataclass(frozen=True)
class NodeRecord:
    """A node as the root directory remembers it; `index` fixes its addresses, `powered` is what was last asked."""

    spec: NodeSpec
    index: int
    powered: bool = True

    def save(self, directory: Path) -> None:
        partial = directory / ".node.json"
        partial.write_text(json.dumps(asdict(self), default=dict))
        partial.replace(directory / "node.json")

    @classmethod
    def load(cls, directory: Path) -> NodeRecord | None:
        """None where no node is."""
        try:
            data: dict[str, Any] = json.loads((directory / "node.json").read_text())
        except FileNotFoundError:
            return None
        spec = data["spec"]
        extra = tuple(Process(**{**one, "argv": tuple(one["argv"])}) for one in spec.pop("extra"))
        return cls(NodeSpec(**spec, extra=extra), data["index"], data["powered"])
