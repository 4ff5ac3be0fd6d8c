"""What a sandbox may use: linux.resources and the limits of its process. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from iris_runtimes.containerd.devices import DeviceNode
from iris_runtimes.errors import InvalidLimits
from iris_runtimes.protocol import SandboxSpec

# The kernel's bounds of a CFS period and of the least quota, in microseconds
_LEAST_PERIOD_US, _MOST_PERIOD_US, _LEAST_QUOTA_US = 1000, 1_000_000, 1000
_LEAST_SHARES, _MOST_SHARES = 2, 262_144
_INFINITY = 2**64 - 1
_RDMA_FOLDER = "/dev/infiniband/"
# null, zero, full, random, urandom, tty, console, pts, ptmx: what runc makes in every container
_DEVICE_RULES = [
    (1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (136, None), (5, 2),
]  # fmt: skip
_UNITS = ((2**30, "GB"), (2**20, "MB"), (2**10, "KB"))


def resources(spec: SandboxSpec, devices: Sequence[DeviceNode]) -> Mapping[str, Any]:
    """linux.resources, in the words of cgroup v1, which runc turns into v2's. InvalidLimits for what the kernel refuses."""
    found: dict[str, Any] = {
        "devices": [{"allow": True, "access": "rwm"}] if spec.privileged else _device_rules(devices),
        "cpu": _cpu(spec),
        "pids": {"limit": spec.pids_limit},
    }
    if spec.memory_limit_bytes:
        # swap = memory: no swap on top, as the kubelet does
        found["memory"] = {"limit": spec.memory_limit_bytes, "swap": spec.memory_limit_bytes}
    if spec.hugepage_limits_bytes:
        limits = sorted(spec.hugepage_limits_bytes.items())
        found["hugepageLimits"] = [{"pageSize": page_size(size), "limit": limit} for size, limit in limits]
    return found


def process_limits(devices: Sequence[DeviceNode]) -> list[dict[str, Any]]:
    """RDMA pins what it sends: with its devices comes the right to pin all memory; the cgroup still bounds it."""
    if not any(node.device.container_path.startswith(_RDMA_FOLDER) for node in devices):
        return []
    return [{"type": "RLIMIT_MEMLOCK", "hard": _INFINITY, "soft": _INFINITY}]


def page_size(size_bytes: int) -> str:
    """A size of huge pages in the kernel's words: 2MB, 1GB. InvalidLimits when there can be no such page."""
    for unit, word in _UNITS:
        if size_bytes > 0 and size_bytes % unit == 0 and size_bytes & (size_bytes - 1) == 0:
            return f"{size_bytes // unit}{word}"
    raise InvalidLimits(f"there are no huge pages of {size_bytes} bytes")


def _cpu(spec: SandboxSpec) -> dict[str, int]:
    shares = spec.cpu_request_millicores * 1024 // 1000
    cpu = {"shares": min(max(_LEAST_SHARES, shares), _MOST_SHARES)}
    if spec.cpu_limit_millicores:
        period = spec.cpu_period_us
        if not _LEAST_PERIOD_US <= period <= _MOST_PERIOD_US:
            raise InvalidLimits(f"a cpu period is {_LEAST_PERIOD_US} to {_MOST_PERIOD_US} microseconds, not {period}")
        cpu["quota"] = max(_LEAST_QUOTA_US, spec.cpu_limit_millicores * period // 1000)
        cpu["period"] = period
    return cpu


def _device_rules(devices: Sequence[DeviceNode]) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = [{"allow": False, "access": "rwm"}]
    for major, minor in _DEVICE_RULES:
        rule = {"allow": True, "type": "c", "major": major, "access": "rwm"}
        rules.append(rule if minor is None else {**rule, "minor": minor})
    for node in devices:
        access = node.device.permissions
        rules.append({"allow": True, "type": node.kind, "major": node.major, "minor": node.minor, "access": access})
    return rules
