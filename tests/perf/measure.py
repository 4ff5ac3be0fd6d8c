"""The measurement: all three paths on one node, in turns, so that a noisy minute hits them alike."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

from iris_devcluster.progress import Progress
from tests.perf import containerd_load, iris_load, job_load
from tests.perf.stats import Burst, Life, percentile, seconds
from tests.perf.target import Target
from tests.perf.usage import Spent, Usage, read_usage, spent

_SETTLE_SECONDS = 1.0  # late status writes belong to the load


@dataclass(frozen=True)
class Plan:
    """How much of each. `parallelism`: the Job's, which the kubelet's 110 Pods bound."""

    tasks: int
    pods: int
    single: int
    rounds: int
    parallelism: int


@dataclass
class Measured:
    """All rounds together."""

    iris: Burst = field(default_factory=Burst)
    iris_single: list[Life] = field(default_factory=list)
    iris_deleted_seconds: list[float] = field(default_factory=list)
    job: Burst = field(default_factory=Burst)
    job_running_seconds: list[float] = field(default_factory=list)
    """From the Job's creation to each of its Pods running."""
    pod_single: list[Life] = field(default_factory=list)
    containerd_rates: list[float] = field(default_factory=list)
    containerd_single: list[dict[str, float]] = field(default_factory=list)
    iris_spent: list[Spent] = field(default_factory=list)
    iris_delete_spent: list[Spent] = field(default_factory=list)
    job_spent: list[Spent] = field(default_factory=list)
    agent_mib: list[float] = field(default_factory=list)
    """The agent's memory when a burst had ended and none of it was deleted."""
    after: Usage | None = None
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])

    @property
    def containerd_rate(self) -> float:
        """The median round's, sandboxes per second."""
        return statistics.median(self.containerd_rates)

    def containerd_start_seconds(self) -> list[float]:
        """Start calls, one at a time."""
        return [one["start"] for one in self.containerd_single]


class _Reading:
    """What a burst costs from here to when `read` is called."""

    def __init__(self, target: Target, before: Usage) -> None:
        self._target, self._before = target, before
        self.after = before

    async def read(self) -> None:
        await asyncio.sleep(_SETTLE_SECONDS)
        self.after = await read_usage(self._target)

    @property
    def spent(self) -> Spent:
        return spent(self._before, self.after)


async def measure(target: Target, plan: Plan, progress: Progress) -> Measured:
    """Raises Unmeasured, or an ApiError."""
    found = Measured()
    run = f"bench-{int(time.time())}"
    with progress.step("warming up: the image on the node, by each path"):
        await iris_load.one_by_one(target, f"{run}-warm-task", 2, lambda _: None)
        await job_load.one_by_one(target, f"{run}-warm-pod", 1, lambda _: None)
    for number in range(1, plan.rounds + 1):
        of = f" (round {number} of {plan.rounds})" if plan.rounds > 1 else ""
        await _iris(target, plan, f"{run}-{number}", of, found, progress)
        await _job(target, plan, f"{run}-{number}", of, found, progress)
        await _containerd(target, plan, of, found, progress)
    found.after = await read_usage(target)
    return found


async def _iris(target: Target, plan: Plan, run: str, of: str, found: Measured, progress: Progress) -> None:
    with progress.step(f"Iris: {plan.tasks} Tasks at once{of}") as step:
        reading = _Reading(target, await read_usage(target))
        lives, deleting = await iris_load.burst(target, f"{run}-tasks", plan.tasks, step.update, reading.read)
        found.iris_deleted_seconds.append(deleting)
        found.iris_spent.append(reading.spent)
        found.agent_mib.append(max(value for name, value in reading.after.rss_mib.items() if "agent" in name))
        found.iris_delete_spent.append(spent(reading.after, await read_usage(target)))
        found.iris.add(lives)
        step.note = f"{found.iris.rates[-1]:.1f} Tasks/s"
    with progress.step(f"Iris: {plan.single} Tasks one at a time{of}") as step:
        found.iris_single += await iris_load.one_by_one(target, f"{run}-task", plan.single, step.update)
        step.note = _p50(seconds(found.iris_single, "created", "running"))


async def _job(target: Target, plan: Plan, run: str, of: str, found: Measured, progress: Progress) -> None:
    with progress.step(f"Kubernetes: a Job of {plan.pods} Pods{of}") as step:
        reading = _Reading(target, await read_usage(target))
        name = f"{run}-job"
        lives, began = await job_load.burst(target, name, plan.pods, plan.parallelism, step.update, reading.read)
        found.job_spent.append(reading.spent)
        ended = max(life.stages["ended"] for life in lives)
        found.job.lives += lives
        found.job.rates.append(len(lives) / (ended - began))
        found.job_running_seconds += [life.stages["running"] - began for life in lives]
        step.note = f"{found.job.rates[-1]:.1f} Pods/s"
    with progress.step(f"Kubernetes: {plan.single} Pods one at a time{of}") as step:
        found.pod_single += await job_load.one_by_one(target, f"{run}-pod", plan.single, step.update)
        step.note = _p50(seconds(found.pod_single, "created", "running"))


async def _containerd(target: Target, plan: Plan, of: str, found: Measured, progress: Progress) -> None:
    with progress.step(f"containerd: {plan.single} sandboxes, then {plan.tasks}, 8 at once{of}") as step:
        # Nothing else runs on this loop meanwhile.
        answer: dict[str, Any] = dict(containerd_load.measure(target, plan.single, plan.tasks))
        found.containerd_rates.append(answer["rate"])
        found.containerd_single += answer["single"]
        step.note = f"{answer['rate']:.1f} sandboxes/s"


def _p50(values: list[float]) -> str:
    return f"running after {percentile(values, 50) * 1000:.0f} ms (p50)"
