"""What a sandbox sees below its root: containerd's default mounts, the node's resolver files, the Task's own. Pure."""

from __future__ import annotations

from typing import Any

from iris_runtimes.errors import InvalidLimits, InvalidSpec
from iris_runtimes.protocol import SandboxSpec

_HOST_FILES = ("/etc/resolv.conf", "/etc/hosts")
_QUIET = ["nosuid", "noexec", "nodev"]
_PTS = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]


def mounts(spec: SandboxSpec) -> list[dict[str, Any]]:
    """In the order to mount them: the shallower first, of one depth as given."""
    given = {mount.container_path for mount in spec.mounts}
    binds = [_bind(path, path, read_only=True) for path in _HOST_FILES if path not in given]
    own = [_bind(one.host_path, one.container_path, one.read_only) for one in spec.mounts]
    own += [_tmpfs(one.container_path, one.size_bytes, one.mode) for one in spec.tmpfs]
    for mount in own:
        if not mount["destination"].startswith("/"):
            raise InvalidSpec(f"the mount {mount['destination']!r} is no absolute path")
    return [*_usual(spec), *binds, *sorted(own, key=lambda one: one["destination"].rstrip("/").count("/"))]


def _usual(spec: SandboxSpec) -> list[dict[str, Any]]:
    read_only = "rw" if spec.privileged else "ro"
    return [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": _QUIET},
        _dev(spec),
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": _PTS},
        _shm(spec),
        {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": _QUIET},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": [*_QUIET, read_only]},
        {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": [*_QUIET, read_only]},
    ]


def _dev(spec: SandboxSpec) -> dict[str, Any]:
    if spec.privileged:  # every device of the node, those that are plugged in later too
        return {"destination": "/dev", "type": "bind", "source": "/dev", "options": ["rbind", "rslave", "rw"]}
    options = ["nosuid", "strictatime", "mode=755", "size=65536k"]
    return {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": options}


def _shm(spec: SandboxSpec) -> dict[str, Any]:
    if spec.shm_size_bytes <= 0:
        raise InvalidLimits(f"the size of /dev/shm is {spec.shm_size_bytes} bytes; give a positive one")
    options = [*_QUIET, "mode=1777", f"size={spec.shm_size_bytes}"]
    return {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": options}


def _tmpfs(target: str, size_bytes: int, mode: int) -> dict[str, Any]:
    if size_bytes <= 0:
        raise InvalidLimits(f"the size of {target} is {size_bytes} bytes; give a positive one")
    options = ["nosuid", "nodev", f"mode={mode:o}", f"size={size_bytes}"]
    return {"destination": target, "type": "tmpfs", "source": "tmpfs", "options": options}


def _bind(source: str, target: str, read_only: bool) -> dict[str, Any]:
    options = ["rbind", "rprivate", "ro" if read_only else "rw"]
    return {"destination": target, "type": "bind", "source": source, "options": options}
