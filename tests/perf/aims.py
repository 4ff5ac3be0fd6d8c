"""What the figures are to be, and whether they are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Aim:
    """One figure and its bound."""

    what: str
    value: float
    bound: float
    at_least: bool

    @property
    def met(self) -> bool:
        """Whether it is within its bound."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def words(self) -> str:
        """A line for a person."""
        word = "least" if self.at_least else "most"
        return f"{self.what}: {self.value:g}; at {word} {self.bound:g}: {'met' if self.met else 'not met'}"


def task_aims(figures: Mapping[str, Any]) -> list[Aim]:
    """Those of the part `tasks`."""
    iris, ratios = figures["iris"], figures["ratios"]
    alone, pod = iris["applyToRunningMs"]["alone"], figures["job"]["createToRunningMs"]["alone"]
    # The API server's count is all who write; the agent's and the operator's own are part of it
    writes = sum(value for name, value in iris["apiWritesEach"].items() if name.startswith("API server"))
    return [
        Aim("Tasks/s, over a Job's", ratios["throughputIrisOverJob"], 4, at_least=True),
        Aim("Tasks/s, over straight containerd's", ratios["throughputIrisOverContainerd"], 0.7, at_least=True),
        Aim("apply to running, p50, over a Pod's", round(alone["p50"] / pod["p50"], 2), 0.33, at_least=False),
        Aim("apply to running, p50, over a straight start", ratios["latencyIrisOverContainerd"], 3, at_least=False),
        Aim("apply to running, p99, ms", alone["p99"], 500, at_least=False),
        Aim("API writes each Task", round(writes, 2), 6, at_least=False),
        Aim(f"agent's memory with {figures['plan']['tasks']} Tasks, MiB", iris["agentMiB"], 80, at_least=False),
    ]


def as_documents(aims: list[Aim]) -> list[dict[str, Any]]:
    """For JSON."""
    return [{**asdict(one), "met": one.met} for one in aims]
