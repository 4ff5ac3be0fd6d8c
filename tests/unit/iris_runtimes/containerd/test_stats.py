from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from iris_runtimes.containerd.proto import cgroups_v1_pb2, cgroups_v2_pb2, types_pb2
from iris_runtimes.containerd.stats import stats_of
from iris_runtimes.execution import Stats

AT = datetime(2026, 1, 2, tzinfo=UTC)
SAME = {
    "at": AT, "cpu_seconds": 1.5, "memory_bytes": 1000, "working_set_bytes": 600, "memory_peak_bytes": 2000, "pids": 3,
    "throttled_seconds": 0.25,
}  # fmt: skip


def metric(message: Any) -> Any:
    found = types_pb2.Metric(id="a")
    found.timestamp.FromDatetime(AT)
    found.data.type_url = message.DESCRIPTOR.full_name
    found.data.value = message.SerializeToString()
    return found


def first(limit: int, inactive: int = 400) -> Any:
    found = cgroups_v1_pb2.Metrics()
    found.cpu.usage.total = 1_500_000_000
    found.cpu.throttling.throttled_time = 250_000_000
    found.pids.current = 3
    found.memory.total_inactive_file = inactive
    found.memory.usage.usage, found.memory.usage.max, found.memory.usage.limit = 1000, 2000, limit
    return found


def second(limit: int, inactive: int = 400) -> Any:
    found = cgroups_v2_pb2.Metrics()
    found.cpu.usage_usec, found.cpu.throttled_usec = 1_500_000, 250_000
    found.pids.current = 3
    found.memory.usage, found.memory.max_usage, found.memory.usage_limit = 1000, 2000, limit
    found.memory.inactive_file = inactive
    return found


@pytest.mark.parametrize("version", [first, second])
@pytest.mark.parametrize(("limit", "told"), [(4096, 4096), (0, None), (2**63 - 4096, None), (2**64 - 1, None)], ids=str)
def test_both_versions_say_the_same(version: Any, limit: int, told: int | None) -> None:
    assert stats_of(metric(version(limit))) == Stats(**SAME, memory_limit_bytes=told)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [first, second])
def test_counters_read_at_two_moments_never_go_below_nothing(version: Any) -> None:
    found = stats_of(metric(version(0, inactive=5000)))
    assert found is not None
    assert found.working_set_bytes == 0


def test_another_platforms() -> None:
    assert stats_of(types_pb2.Metric(id="a")) is None
