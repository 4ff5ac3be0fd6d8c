"""One ScaleGroup and its slices, sorted out for one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from iris_operator.api.cluster import Autoscaler, IrisCluster, Worker
from iris_operator.api.quantity import Amounts, amounts
from iris_operator.api.scalegroup import Backoff, ScaleGroup
from iris_operator.plan.groups.backoff import blocked, failures_of, launches_allowed, plan_backoff
from iris_operator.plan.groups.capacity import NodeCapacity, group_capacity, learn
from iris_operator.plan.groups.members import Member
from iris_operator.plan.groups.roster import Roster
from iris_operator.plan.settings import NoCluster

SCALE_DOWN, ROLL, EXPIRE, REPLACE = "ScaleDown", "Roll", "Expire", "Replace"


@dataclass(frozen=True, eq=False)
class Crew:
    """`busy`: names of slices with Tasks. `room`: slices that maxSlices still allows. `may_launch`: of them, those that may
    begin now. `up`, `in_flight` ...: as in Roster."""

    group: ScaleGroup
    settings: IrisCluster | NoCluster
    now: datetime
    clock: float
    template: str
    roster: Roster
    busy: frozenset[str]
    learned: Amounts
    capacity: NodeCapacity
    backoff: Backoff | None
    room: int
    may_launch: int

    @property
    def members(self) -> tuple[Member, ...]:
        """All of the group."""
        return self.roster.members

    @property
    def up(self) -> tuple[Member, ...]:
        """Were Ready once, and stay."""
        return self.roster.up

    @property
    def in_flight(self) -> tuple[Member, ...]:
        """On their way to Ready."""
        return self.roster.in_flight

    @property
    def retiring(self) -> tuple[Member, ...]:
        """Cordoned, to be deleted next."""
        return self.roster.retiring

    @property
    def busy_up(self) -> int:
        """How many of those up have Tasks."""
        return len(self.busy & self.roster.up_names)

    @property
    def name(self) -> str:
        """The group's."""
        return self.group.metadata.name

    @property
    def cluster(self) -> str:
        """Name of the IrisCluster that applies; empty when none does."""
        return "" if isinstance(self.settings, NoCluster) else self.settings.metadata.name

    @property
    def autoscaler(self) -> Autoscaler:
        """The settings that apply; the defaults when none do (then nothing is made either)."""
        return Autoscaler() if isinstance(self.settings, NoCluster) else self.settings.spec.autoscaler

    @property
    def active(self) -> bool:
        """Whether it may make and give back slices at all."""
        return not (self.group.deleting or isinstance(self.settings, NoCluster) or self.settings.deleting)

    @property
    def blocked(self) -> bool:
        """Whether failures hold back all launches now."""
        return blocked(self.backoff, self.now)


def muster(
    group: ScaleGroup,
    settings: IrisCluster | NoCluster,
    template: str,
    roster: Roster,
    busy: Mapping[str, int],
    now: datetime,
) -> Crew:
    """`template`: hash of the group's. `busy`: slice name -> Tasks on it."""
    clock = now.timestamp()
    learned = _learned(group, roster)
    autoscaler = Autoscaler() if isinstance(settings, NoCluster) else settings.spec.autoscaler
    worker = Worker() if isinstance(settings, NoCluster) else settings.spec.worker
    in_flight = len(roster.in_flight)
    failures = failures_of(roster.suspects, template, autoscaler, clock)
    backoff = group.status.backoff
    if backoff is not None or failures:
        successes = [one for one in roster.up if one.ready]
        backoff = plan_backoff(group, failures, successes, in_flight, autoscaler, now)
    room = max(0, group.spec.max_slices - roster.billing)
    allowed = launches_allowed(backoff, in_flight, now)
    return Crew(
        group=group,
        settings=settings,
        now=now,
        clock=clock,
        template=template,
        roster=roster,
        busy=roster.names & busy.keys(),
        learned=learned,
        capacity=group_capacity(group, learned, worker.max_tasks),
        backoff=backoff,
        room=room,
        may_launch=room if allowed is None else min(room, allowed),
    )


def _learned(group: ScaleGroup, roster: Roster) -> dict[str, int]:
    # With a generation that we have not judged yet the template may be another. That it is shows on slices; without one
    # we forget, as what an old type offers could keep Tasks from the new one for ever.
    changed = group.status.observed_generation != group.metadata.generation
    forget = changed and (roster.mixed or not roster.same)
    return learn(amounts(group.status.node_resources), roster.kinds, forget=forget)
