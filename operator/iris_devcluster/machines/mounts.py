"""The machine's own view of the file system: canonical paths that lead to its own directories.

Run once by the supervisor, inside its new mount namespace. Every machine shares the host's programs and libraries;
/run is its own and ends with it, /etc and /var are the host's with a private layer on top, and the paths in `binds`
are the machine's own directories.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from iris_devcluster import cgroups, linux

_LAYERED = ("/etc", "/var")


def assemble(hierarchies: Sequence[cgroups.Hierarchy], binds: Mapping[str, str], files: Mapping[str, str]) -> None:
    """Mount everything, bind `{path inside: path outside}`, then write `{path inside: content}`.

    `hierarchies` are those of the host, looked up before its cgroup namespace was left.
    """
    found = [one for one in hierarchies if not (one.unified and _legacy())]
    # Opened first: a source below /var would be out of reach once /var is covered.
    sources = {inside: os.open(outside, os.O_PATH) for inside, outside in binds.items()}
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    linux.unmount("/sys", lazily=True)  # or the host's cgroup mounts below it would stay listed, and be taken for ours
    linux.mount("sysfs", "/sys", "sysfs", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    _mount_cgroups(found)
    linux.mount("tmpfs", "/run", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
    for path in _LAYERED:
        _layer(path)
    for inside, source in sources.items():
        Path(inside).mkdir(parents=True, exist_ok=True)
        linux.mount(f"/proc/self/fd/{source}", inside, flags=linux.MS_BIND | linux.MS_REC)
        os.close(source)
    # The kubelet and containerd need a shared root for mounts that volumes pass on to containers.
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_SHARED)
    for inside, content in files.items():
        _write(Path(inside), content)


def _legacy() -> bool:
    """Whether controllers live in v1 hierarchies; a cgroup2 mount beside them (hybrid) then serves nobody here."""
    return not Path("/sys/fs/cgroup/cgroup.controllers").exists()


def _mount_cgroups(found: list[cgroups.Hierarchy]) -> None:
    """The hierarchies again, rooted at this machine's own group by the cgroup namespace."""
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    if any(one.unified for one in found):
        linux.mount("cgroup2", "/sys/fs/cgroup", "cgroup2", flags)
        root = Path("/sys/fs/cgroup")
        # v2 allows no process beside child groups that have controllers.
        (root / "init").mkdir(exist_ok=True)
        cgroups.join(root / "init", os.getpid())
        cgroups.delegate(root)
        return
    linux.mount("tmpfs", "/sys/fs/cgroup", "tmpfs", flags, "mode=755")
    for one in found:
        one.mountpoint.mkdir()
        data = f"none,{one.options}" if one.options.startswith("name=") else one.options
        linux.mount("cgroup", str(one.mountpoint), "cgroup", flags, data)


def _layer(path: str) -> None:
    upper, work = f"/run/.layers{path}/upper", f"/run/.layers{path}/work"
    for folder in (upper, work):
        Path(folder).mkdir(parents=True)
    linux.mount("overlay", path, "overlay", 0, f"lowerdir={path},upperdir={upper},workdir={work}")


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # a link such as resolv.conf's would lead elsewhere
    path.touch(mode=0o600 if "PRIVATE KEY" in content or "client-key-data" in content else 0o644)
    path.write_text(content)
