"""Control groups on v1, v2 and hybrid machines: one tree per cluster in every hierarchy, one group per machine.

Import-light: the supervisor uses it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Hierarchy:
    """A mounted cgroup hierarchy; `options` are v1's controllers (or `name=systemd`), empty on v2."""

    mountpoint: Path
    unified: bool
    options: str = ""


def hierarchies(mountinfo: str | None = None) -> list[Hierarchy]:
    """Every cgroup hierarchy this process sees at its root, each once."""
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    found: dict[str, Hierarchy] = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, (fstype, _, options) = left.split(), right.split(maxsplit=2)
        if fields[3] != "/" or fstype not in ("cgroup", "cgroup2"):
            continue
        unified = fstype == "cgroup2"
        names = "" if unified else _controllers(options)
        found.setdefault(names, Hierarchy(Path(fields[4]), unified, names))
    return list(found.values())


def _controllers(options: str) -> str:
    """`rw,cpu,cpuacct` -> `cpu,cpuacct`; `rw,xattr,name=systemd` -> `name=systemd`."""
    words = [word for word in options.split(",") if word not in ("rw", "ro", "xattr", "clone_children")]
    return ",".join(word for word in words if not word.startswith("release_agent"))


def create(hierarchy: Hierarchy, path: str) -> Path:
    """Make `path` (as `iris-1a2b3c/system-0`) and fit it for use: v1 cpusets filled, v2 controllers passed down."""
    group = hierarchy.mountpoint
    for part in path.split("/"):
        if hierarchy.unified:
            delegate(group)
        group = group / part
        group.mkdir(exist_ok=True)
        if "cpuset" in hierarchy.options.split(","):
            _fill_cpuset(group)
    return group


def _fill_cpuset(group: Path) -> None:
    """A v1 cpuset takes no process before it has CPUs and memory nodes."""
    (group / "cgroup.clone_children").write_text("1")
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not (group / name).read_text().strip():
            (group / name).write_text((group.parent / name).read_text().strip())


def delegate(group: Path) -> None:
    """Let children of a v2 group use every controller that the group itself has."""
    available = (group / "cgroup.controllers").read_text().split()
    enabled = (group / "cgroup.subtree_control").read_text().split()
    for controller in sorted(set(available) - set(enabled)):
        (group / "cgroup.subtree_control").write_text(f"+{controller}")


def join(group: Path, pid: int) -> None:
    """Move a whole process into the group."""
    (group / "cgroup.procs").write_text(str(pid))


def groups_below(path: str) -> Iterator[Path]:
    """Every existing group at or below `path`, in every hierarchy, children before parents."""
    for hierarchy in hierarchies():
        top = hierarchy.mountpoint / path
        for folder, _, _ in os.walk(top, topdown=False):
            yield Path(folder)


def members(path: str) -> set[int]:
    """Processes in any group at or below `path`."""
    found: set[int] = set()
    for group in groups_below(path):
        try:
            found.update(int(pid) for pid in (group / "cgroup.procs").read_text().split())
        except (FileNotFoundError, OSError):
            continue  # gone between the walk and the read
    return found


def remove(path: str) -> list[Path]:
    """Remove every group at or below `path`; returns those that are still busy."""
    left = []
    for group in groups_below(path):
        try:
            group.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            left.append(group)
    return left
