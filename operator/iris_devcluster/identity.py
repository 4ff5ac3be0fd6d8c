"""Who a cluster is on this machine: its names and addresses, all derived so that clusters never meet.

A cluster owns 10.<octet>.0.0/16: machines in .0.0/20 (.0.1 this host, .0.2 the control plane, nodes from .0.10),
Services in .64.0/20, Pods in .128.0/17 with a /24 for each node.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from iris_devcluster.errors import ClusterNotFoundError, DevclusterError

MAX_NODES = 118
"""Bounded by the /24 Pod ranges in .128.0/17, less a margin."""

CONTROL_PLANE = "control-plane"
"""Name of the control plane's machine."""


@dataclass(frozen=True)
class Identity:
    """Name, place and address range of one cluster; the same for every process that opens it."""

    name: str
    root: Path
    octet: int

    @property
    def prefix(self) -> str:
        """Marks everything of this cluster that the kernel knows by name, at most 11 characters."""
        return prefix_of(self.root, self.name)

    @property
    def host_link(self) -> str:
        """This host's end of its cable to the cluster's bridge; interface names end at 15 characters."""
        return f"{self.prefix}-h"

    @property
    def host_address(self) -> str:
        return f"10.{self.octet}.0.1"

    @property
    def control_plane_address(self) -> str:
        return f"10.{self.octet}.0.2"

    @property
    def server(self) -> str:
        """URL of the API server."""
        return f"https://{self.control_plane_address}:6443"

    @property
    def cluster_range(self) -> str:
        return f"10.{self.octet}.0.0/16"

    @property
    def service_range(self) -> str:
        return f"10.{self.octet}.64.0/20"

    @property
    def kubernetes_service(self) -> str:
        return f"10.{self.octet}.64.1"

    @property
    def dns_service(self) -> str:
        return f"10.{self.octet}.64.10"

    @property
    def pod_range(self) -> str:
        return f"10.{self.octet}.128.0/17"

    def node_address(self, index: int) -> str:
        return f"10.{self.octet}.0.{10 + index}"

    def node_pod_range(self, index: int) -> str:
        return f"10.{self.octet}.{128 + index}.0/24"

    def save(self) -> None:
        path = self.root / "cluster.json"
        path.write_text(json.dumps({"name": self.name, "octet": self.octet}) + "\n")

    @classmethod
    def load(cls, root: Path) -> Identity:
        """Raises ClusterNotFoundError where no cluster was made."""
        try:
            data = json.loads((root / "cluster.json").read_text())
        except FileNotFoundError:
            raise ClusterNotFoundError(
                f"no cluster in {root}; start one with: iris-devcluster up --root {root}"
            ) from None
        return cls(name=data["name"], root=root.resolve(), octet=int(data["octet"]))


def prefix_of(root: Path, name: str) -> str:
    """The kernel-side name of the cluster `name` in `root`; needs no state file, so that down works without one."""
    return "iris-" + hashlib.sha256(f"{root.resolve()}\0{name}".encode()).hexdigest()[:6]


def choose_octet(prefix: str, taken: set[int]) -> int:
    """A second octet for 10.x.0.0/16 that no route of this host uses; starts at a place fixed by the prefix."""
    first = int(hashlib.sha256(prefix.encode()).hexdigest(), 16)
    candidates = [100 + (first + step) % 150 for step in range(150)]
    for octet in candidates:
        if octet not in taken:
            return octet
    raise DevclusterError("every 10.100.0.0/16 to 10.249.0.0/16 is in use here; stop a cluster first")


def mac_of(address: str) -> str:
    """A MAC fixed by the IPv4 address, so that an address given to a new machine leaves no stale ARP entry."""
    return "02:69:" + ":".join(f"{int(part):02x}" for part in address.split("."))
