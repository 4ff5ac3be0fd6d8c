"""Ports of the node, shared out among its Tasks. Pure but for `host_ports`; who has what is on the sandboxes' labels.

Tasks share their node's network, so a number can be had by one of them only. Allocated numbers lie below the usual range of
NodePorts (30000-32767) and of connections' own ports (from 32768).
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from iris_operator.api.probe import ContainerPort, PortStatus
from iris_operator.api.task import Task
from iris_runtimes.errors import InvalidSpec

FIRST, LAST = 20000, 29999
_TABLES = {"tcp": "TCP", "tcp6": "TCP", "udp": "UDP", "udp6": "UDP"}
# Include/net/tcp_states.h: 0A is LISTEN; 07 (CLOSE) is what /proc/net/udp says of a bound socket without a peer.
_WAITS_FOR_PEERS = {"TCP": "0A", "UDP": "07"}


class PortTaken(Exception):
    """A port can't be had now; the message says who has it."""


@dataclass(frozen=True)
class HostPorts:
    """Ports of the whole node, as (protocol, number). `used`: by any socket; `served`: by one that waits for peers."""

    used: frozenset[tuple[str, int]] = frozenset()
    served: frozenset[tuple[str, int]] = frozenset()


def allot(task: Task, taken: Mapping[tuple[str, int], str], host: HostPorts, node_name: str) -> tuple[PortStatus, ...]:
    """A number for each of spec.ports, in their order.

    `taken`: (protocol, number) -> the name of the other Task that has it. Raises PortTaken, and InvalidSpec when a probe
    names a port that the Task doesn't have.
    """
    check_names(task)
    fixed = {_key(one) for one in task.spec.ports if one.container_port}
    # A container that stays may well serve the port already, for the Task before this one.
    ours_alone = task.spec.container_lifetime.policy == "PerRun"
    for protocol, number in sorted(fixed):
        other = taken.get((protocol, number))
        if other is not None:
            raise PortTaken(f"port {number} is taken on node {node_name} by Task {other}")
        if ours_alone and (protocol, number) in host.served:
            raise PortTaken(f"port {number} is taken on node {node_name} by a process that is no Task's")
    busy = {*taken, *host.used, *fixed}
    given = []
    for port in task.spec.ports:
        number = port.container_port or _free(task, port, busy, node_name)
        busy.add((port.protocol, number))
        given.append(PortStatus(name=port.name, port=number, protocol=port.protocol))
    return tuple(given)


def _free(task: Task, port: ContainerPort, busy: set[tuple[str, int]], node_name: str) -> int:
    """The next free one after a point that is the Task's own: a number just let go is not given to the next at once."""
    count = LAST - FIRST + 1
    start = zlib.crc32(f"{task.metadata.uid}/{port.name}".encode()) % count
    for step in range(count):
        number = FIRST + (start + step) % count
        if (port.protocol, number) not in busy:
            return number
    raise PortTaken(f"no free {port.protocol} port from {FIRST} to {LAST} on node {node_name} for {port.name}")


def check_names(task: Task) -> None:
    """InvalidSpec when a probe or preStop asks at a port that isn't one."""
    spec = task.spec
    asked = {
        "startupProbe": spec.startup_probe,
        "livenessProbe": spec.liveness_probe,
        "readinessProbe": spec.readiness_probe,
        "lifecycle.preStop": spec.lifecycle.pre_stop,
    }
    numbers = {one.name: 1 for one in spec.ports}
    for field, probe in asked.items():
        for action in (getattr(probe, "http_get", None), getattr(probe, "tcp_socket", None)):
            if action is not None and resolve(action.port, numbers) is None:
                names = ", ".join(numbers) or "none"
                raise InvalidSpec(f"{field}: port {action.port!r} is no number from 1 to 65535 and no name: {names}")


def resolve(port: int | str, by_name: Mapping[str, int]) -> int | None:
    """The number that a probe means, None when there is none such."""
    if isinstance(port, str) and port in by_name:
        return by_name[port]
    number = int(port) if isinstance(port, int) or (port.isascii() and port.isdigit()) else 0
    return number if 1 <= number <= 65535 else None


def variables(given: Iterable[PortStatus]) -> list[tuple[str, str]]:
    """What the command is told: IRIS_PORT_<NAME>, its number."""
    return [(f"IRIS_PORT_{one.name.upper().replace('-', '_')}", str(one.port)) for one in given]


def to_label(given: Iterable[PortStatus]) -> str:
    """A label's value: `http=8080/TCP,dns=53/UDP`."""
    return ",".join(f"{one.name}={one.port}/{one.protocol}" for one in given)


def from_label(text: str) -> tuple[PortStatus, ...]:
    """A label's value back; what is no port is left out."""
    found = []
    for part in text.split(","):
        name, _, rest = part.partition("=")
        number, _, protocol = rest.partition("/")
        if name and number.isdigit() and 1 <= int(number) <= 65535:
            found.append(PortStatus(name=name, port=int(number), protocol=protocol))
    return tuple(found)


def host_ports(proc_net: Path = Path("/proc/net")) -> HostPorts:
    """What the sockets of this network have, from the kernel's tables. A table that isn't there has none."""
    tables = []
    for name, protocol in _TABLES.items():
        with contextlib.suppress(OSError):  # a kernel without IPv6
            tables.append((protocol, (proc_net / name).read_text()))
    return read_tables(tables)


def read_tables(tables: Iterable[tuple[str, str]]) -> HostPorts:
    """From (protocol, text of its table)."""
    used, served = set(), set()
    for protocol, text in tables:
        for line in text.splitlines()[1:]:
            fields = line.split()
            number = int(fields[1].rpartition(":")[2], 16)
            used.add((protocol, number))
            if fields[3] == _WAITS_FOR_PEERS[protocol]:
                served.add((protocol, number))
    return HostPorts(frozenset(used), frozenset(served))


def _key(port: ContainerPort) -> tuple[str, int]:
    return port.protocol, port.container_port
