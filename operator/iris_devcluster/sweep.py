"""Remove all that the kernel holds of a cluster. Looks at the kernel and not at files, so that it also finds what a
crash, a kill -9 or a deleted root directory left."""

from __future__ import annotations

import os
from pathlib import Path

from iris_devcluster import cgroups, egress, linux, network, processes
from iris_devcluster.errors import DevclusterError

_ROUNDS = 10
_PATIENCE_SECONDS = 2.0


def sweep(prefix: str, root: Path) -> None:
    """Kill every process, then remove link, rules, mounts and cgroups of the cluster `prefix`.

    Raises DevclusterError naming whatever refuses to go.
    """
    _end_processes(prefix)
    network.remove_host_link(f"{prefix}-h")
    egress.close_egress(prefix)
    _unmount_below(root)
    left = cgroups.remove(prefix)
    if left:
        raise DevclusterError(f"cgroups that stay busy: {', '.join(map(str, left))}")


def _end_processes(prefix: str) -> None:
    """In rounds, as what is killed may have started something in its last moment."""
    left: set[int] = set()
    for _ in range(_ROUNDS):
        found = (processes.marked(prefix) | cgroups.members(prefix)) - {os.getpid(), os.getppid()}
        found = {pid for pid in found if processes.alive(pid)}
        if not found:
            return
        processes.kill(found)
        left = processes.wait_gone(found, _PATIENCE_SECONDS)
    raise DevclusterError(f"processes that do not end after SIGKILL: {sorted(left)}")


def _unmount_below(root: Path) -> None:
    """Mounts in this namespace; machines have their own, so normally there are none."""
    below = f"{root}/"
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in reversed([point for point in points if point.startswith(below)]):
        linux.unmount(point, lazily=True)
