"""What was measured, and what it says: times of objects to rates, percentiles and a breakdown. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Life:
    """One object's stages: name of the stage -> when it was first seen, in seconds of the monotonic clock."""

    stages: dict[str, float] = field(default_factory=dict)
    outcome: str = ""

    def between(self, first: str, last: str) -> float | None:
        """Seconds from one stage to another; None when one of them was never seen."""
        if first not in self.stages or last not in self.stages:
            return None
        return self.stages[last] - self.stages[first]


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: always a value that was measured. ValueError of nothing."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))  # the ceiling
    return ordered[int(rank) - 1]


@dataclass
class Burst:
    """Many at once, of one round or of several."""

    rates: list[float] = field(default_factory=list)
    """Ended per second, from the first creation to the last end; one per round."""
    lives: list[Life] = field(default_factory=list)

    def add(self, lives: Sequence[Life]) -> None:
        """One more round. Every life has `created` and `ended`."""
        began = min(life.stages["created"] for life in lives)
        ended = max(life.stages["ended"] for life in lives)
        self.rates.append(len(lives) / (ended - began))
        self.lives += lives

    @property
    def rate(self) -> float:
        """The median round's."""
        return statistics.median(self.rates)

    def seconds(self, first: str, last: str) -> list[float]:
        """Of all lives that saw both stages."""
        return seconds(self.lives, first, last)


def seconds(lives: Sequence[Life], first: str, last: str) -> list[float]:
    """Seconds between two stages, of all lives that saw both."""
    found = (life.between(first, last) for life in lives)
    return [value for value in found if value is not None]


def latency(values: Sequence[float]) -> dict[str, float]:
    """p50 and p99 in milliseconds."""
    return {f"p{percent}": round(percentile(values, percent) * 1000, 1) for percent in (50, 99)}


def breakdown(lives: Sequence[Life], stages: Sequence[str]) -> dict[str, float]:
    """Median milliseconds of each step from a stage to the next."""
    steps = {}
    for first, last in itertools.pairwise(stages):
        values = seconds(lives, first, last)
        if values:
            steps[f"{first} to {last}"] = round(statistics.median(values) * 1000, 1)
    return steps
