"""Watches a simulation and keeps what a person wants to know of it: node-seconds by state, waits, decisions."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from iris_operator.api.base import Resource
from iris_operator.api.names import ANNOTATION_SLICE, LABEL_SCALE_GROUP
from iris_operator.api.nodepool import NodePool
from iris_operator.api.slice import Slice, SlicePhase
from iris_operator.api.task import Task
from iris_operator.plan.groups.fleet import GroupPlan
from iris_operator.simulation.agents import Run
from iris_operator.simulation.world import World

BOOTING, IDLE, BUSY, LEAVING = "booting", "idle", "busy", "leaving"
STATES = (BUSY, IDLE, BOOTING, LEAVING)
_COMING = (None, SlicePhase.PENDING, SlicePhase.BOOTING, SlicePhase.INITIALIZING)
_GOING = (SlicePhase.FAILED, SlicePhase.DELETING)


@dataclass(frozen=True)
class Decided:
    """One decision of a group, `at` seconds since the start."""

    at: float
    group: str
    action: str
    reason: str
    message: str


@dataclass
class Life:
    """One Task, in seconds since the start. None: it did not come to that."""

    submitted: float
    group: str = ""
    started: float | None = None
    finished: float | None = None
    attempts: int = 0


@dataclass
class _Meter:
    group: str
    state: str
    nodes: int
    since: float


@dataclass(frozen=True)
class Point:
    """From `at` on: nodes by state, Tasks that wait, Tasks that run."""

    at: float
    nodes: dict[str, int]
    waiting: int
    running: int


@dataclass
class Recorder:
    """Put one on a world before anything happens there."""

    world: World
    node_seconds: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    lives: dict[str, Life] = field(default_factory=dict)
    decisions: list[Decided] = field(default_factory=list)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    pools_made: Counter[str] = field(default_factory=Counter)
    points: list[Point] = field(default_factory=list)
    lost_attempts: int = 0
    _meters: dict[str, _Meter] = field(default_factory=dict)
    _nodes: Counter[str] = field(default_factory=Counter)
    _busy: Counter[str] = field(default_factory=Counter)  # runs by node
    _waiting: set[str] = field(default_factory=set)
    _running: int = 0
    _decided: dict[str, tuple[object, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.store.watch(self._told)
        self.world.agents.on_start.append(self._started)
        self.world.agents.on_finish.append(self._finished)
        self.world.on_plan.append(self._planned)
        self.world.machines.listeners.append(lambda machine: self._measure(machine.pool_name))

    def close(self) -> None:
        """Count what stands until now."""
        for name in list(self._meters):
            self._measure(name, force=True)
        self._point()

    @property
    def running(self) -> int:
        """Attempts that run now."""
        return self._running

    @property
    def unfinished(self) -> int:
        """Tasks that have not ended."""
        return sum(life.finished is None for life in self.lives.values())

    def _told(self, before: Resource | None, after: Resource | None) -> None:
        found = after or before
        if isinstance(found, NodePool):
            if before is None:
                self.pools_made[found.metadata.labels.get(LABEL_SCALE_GROUP, "")] += 1
            self._measure(found.metadata.name)
        elif isinstance(found, Slice):
            self._slice(before if isinstance(before, Slice) else None, found)
        elif isinstance(found, Task):
            self._task(before, found, gone=after is None)

    def _slice(self, before: Slice | None, found: Slice) -> None:
        was = before.status.phase if before is not None else None
        if found.status.phase is SlicePhase.FAILED and was is not SlicePhase.FAILED:
            kind = str(found.status.failure or _ready_reason(found))
            self.failures[found.spec.scale_group_name, kind] += 1
        if was is not found.status.phase and found.status.node_pool_name:
            self._measure(found.status.node_pool_name)

    def _task(self, before: Resource | None, found: Task, *, gone: bool) -> None:
        uid = found.metadata.uid
        ended = gone or found.ended
        if before is None:
            self.lives[uid] = Life(self.world.agenda.seconds, found.spec.placement.scale_group_name)
            self._waiting.add(uid)
            self._point()
        elif ended and self.lives[uid].finished is None:
            self.lives[uid].finished = self.world.agenda.seconds
            self._waiting.discard(uid)
            self._point()

    def _started(self, run: Run) -> None:
        life = self.lives[run.uid]
        life.started = run.started if life.started is None else life.started
        life.attempts += 1
        self._waiting.discard(run.uid)
        self._running += 1
        self._busy[run.node] += 1
        self._measure(self.world.machines.by_name[run.node].pool_name)

    def _finished(self, run: Run) -> None:
        self._running -= 1
        self._busy[run.node] -= 1
        if run.cause and run.cause != "TaskDeleted":
            self.lost_attempts += 1
            self._waiting.add(run.uid)
        self._measure(self.world.machines.by_name[run.node].pool_name)

    def _planned(self, plan: GroupPlan) -> None:
        group = plan.group.metadata.name
        known = self._decided.get(group, ())
        new = [one for one in plan.status.decisions if (one.time, one.action, one.reason, one.message) not in known]
        for one in reversed(new):
            at = self.world.agenda.seconds
            self.decisions.append(Decided(at, group, one.action, one.reason, one.message))
        self._decided[group] = tuple((one.time, one.action, one.reason, one.message) for one in plan.status.decisions)

    def _measure(self, pool_name: str, *, force: bool = False) -> None:
        """Count the NodePool's machines until now as what they were, and note what they are."""
        pool = self.world.store.get(NodePool, f"/{pool_name}")
        meter = self._meters.get(pool_name)
        state, nodes = self._state(pool) if pool is not None else (LEAVING, 0)
        if meter is not None and not force and (meter.state, meter.nodes) == (state, nodes):
            return
        now = self.world.agenda.seconds
        if meter is not None:
            self.node_seconds[meter.group][meter.state] += meter.nodes * (now - meter.since)  # type: ignore[assignment]
            self._nodes[meter.state] -= meter.nodes
        if pool is None:
            self._meters.pop(pool_name, None)
        else:
            group = pool.metadata.labels.get(LABEL_SCALE_GROUP, "")
            self._meters[pool_name] = _Meter(group, state, nodes, now)
            self._nodes[state] += nodes
        self._point()

    def _state(self, pool: NodePool) -> tuple[str, int]:
        machines = self.world.vendor.standing(pool)
        owner = self.world.store.get(Slice, pool.metadata.annotations.get(ANNOTATION_SLICE, ""))
        busy = any(self._busy[one.name] > 0 for one in machines)
        if pool.deleting or owner is None or owner.deleting or owner.status.phase in _GOING:
            return LEAVING, len(machines)
        if owner.status.phase in _COMING:
            return BOOTING, len(machines)
        return (BUSY if busy else IDLE), len(machines)

    def _point(self) -> None:
        point = Point(
            self.world.agenda.seconds,
            {state: self._nodes[state] for state in STATES},
            len(self._waiting),
            self._running,
        )
        if self.points and self.points[-1].at == point.at:
            self.points[-1] = point
        else:
            self.points.append(point)


def _ready_reason(found: Slice) -> str:
    return next((one.reason for one in found.status.conditions if one.type == "Ready"), "Failed")
