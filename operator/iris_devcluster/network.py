"""Cables: the cluster's bridge lives in the control plane's network namespace, every machine has a veth to it.

So this host keeps one interface per cluster, its firewall never sees traffic between nodes, and the kernel removes
every cable with the machine it is plugged into.
"""

from __future__ import annotations

import re

from iris_devcluster import command
from iris_devcluster.errors import CommandFailedError
from iris_devcluster.identity import Identity, mac_of

_BRIDGE = "br0"


def _ip(lines: list[str], pid: int | None = None) -> None:
    """One `ip -batch` on the host, or in the network namespace of `pid`."""
    enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "--"] if pid else []
    command.run([*enter, "ip", "-batch", "-"], "\n".join(lines) + "\n")


def _links(pid: int | None = None) -> set[str]:
    enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "--"] if pid else []
    listing = command.run([*enter, "ip", "-o", "link"])
    return {match.group(1) for match in re.finditer(r"^\d+: ([^:@]+)", listing, re.MULTILINE)}


def _delete_link(link: str, pid: int | None = None) -> None:
    """Fine when there is none, or when it goes in this very moment, with the namespace of its other end."""
    if link not in _links(pid):
        return
    try:
        _ip([f"link delete {link}"], pid)
    except CommandFailedError:
        if link in _links(pid):
            raise


def taken_octets() -> set[int]:
    """Second octets of every 10.x network that this host routes."""
    return {int(found) for found in re.findall(r"\b10\.(\d+)\.", command.run(["ip", "-4", "route"]))}


def connect_control_plane(identity: Identity, pid: int) -> None:
    """Bridge and address in the control plane's namespace, and the cable from it to this host."""
    me, link = identity.control_plane_address, identity.host_link
    _delete_link(link)  # its other end lived in a control plane that is dying
    _ip([f"link add {link} address {mac_of(identity.host_address)} type veth peer name host netns {pid}"])
    _ip(
        [
            "link set lo up",
            f"link add {_BRIDGE} address {mac_of(me)} type bridge forward_delay 0",
            f"address add {me}/20 dev {_BRIDGE}",
            f"link set {_BRIDGE} up",
            f"link set host master {_BRIDGE} up",
            f"route add default via {identity.host_address}",
        ],
        pid,
    )
    _ip(
        [
            f"address add {identity.host_address}/20 dev {link}",
            f"link set {link} up",
            f"route replace {identity.pod_range} via {me}",
        ]
    )


def connect_node(identity: Identity, index: int, pid: int, control_plane_pid: int) -> None:
    """Plug the node in: eth0 with its address, and the control plane's route to its Pods. Idempotent."""
    port, address = f"n{index}", identity.node_address(index)
    if "eth0" in _links(pid):
        return
    _delete_link(port, control_plane_pid)  # of a node that is dying
    _ip(
        [
            f"link add {port} type veth peer name eth0 address {mac_of(address)} netns {pid}",
            f"link set {port} master {_BRIDGE} up",
            f"route replace {identity.node_pod_range(index)} via {address}",
        ],
        control_plane_pid,
    )
    _ip(
        [
            "link set lo up",
            f"address add {address}/20 dev eth0",
            "link set eth0 up",
            f"route add default via {identity.host_address}",
            # The control plane knows which node has which Pods, so one route here stays true as nodes come and go.
            f"route add {identity.pod_range} via {identity.control_plane_address}",
        ],
        pid,
    )


def disconnect_node(identity: Identity, index: int, control_plane_pid: int) -> None:
    """Forget the route to a node's Pods; its cable went with it."""
    route = f"{identity.node_pod_range(index)} via {identity.node_address(index)}"
    if route.partition("/")[0] in command.run(
        ["nsenter", f"--net=/proc/{control_plane_pid}/ns/net", "--", "ip", "route"]
    ):
        _ip([f"route delete {route}"], control_plane_pid)


def remove_host_link(identity_link: str) -> None:
    """Unplug the cluster from this host; fine when it is already."""
    _delete_link(identity_link)
