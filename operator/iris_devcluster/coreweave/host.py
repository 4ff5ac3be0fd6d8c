"""What the simulator needs of the thing that runs nodes, and the embedded cluster in that role."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from iris_devcluster.coreweave.model import HostSize
from iris_devcluster.coreweave.plan import NodeSpec
from iris_devcluster.nodes import Cluster
from iris_devcluster.nodes import NodeSpec as ClusterNodeSpec


class NodeHost(Protocol):
    """Blocking calls that take up to seconds, are idempotent, and may come from several threads for several nodes."""

    def boot_node(self, spec: NodeSpec) -> None:
        """Power the node on, new or switched off; returns when its kubelet has been started."""

    def remove_node(self, name: str) -> None:
        """Take the node away, with its Node object."""

    def kill_node(self, name: str) -> None:
        """Cut its power; the Node object stays."""

    def pause_kubelet(self, name: str) -> None:
        """Stop the kubelet where it is."""

    def resume_kubelet(self, name: str) -> None:
        """Let it go on."""

    def node_names(self) -> list[str]:
        """Every node, also those without power."""

    def device_plugin_dir(self, name: str) -> Path:
        """The kubelet's device plugin folder, as seen from here."""

    def size(self) -> HostSize:
        """The computer that all nodes share."""


class ClusterHost:
    """The embedded cluster as a NodeHost."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def boot_node(self, spec: NodeSpec) -> None:
        self._cluster.boot_node(
            ClusterNodeSpec(
                name=spec.name,
                labels=spec.labels,
                annotations=spec.annotations,
                taints=spec.taints,
                system_reserved=spec.system_reserved,
            )
        )

    def remove_node(self, name: str) -> None:
        self._cluster.remove_node(name)

    def kill_node(self, name: str) -> None:
        self._cluster.kill_node(name)

    def pause_kubelet(self, name: str) -> None:
        self._cluster.pause_kubelet(name)

    def resume_kubelet(self, name: str) -> None:
        self._cluster.resume_kubelet(name)

    def node_names(self) -> list[str]:
        return self._cluster.node_names()

    def device_plugin_dir(self, name: str) -> Path:
        return self._cluster.node_dir(name) / "kubelet" / "device-plugins"

    def size(self) -> HostSize:
        return host_size()


def host_size(meminfo: Path = Path("/proc/meminfo")) -> HostSize:
    """Cores and bytes of this computer, as a kubelet on it reports them."""
    rows: Mapping[str, str] = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    return HostSize(cpu=float(os.cpu_count() or 1), memory=float(rows["MemTotal"].split()[0]) * 1024)
