"""What a simulation comes to: bill, waits, waste, failures, decisions, the course of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.simulation.recorder import BOOTING, BUSY, IDLE, LEAVING, STATES, Decided, Point, Recorder

_HOUR = 3600.0


@dataclass(frozen=True)
class GroupBill:
    """One group's node-hours by state, and what they cost at its costPerNodeHour (0: not said)."""

    group: str
    busy: float
    idle: float
    booting: float
    leaving: float
    slices_made: int
    cost: float

    @property
    def total(self) -> float:
        """All node-hours."""
        return self.busy + self.idle + self.booting + self.leaving


@dataclass(frozen=True)
class Waits:
    """Seconds from submission to the start of the first attempt, of the Tasks that started."""

    p50: float
    p95: float
    worst: float


@dataclass(frozen=True)
class Stuck:
    """Tasks that never started, or had not ended, for one reason."""

    count: int
    reason: str
    message: str
    example: str


@dataclass(frozen=True)
class Result:
    """All of it; times in seconds, bills in node-hours."""

    seconds: float
    tasks: int
    ended: int
    retried: int
    bills: tuple[GroupBill, ...]
    waits: Waits | None
    failures: tuple[tuple[str, str, int], ...]
    stuck: tuple[Stuck, ...]
    decisions: tuple[Decided, ...]
    points: tuple[Point, ...]
    crashes: int = 0

    def data(self, decisions: int) -> dict[str, Any]:
        """For programs; the last so many decisions."""
        return {
            "simulatedSeconds": round(self.seconds, 1),
            "tasks": {"submitted": self.tasks, "ended": self.ended, "attemptsLost": self.retried},
            "bill": [_bill_data(one) for one in self.bills],
            "nodeHours": round(sum(one.total for one in self.bills), 2),
            "cost": round(sum(one.cost for one in self.bills), 2),
            "waitSeconds": None
            if self.waits is None
            else {"p50": self.waits.p50, "p95": self.waits.p95, "worst": self.waits.worst},
            "failures": [{"group": group, "kind": kind, "count": number} for group, kind, number in self.failures],
            "unfinished": [
                {"count": one.count, "reason": one.reason, "message": one.message, "example": one.example}
                for one in self.stuck
            ],
            "decisions": [
                {"at": one.at, "group": one.group, "action": one.action, "reason": one.reason, "message": one.message}
                for one in (self.decisions[-decisions:] if decisions else ())
            ],
        }


def conclude(recorder: Recorder, groups: Sequence[ScaleGroup], crashes: int = 0) -> Result:
    """The result as it stands now; closes the recorder."""
    recorder.close()
    lives = list(recorder.lives.values())
    waited = sorted(life.started - life.submitted for life in lives if life.started is not None)
    return Result(
        seconds=recorder.world.agenda.seconds,
        tasks=len(lives),
        ended=sum(life.finished is not None for life in lives),
        retried=recorder.lost_attempts,
        bills=tuple(_bill(recorder, group) for group in groups),
        waits=Waits(share(waited, 0.5), share(waited, 0.95), round(waited[-1], 1)) if waited else None,
        failures=tuple((group, kind, number) for (group, kind), number in sorted(recorder.failures.items())),
        stuck=_stuck(recorder),
        decisions=tuple(recorder.decisions),
        points=tuple(recorder.points),
        crashes=crashes,
    )


def share(ordered: Sequence[float], part: float) -> float:
    """The value that `part` of the sorted values don't exceed (nearest rank)."""
    return round(ordered[max(0, math.ceil(part * len(ordered)) - 1)], 1)


def sampled(points: Sequence[Point], until: float, number: int) -> list[Point]:
    """So many points at even distances, each what held then."""
    found: list[Point] = []
    index = 0
    nothing = Point(0.0, dict.fromkeys(STATES, 0), 0, 0)
    for step in range(number):
        at = until * step / max(1, number - 1)
        while index < len(points) and points[index].at <= at:
            index += 1
        held = points[index - 1] if index else nothing
        found.append(Point(at, held.nodes, held.waiting, held.running))
    return found


def _bill(recorder: Recorder, group: ScaleGroup) -> GroupBill:
    name = group.metadata.name
    hours = {state: seconds / _HOUR for state, seconds in recorder.node_seconds[name].items()}
    return GroupBill(
        group=name,
        busy=hours.get(BUSY, 0.0),
        idle=hours.get(IDLE, 0.0),
        booting=hours.get(BOOTING, 0.0),
        leaving=hours.get(LEAVING, 0.0),
        slices_made=recorder.pools_made[name],
        cost=sum(hours.values()) * group.spec.cost_per_node_hour,
    )


def _bill_data(one: GroupBill) -> dict[str, Any]:
    hours = {state: round(getattr(one, state), 2) for state in STATES}
    return {
        "group": one.group,
        "nodeHours": round(one.total, 2),
        **hours,
        "slicesMade": one.slices_made,
        "cost": round(one.cost, 2),
    }


def _stuck(recorder: Recorder) -> tuple[Stuck, ...]:
    grouped: dict[tuple[str, str], list[str]] = {}
    for one in recorder.world.fleet.waiting:
        if recorder.lives[one.task.metadata.uid].finished is None:
            grouped.setdefault((one.reason, one.message), []).append(one.task.metadata.name)
    return tuple(
        Stuck(len(names), reason, message, sorted(names)[0]) for (reason, message), names in sorted(grouped.items())
    )
