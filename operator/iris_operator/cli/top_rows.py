"""Rows and data of `iris top`: rates are made of two samples of what is counted since the beginning. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from iris_operator.cli.node_targets import NodeTarget
from iris_operator.cli.transfer import size_text

TASK_COLUMNS = ("TASK", "NODE", "CPU", "MEMORY", "LIMIT", "PIDS", "GPUS", "GPU USE", "GPU MEMORY", "LOG")
NODE_COLUMNS = ("SLICE", "NODE", "CPU", "MEMORY", "DISK", "RECEIVES", "SENDS", "GPUS", "GPU USE", "TASKS")

Data = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """A node's answers of two moments; `before` is None when only the later one came."""

    node: NodeTarget
    before: Mapping[str, Any] | None
    now: Mapping[str, Any]


def rate(before: Mapping[str, Any] | None, now: Mapping[str, Any], name: str) -> float | None:
    """How much a second a count grew; None without an earlier one, or when it began anew."""
    if before is None or name not in before or name not in now:
        return None
    seconds = (datetime.fromisoformat(now["at"]) - datetime.fromisoformat(before["at"])).total_seconds()
    grown = float(now[name]) - float(before[name])
    return grown / seconds if seconds > 0 and grown >= 0 else None


def task_data(sample: Sample) -> list[Data]:
    """What each Task of a node uses."""
    earlier = {_attempt(one): one for one in (sample.before or {}).get("tasks", [])}
    return [
        {
            "name": one["name"],
            "attempt": one["attempt"],
            **sample.node.data(),
            "cpuCores": _rounded(rate(earlier.get(_attempt(one)), one, "cpuSeconds")),
            "memoryBytes": one["workingSetBytes"],
            "memoryLimitBytes": one.get("memoryLimitBytes"),
            "memoryPeakBytes": one.get("memoryPeakBytes"),
            "pids": one.get("pids"),
            "gpus": len(one["gpus"]),
            "gpuUse": one["gpuUse"],
            "logBytes": one["logBytes"],
        }
        for one in sample.now["tasks"]
    ]


def node_data(sample: Sample) -> Data:
    """What a node uses."""
    now = sample.now
    return {
        **sample.node.data(),
        "cpuCores": _rounded(rate(sample.before, now, "cpuSeconds")),
        "cpuCoresTotal": now["cpuCores"],
        **{name: now[name] for name in ("memoryBytes", "memoryTotalBytes", "diskBytes", "diskTotalBytes")},
        "receivedBytesPerSecond": _rounded(rate(sample.before, now, "receivedBytes"), 0),
        "sentBytesPerSecond": _rounded(rate(sample.before, now, "sentBytes"), 0),
        "gpus": now["gpus"],
        "gpusBy": now.get("gpusBy", ""),
        "gpusGiven": sum(len(one["gpus"]) for one in now["tasks"]),
        "gpuUse": now["gpuUse"],
        "tasks": len(now["tasks"]),
    }


def task_row(one: Data) -> list[str]:
    """For people."""
    return [
        one["name"],
        one["node"],
        _cores(one["cpuCores"]),
        size_text(one["memoryBytes"]),
        _size(one["memoryLimitBytes"]),
        str(one["pids"]) if one["pids"] is not None else "",
        str(one["gpus"] or ""),
        _gpu_use(one["gpuUse"]),
        _gpu_memory(one["gpuUse"]),
        size_text(one["logBytes"]),
    ]


def node_row(one: Data) -> list[str]:
    """For people."""
    return [
        f"{one['slice']}/{one['rank']}",
        one["node"],
        f"{_cores(one['cpuCores'])} of {one['cpuCoresTotal']}",
        f"{size_text(one['memoryBytes'])} of {size_text(one['memoryTotalBytes'])}",
        f"{size_text(one['diskBytes'])} of {size_text(one['diskTotalBytes'])}",
        _per_second(one["receivedBytesPerSecond"]),
        _per_second(one["sentBytesPerSecond"]),
        f"{one['gpusGiven']} of {one['gpus']}" if one["gpus"] else "",
        _gpu_use(one["gpuUse"]),
        str(one["tasks"]),
    ]


def _attempt(one: Mapping[str, Any]) -> tuple[str, int]:
    return one["uid"], one["attempt"]


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return round(value, digits) if value is not None else None


def _cores(value: float | None) -> str:
    return f"{value:.2f}" if value is not None else "?"


def _size(value: float | None) -> str:
    return size_text(value) if value is not None else ""


def _per_second(value: float | None) -> str:
    return f"{size_text(value)}/s" if value is not None else "?"


def _gpu_use(gpus: Sequence[Mapping[str, Any]]) -> str:
    """The mean: eight numbers are too many for a line."""
    known = [one["utilizationPercent"] for one in gpus if "utilizationPercent" in one]
    return f"{sum(known) / len(known):.0f} %" if known else ""


def _gpu_memory(gpus: Sequence[Mapping[str, Any]]) -> str:
    known = [one for one in gpus if "memoryBytes" in one and "memoryTotalBytes" in one]
    if not known:
        return ""
    return f"{size_text(sum(one['memoryBytes'] for one in known))} of {size_text(sum(one['memoryTotalBytes'] for one in known))}"
