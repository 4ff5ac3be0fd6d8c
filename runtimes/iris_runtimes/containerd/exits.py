"""How a command ended: exit code and time from the task, the OOM killer's work from its cgroup's counters."""

from __future__ import annotations

from typing import Any

from iris_runtimes.containerd.proto import cgroups_v1_pb2, cgroups_v2_pb2


def memory_facts(data: Any) -> tuple[int, int | None]:
    """(OOM kills, peak bytes or None) of a Metric's data, for cgroup v1 and v2.

    The counters are read after the exit and before the cgroup goes: so no OOM event can come too late to be counted.
    """
    if data.type_url.endswith("io.containerd.cgroups.v1.Metrics"):
        first = cgroups_v1_pb2.Metrics()
        first.ParseFromString(data.value)
        return first.memory_oom_control.oom_kill, first.memory.usage.max or None
    if data.type_url.endswith("io.containerd.cgroups.v2.Metrics"):
        second = cgroups_v2_pb2.Metrics()
        second.ParseFromString(data.value)
        return second.memory_events.oom_kill, second.memory.max_usage or None
    return 0, None
