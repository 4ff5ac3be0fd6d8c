"""What a sandbox may do: capabilities, seccomp, paths of the kernel it can't see. Pure."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

from iris_runtimes.containerd.seccomp import default_profile
from iris_runtimes.errors import InvalidSpec
from iris_runtimes.protocol import SandboxSpec

_PREFIX = "CAP_"
# containerd's default: oci.WithDefaultSpec
_DEFAULT = (
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
    "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
)  # fmt: skip
# capabilities(7), by number; the kernel's last is CHECKPOINT_RESTORE since 5.9
_ALL = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE",
    "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME",
    "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
    "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
)  # fmt: skip
_MASKED = [
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
    "/proc/timer_stats", "/proc/sched_debug", "/proc/interrupts", "/sys/firmware", "/sys/devices/virtual/powercap",
    "/proc/scsi",
]  # fmt: skip
_READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]


# A bit for each capability, as in CapBnd of /proc/PID/status
EVERY_CAPABILITY = 2 ** len(_ALL) - 1


def capabilities(spec: SandboxSpec, node: int = EVERY_CAPABILITY) -> list[str]:
    """Full names, by Kubernetes' rule: what is dropped goes first, what is added comes then; privileged has all.

    `node`: a bit for each that the node has to give; `ALL` means those.
    """
    everything = [name for number, name in enumerate(_ALL) if node >> number & 1]
    if spec.privileged:
        return [_PREFIX + name for name in everything]
    added, dropped = _names(spec.add_capabilities), _names(spec.drop_capabilities)
    kept = () if "ALL" in dropped else tuple(name for name in _DEFAULT if name not in dropped)
    if "ALL" in added:
        return [_PREFIX + name for name in everything if name not in dropped]
    return [_PREFIX + name for name in dict.fromkeys((*kept, *added))]


def process_security(spec: SandboxSpec, node: int = EVERY_CAPABILITY) -> dict[str, Any]:
    """The part of `process`."""
    granted = capabilities(spec, node)
    return {
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), granted),
        "noNewPrivileges": not (spec.privileged or spec.allow_privilege_escalation),
    }


def kernel_security(spec: SandboxSpec, node: int = EVERY_CAPABILITY) -> dict[str, Any]:
    """The part of `linux`; nothing for a privileged sandbox."""
    if spec.privileged:
        return {}
    profile = default_profile(platform.machine(), tuple(capabilities(spec, node)))
    return {"maskedPaths": _MASKED, "readonlyPaths": _READ_ONLY, "seccomp": profile}


def _names(written: Sequence[str]) -> tuple[str, ...]:
    names = tuple(one.upper().removeprefix(_PREFIX) for one in written)
    for name, one in zip(names, written, strict=True):
        if name != "ALL" and name not in _ALL:
            raise InvalidSpec(f"{one!r} is no capability of Linux")
    return names
