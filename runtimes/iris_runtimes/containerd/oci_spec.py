"""The OCI runtime spec of a sandbox: containerd's defaults (oci.WithDefaultSpec) plus what the Task asks for. Pure."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iris_runtimes.containerd.image_config import ImageConfig, User
from iris_runtimes.containerd.seccomp import default_profile
from iris_runtimes.errors import InvalidSpec, NodeFault
from iris_runtimes.protocol import CgroupParent, Device, SandboxSpec

# Where a sandbox's log is: of a lost one, its last write is the last sign of life.
LOG_PATH_ANNOTATION = "dev.iris/log-path"
SPEC_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Spec"

_DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CPU_PERIOD_US = 100_000
_CAPABILITIES = [
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
    "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
]  # fmt: skip
_MASKED = [
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
    "/proc/timer_stats", "/proc/sched_debug", "/proc/interrupts", "/sys/firmware", "/sys/devices/virtual/powercap",
    "/proc/scsi",
]  # fmt: skip
_READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
_MOUNTS: list[dict[str, Any]] = [
    {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
     "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
    {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
     "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]},
    {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
     "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
    {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": ["nosuid", "noexec", "nodev"]},
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
    {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
     "options": ["ro", "nosuid", "noexec", "nodev"]},
]  # fmt: skip
_HOST_FILES = ("/etc/resolv.conf", "/etc/hosts")
# null, zero, full, random, urandom, tty, console, pts, ptmx: what runc makes in every container
_DEVICE_RULES = [
    (1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (136, None), (5, 2),
]  # fmt: skip


@dataclass(frozen=True)
class DeviceNode:
    """A device with what the kernel says of it."""

    device: Device
    kind: str
    major: int
    minor: int


def look_at_device(device: Device) -> DeviceNode:
    """Type and numbers of a host device. NodeFault when it is none."""
    try:
        found = os.stat(device.host_path)  # noqa: PTH116 a device node, not a file to read
    except OSError as error:
        raise NodeFault(f"device {device.host_path}: {error.strerror}") from error
    kind = "c" if stat.S_ISCHR(found.st_mode) else "b" if stat.S_ISBLK(found.st_mode) else ""
    if not kind:
        raise NodeFault(f"{device.host_path} is not a device")
    return DeviceNode(device, kind, os.major(found.st_rdev), os.minor(found.st_rdev))


def cgroups_path(parent: CgroupParent, sandbox_id: str) -> str:
    """linux.cgroupsPath below the parent, for either cgroup driver."""
    if parent.systemd:
        return f"{parent.path}:iris:{sandbox_id}"
    return f"{parent.path.rstrip('/')}/iris-{sandbox_id}"


def process_args(spec: SandboxSpec, config: ImageConfig) -> list[str]:
    """Kubernetes' rule: a command drops the image's entrypoint and cmd, args alone drop its cmd."""
    if spec.command:
        return [*spec.command, *spec.args]
    args = [*config.entrypoint, *(spec.args or config.cmd)]
    if not args:
        raise InvalidSpec(f"image {spec.image} has no entrypoint: give a command")
    return args


def environment(spec: SandboxSpec, config: ImageConfig) -> list[str]:
    """The image's, over a default PATH; the spec's over both; the last of a name wins."""
    merged: dict[str, str] = {}
    for pair in (_DEFAULT_PATH, *config.env):
        name, _, value = pair.partition("=")
        merged[name] = value
    merged.update(spec.env)
    return [f"{name}={value}" for name, value in merged.items()]


def build_spec(
    spec: SandboxSpec, config: ImageConfig, user: User, devices: Sequence[DeviceNode], *, cgroup_v2: bool
) -> dict[str, Any]:
    """The whole spec as JSON. The network is the node's: no network namespace, and the node's resolver files."""
    namespaces = ["pid", "ipc", "uts", "mount", *(["cgroup"] if cgroup_v2 else [])]
    given = {mount.container_path for mount in spec.mounts}
    binds = [(path, path, True) for path in _HOST_FILES if path not in given]
    binds += [(mount.host_path, mount.container_path, mount.read_only) for mount in spec.mounts]
    return {
        "ociVersion": "1.2.0",
        "process": {
            "user": {"uid": user.uid, "gid": user.gid, "additionalGids": list(user.additional_gids)},
            "args": process_args(spec, config),
            "env": environment(spec, config),
            "cwd": spec.working_dir or config.working_dir or "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), _CAPABILITIES),
            "noNewPrivileges": True,
            "oomScoreAdj": spec.oom_score_adj,
        },
        "root": {"path": "rootfs"},
        "hostname": spec.hostname or spec.id[:63],
        "mounts": [*_MOUNTS, *(_bind(*bind) for bind in binds)],
        "annotations": {LOG_PATH_ANNOTATION: str(spec.log_path)},
        "linux": {
            "cgroupsPath": cgroups_path(spec.cgroup, spec.id),
            "namespaces": [{"type": one} for one in namespaces],
            "maskedPaths": _MASKED,
            "readonlyPaths": _READ_ONLY,
            "devices": [_device(node) for node in devices],
            "resources": _resources(spec, devices),
            "seccomp": default_profile(platform.machine()),
        },
    }


def _bind(source: str, target: str, read_only: bool) -> dict[str, Any]:
    options = ["rbind", "rprivate", "ro" if read_only else "rw"]
    return {"destination": target, "type": "bind", "source": source, "options": options}


def _device(node: DeviceNode) -> dict[str, Any]:
    path = node.device.container_path
    return {"path": path, "type": node.kind, "major": node.major, "minor": node.minor, "fileMode": 0o666}


def _resources(spec: SandboxSpec, devices: Sequence[DeviceNode]) -> Mapping[str, Any]:
    cpu: dict[str, int] = {"shares": max(2, spec.cpu_request_millicores * 1024 // 1000)}
    if spec.cpu_limit_millicores:
        cpu["quota"] = max(1000, spec.cpu_limit_millicores * _CPU_PERIOD_US // 1000)
        cpu["period"] = _CPU_PERIOD_US
    rules: list[dict[str, Any]] = [{"allow": False, "access": "rwm"}]
    for major, minor in _DEVICE_RULES:
        rule = {"allow": True, "type": "c", "major": major, "access": "rwm"}
        rules.append(rule if minor is None else {**rule, "minor": minor})
    for node in devices:
        access = node.device.permissions
        rules.append({"allow": True, "type": node.kind, "major": node.major, "minor": node.minor, "access": access})
    resources: dict[str, Any] = {"devices": rules, "cpu": cpu, "pids": {"limit": spec.pids_limit}}
    if spec.memory_limit_bytes:
        # swap = memory: no swap on top, as the kubelet does
        resources["memory"] = {"limit": spec.memory_limit_bytes, "swap": spec.memory_limit_bytes}
    return resources
