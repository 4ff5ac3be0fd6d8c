"""What a sandbox uses, out of containerd's task metrics, for cgroup v1 and v2. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from iris_runtimes.containerd.proto import cgroups_v1_pb2, cgroups_v2_pb2
from iris_runtimes.execution import Stats

# What the kernel says for "no limit": v2 the largest number, v1 the same rounded down to a page
_NO_LIMIT = 2**62
_NS, _US = 1e-9, 1e-6


def stats_of(metric: Any) -> Stats | None:
    """Of a containerd.types.Metric; None when it is of neither cgroup version."""
    at: datetime = metric.timestamp.ToDatetime(tzinfo=UTC)
    if metric.data.type_url.endswith("io.containerd.cgroups.v1.Metrics"):
        return _first(at, cgroups_v1_pb2.Metrics.FromString(metric.data.value))
    if metric.data.type_url.endswith("io.containerd.cgroups.v2.Metrics"):
        return _second(at, cgroups_v2_pb2.Metrics.FromString(metric.data.value))
    return None


def _first(at: datetime, found: Any) -> Stats:
    memory = found.memory.usage
    return Stats(
        at=at,
        cpu_seconds=found.cpu.usage.total * _NS,
        memory_bytes=memory.usage,
        working_set_bytes=max(0, memory.usage - found.memory.total_inactive_file),
        memory_limit_bytes=_limit(memory.limit),
        memory_peak_bytes=memory.max or None,
        pids=found.pids.current,
        throttled_seconds=found.cpu.throttling.throttled_time * _NS,
    )


def _second(at: datetime, found: Any) -> Stats:
    memory = found.memory
    return Stats(
        at=at,
        cpu_seconds=found.cpu.usage_usec * _US,
        memory_bytes=memory.usage,
        working_set_bytes=max(0, memory.usage - memory.inactive_file),
        memory_limit_bytes=_limit(memory.usage_limit),
        memory_peak_bytes=memory.max_usage or None,
        pids=found.pids.current,
        throttled_seconds=found.cpu.throttled_usec * _US,
    )


def _limit(value: int) -> int | None:
    return value if 0 < value < _NO_LIMIT else None
