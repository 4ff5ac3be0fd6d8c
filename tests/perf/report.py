"""The figures as one JSON document, and as tables for people."""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.perf import iris_load, job_load
from tests.perf.aims import as_documents, task_aims
from tests.perf.measure import Measured, Plan
from tests.perf.stats import breakdown, latency, seconds
from tests.perf.usage import ON_NODE, TOTAL, WHOLE_NODE, Spent

_BACKGROUND = 0.05  # writes or ms per object: less is what goes on anyway


def document(found: Measured, plan: Plan) -> dict[str, Any]:
    """All figures. Rates per second, latencies in milliseconds, memory in MiB, processor in seconds per object."""
    iris_alone = latency(seconds(found.iris_single, "created", "running"))
    pod_alone = latency(seconds(found.pod_single, "created", "running"))
    start = latency(found.containerd_start_seconds())
    assert found.after is not None
    figures: dict[str, Any] = {
        "plan": plan.__dict__,
        "machine": {"cpus": os.cpu_count(), "loadBefore": round(found.load_before, 1)},
        "iris": {
            "tasksPerSecond": round(found.iris.rate, 2),
            "rounds": [round(rate, 2) for rate in found.iris.rates],
            "applyToRunningMs": {"alone": iris_alone, "burst": latency(found.iris.seconds("created", "running"))},
            "applyToEndedMs": {"alone": latency(seconds(found.iris_single, "created", "ended"))},
            "stepsMs": {
                "alone": breakdown(found.iris_single, iris_load.STAGES),
                "burst": breakdown(found.iris.lives, iris_load.STAGES),
            },
            "deletedPerSecond": round(plan.tasks / statistics.median(found.iris_deleted_seconds), 2),
            **_costs(found.iris_spent, plan.tasks),
            "apiWritesEachDeletion": _costs(found.iris_delete_spent, plan.tasks)["apiWritesEach"],
            "agentMiB": round(max(found.agent_mib), 1),
        },
        "job": {
            "podsPerSecond": round(found.job.rate, 2),
            "rounds": [round(rate, 2) for rate in found.job.rates],
            "createToRunningMs": {
                "alone": pod_alone,
                "burst": latency(found.job.seconds("created", "running")),
                "sinceJobCreation": latency(found.job_running_seconds),
            },
            "createToEndedMs": {"alone": latency(seconds(found.pod_single, "created", "ended"))},
            "stepsMs": {"alone": breakdown(found.pod_single, job_load.STAGES)},
            **_costs(found.job_spent, plan.pods),
        },
        "containerd": {
            "sandboxesPerSecond": round(found.containerd_rate, 2),
            "rounds": [round(rate, 2) for rate in found.containerd_rates],
            "startMs": start,
            "stepsMs": {
                step: round(statistics.median(one[step] for one in found.containerd_single) * 1000, 1)
                for step in ("start", "exit", "remove")
            },
        },
        "memoryMiB": dict(sorted(found.after.rss_mib.items())),
        "ratios": {
            "throughputIrisOverJob": round(found.iris.rate / found.job.rate, 2),
            "throughputIrisOverContainerd": round(found.iris.rate / found.containerd_rate, 2),
            "latencyPodOverIris": round(pod_alone["p50"] / iris_alone["p50"], 2),
            "latencyIrisOverContainerd": round(iris_alone["p50"] / start["p50"], 2),
        },
    }
    return {**figures, "aims": as_documents(task_aims(figures))}


def _costs(rounds: Sequence[Spent], each: int) -> dict[str, Any]:
    """Per object, over all rounds."""
    cpu: Counter[str] = Counter()
    writes: Counter[str] = Counter()
    for one in rounds:
        cpu.update(one.cpu_seconds)
        writes.update(one.writes)
    number = each * len(rounds)
    if WHOLE_NODE in cpu:
        cpu[TOTAL] = sum(value for name, value in cpu.items() if name not in ON_NODE)
    return {
        "apiWritesEach": {name: round(value / number, 2) for name, value in sorted(writes.items())},
        "cpuMsEach": {name: round(value / number * 1000, 1) for name, value in sorted(cpu.items())},
    }


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Tables, then which aims are met."""
    machine = figures["machine"]
    console.print(_main_table(figures))
    console.print(_steps_table(figures))
    console.print(_costs_table(figures))
    memory = ", ".join(f"{name} {value:.0f}" for name, value in figures["memoryMiB"].items())
    console.print(f"Memory (RSS, MiB): {memory}")
    if machine["loadBefore"] > machine["cpus"]:
        words = f"load {machine['loadBefore']} on {machine['cpus']} CPUs before it began"
        console.print(f"This machine was busy with other work ({words}): take a quiet moment, or more --rounds")
    ours, theirs = (figures[path]["cpuMsEach"].get(TOTAL) for path in ("iris", "job"))
    if ours and theirs:
        console.print(
            f"A Pod takes {theirs / ours:.1f} times a Task's processor time: this holds on a busy machine too"
        )
    for one in task_aims(figures):
        console.print(one.words())


def _main_table(figures: Mapping[str, Any]) -> Table:
    table = Table(title="/bin/true on one node, image cached, host network")
    for title in ("", "Iris", "Job", "containerd", "Iris : Job", "Iris : containerd"):
        table.add_column(title, justify="left" if not title else "right")
    iris, job, alone, ratios = figures["iris"], figures["job"], figures["containerd"], figures["ratios"]
    table.add_row(
        "at once, per second",
        f"{iris['tasksPerSecond']:.1f}",
        f"{job['podsPerSecond']:.1f}",
        f"{alone['sandboxesPerSecond']:.1f}",
        f"{ratios['throughputIrisOverJob']:.2f}",
        f"{ratios['throughputIrisOverContainerd']:.2f}",
    )
    rows = (
        ("alone, until it runs: p50, ms", "alone", "p50"),
        ("alone, until it runs: p99, ms", "alone", "p99"),
        ("at once, until it runs: p50, ms", "burst", "p50"),
        ("at once, until it runs: p99, ms", "burst", "p99"),
    )
    for title, load, part in rows:
        ours, theirs = iris["applyToRunningMs"][load][part], job["createToRunningMs"][load][part]
        bare = alone["startMs"][part] if load == "alone" else None
        table.add_row(
            title,
            f"{ours:.0f}",
            f"{theirs:.0f}",
            f"{bare:.0f}" if bare else "",
            f"{ours / theirs:.2f}",
            f"{ours / bare:.2f}" if bare else "",
        )
    return table


def _steps_table(figures: Mapping[str, Any]) -> Table:
    table = Table(title="Where the time goes: median ms from one stage to the next, as a watch sees them")
    for title in ("step", "Task alone", "Task, at once", "Pod alone", "sandbox alone"):
        table.add_column(title, justify="left" if title == "step" else "right")
    columns = [
        figures["iris"]["stepsMs"]["alone"],
        figures["iris"]["stepsMs"]["burst"],
        figures["job"]["stepsMs"]["alone"],
        figures["containerd"]["stepsMs"],
    ]
    for step in dict.fromkeys(step for column in columns for step in column):
        table.add_row(step, *(f"{column[step]:.0f}" if step in column else "" for column in columns))
    return table


def _costs_table(figures: Mapping[str, Any]) -> Table:
    table = Table(title="What each costs")
    for title in ("", "a Task, to its end", "its deletion", "a Pod of the Job, to its end"):
        table.add_column(title, justify="left" if not title else "right")
    iris, job = figures["iris"], figures["job"]
    for unit, columns in {
        "writes": (iris["apiWritesEach"], iris["apiWritesEachDeletion"], job["apiWritesEach"]),
        "CPU ms": (iris["cpuMsEach"], {}, job["cpuMsEach"]),
    }.items():
        for name in sorted({name for column in columns for name in column}):
            values = [column.get(name, 0) for column in columns]
            if max(values) >= _BACKGROUND:
                table.add_row(f"{name}, {unit}", *(f"{value:g}" if value else "" for value in values))
        table.add_section()
    return table
