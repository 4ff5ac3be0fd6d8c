"""The way from Pods and nodes to the world outside: this host forwards and hides their addresses behind its own.

Rules carry the cluster's prefix as their comment, by which they are found again. The cluster itself needs none of
this; it is for images and packages that a Task fetches.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from iris_devcluster import command
from iris_devcluster.identity import Identity

_FORWARDING = "/proc/sys/net/ipv4/conf/{}/forwarding"


def open_egress(identity: Identity) -> None:
    """Idempotent; does nothing on a host without a default route."""
    uplink = _uplink()
    if uplink is None:
        return
    for device in (identity.host_link, uplink):
        Path(_FORWARDING.format(device)).write_text("1")
    if len(_rules(identity.prefix)) == len(_wanted(identity)):
        return
    _remove_rules(identity.prefix)
    for table, rule in _wanted(identity):
        command.run(["iptables", "--wait", "-t", table, "-I", *rule.split()])


def close_egress(prefix: str) -> None:
    """Remove the cluster's rules, and stop forwarding when it was the last cluster that needed it."""
    _remove_rules(prefix)
    others = [link.name for link in Path("/sys/class/net").iterdir() if re.fullmatch(r"iris-[0-9a-f]{6}-h", link.name)]
    uplink = _uplink()
    default = Path(_FORWARDING.format("all")).read_text()
    if uplink is not None and not [name for name in others if name != f"{prefix}-h"]:
        Path(_FORWARDING.format(uplink)).write_text(default)


def _remove_rules(prefix: str) -> None:
    for table, line in _rules(prefix):
        command.run(["iptables", "--wait", "-t", table, "-D", *shlex.split(line)[1:]])


def _wanted(identity: Identity) -> list[tuple[str, str]]:
    """Table and rule; a firewall's or another container engine's rules must not get in the way, so these go first."""
    note = f"-m comment --comment {identity.prefix}"
    link, inside = identity.host_link, identity.cluster_range
    return [
        ("nat", f"POSTROUTING -s {inside} ! -d {inside} {note} -j MASQUERADE"),
        ("filter", f"FORWARD -i {link} {note} -j ACCEPT"),
        ("filter", f"FORWARD -o {link} {note} -j ACCEPT"),
        ("filter", f"INPUT -i {link} {note} -j ACCEPT"),
    ]


def _rules(prefix: str) -> list[tuple[str, str]]:
    """The cluster's present rules: table and `-A CHAIN ...`."""
    found = []
    for table in ("nat", "filter"):
        listing = command.run(["iptables", "--wait", "-t", table, "-S"])
        found += [(table, line) for line in listing.splitlines() if f"--comment {prefix}" in line]
    return found


def _uplink() -> str | None:
    match = re.search(r"^default .*\bdev (\S+)", command.run(["ip", "-4", "route"]), re.MULTILINE)
    return match.group(1) if match else None
