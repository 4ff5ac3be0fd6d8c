"""What every part of a cluster does right now, as one picture for people and programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from iris_devcluster.api import ApiError
from iris_devcluster.cluster import Cluster
from iris_devcluster.coreweave import service
from iris_devcluster.identity import CONTROL_PLANE
from iris_devcluster.machines.machine import ProcessState
from iris_devcluster.registry import Registry, registry_folder


@dataclass(frozen=True)
class MachineStatus:
    """A machine; `health` is one of Ready, NotReady, Broken, PoweredOff, and `why` explains all but the first."""

    name: str
    address: str
    health: str
    why: str
    supervisor_pid: int
    processes: list[ProcessState] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether it does what was last asked of it."""
        return self.health in ("Ready", "PoweredOff")


@dataclass(frozen=True)
class ServiceStatus:
    """A program on this host that serves the cluster; pid 0 while it does not run. Its command starts it again."""

    name: str
    pid: int
    about: str


@dataclass(frozen=True)
class ClusterStatus:
    """The whole cluster; the first machine is the control plane's. `ok` when nothing needs `up`."""

    name: str
    root: str
    server: str
    kubeconfig: str
    registry_address: str
    machines: list[MachineStatus]
    services: list[ServiceStatus] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return len(self.machines) > 1 and all(machine.ok for machine in self.machines)


def cluster_status(cluster: Cluster) -> ClusterStatus:
    """Look at kernel and API now; a part that does not answer is part of the picture, not an error."""
    identity = cluster.identity
    nodes = _api_nodes(cluster)
    machines = [_control_plane(cluster, nodes is not None)]
    machines += [_node(cluster, name, nodes or {}) for name in cluster.node_names()]
    return ClusterStatus(
        name=identity.name,
        root=str(identity.root),
        server=identity.server,
        kubeconfig=str(cluster.kubeconfig),
        registry_address=cluster.registry_address,
        machines=machines,
        services=_services(cluster),
    )


def _api_nodes(cluster: Cluster) -> dict[str, Any] | None:
    """Node objects by name; None when the API server does not answer."""
    try:
        listing = cluster.api.call("GET", "/api/v1/nodes")
    except ApiError:
        return None
    return {item["metadata"]["name"]: item for item in listing["items"]}


def _control_plane(cluster: Cluster, answers: bool) -> MachineStatus:
    machine = cluster.machine(CONTROL_PLANE)
    pid, states = machine.pid() or 0, machine.states()
    why = _trouble(pid, states) or ("" if answers else "the API server does not answer")
    health = "Broken" if why else "Ready"
    return MachineStatus(CONTROL_PLANE, cluster.identity.control_plane_address, health, why, pid, states)


def _node(cluster: Cluster, name: str, nodes: dict[str, Any]) -> MachineStatus:
    record, machine = cluster.node_record(name), cluster.machine(name)
    pid, states = machine.pid() or 0, machine.states()
    address = cluster.identity.node_address(record.index)
    if not record.powered:
        return MachineStatus(name, address, "PoweredOff", "killed on purpose", pid, states)
    why = _trouble(pid, states)
    if why:
        return MachineStatus(name, address, "Broken", why, pid, states)
    why = _not_ready(nodes.get(name))
    return MachineStatus(name, address, "NotReady" if why else "Ready", why, pid, states)


def _trouble(pid: int, states: list[ProcessState]) -> str:
    if not pid:
        return "its supervisor is gone"
    down = [f"{one.name} is {one.state} ({one.last_exit or 'not started'})" for one in states if not one.pid]
    return ", ".join(text for text in down if " is done " not in text)


def _not_ready(node: dict[str, Any] | None) -> str:
    if node is None:
        return "no Node object"
    for condition in node.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready":
            return "" if condition["status"] == "True" else str(condition.get("message", "not ready"))
    return "the kubelet has not reported yet"


def _services(cluster: Cluster) -> list[ServiceStatus]:
    """What runs on this host beside the machines; nothing that was never started."""
    found = []
    registry = Registry(cluster.registry_address, registry_folder())
    if registry.log.exists():
        found.append(ServiceStatus("registry", registry.pid() or 0, cluster.registry_address))
    cloud = service.state(cluster.root)
    if cloud.log.exists():
        found.append(ServiceStatus("simulated CoreWeave", cloud.controller, str(cloud.log)))
    return found
