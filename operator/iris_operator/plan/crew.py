"""One ScaleGroup and its slices, sorted out for one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from iris_operator.api.cluster import Autoscaler, IrisCluster
from iris_operator.api.quantity import Amounts, amounts
from iris_operator.api.scalegroup import Backoff, ScaleGroup
from iris_operator.plan.backoff import blocked, failures_of, launches_allowed, plan_backoff
from iris_operator.plan.group_capacity import NodeCapacity, group_capacity, learn
from iris_operator.plan.members import Member
from iris_operator.plan.settings import NoCluster

SCALE_DOWN, ROLL, EXPIRE, REPLACE = "ScaleDown", "Roll", "Expire", "Replace"


@dataclass(frozen=True, eq=False)
class Crew:
    """`up`: were Ready once, and stay. `in_flight`: on their way there. `stale`: in flight, but of an old template.

    `retiring`: cordoned by the group, to be deleted next. `failed`: last failed first. `busy`: names of slices with Tasks.
    `room`: slices that maxSlices still allows. `may_launch`: of them, those that may begin now.
    """

    group: ScaleGroup
    settings: IrisCluster | NoCluster
    now: datetime
    clock: float
    template: str
    members: tuple[Member, ...]
    up: tuple[Member, ...]
    in_flight: tuple[Member, ...]
    stale: tuple[Member, ...]
    retiring: tuple[Member, ...]
    failed: tuple[Member, ...]
    busy: frozenset[str]
    learned: Amounts
    capacity: NodeCapacity
    backoff: Backoff | None
    room: int
    may_launch: int

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
    members: Sequence[Member],
    busy: Mapping[str, int],
    now: datetime,
) -> Crew:
    """Sort a group's slices out. `busy`: slice name -> Tasks on it."""
    template = group.spec.template.spec.template_hash()
    clock = now.timestamp()
    up: list[Member] = []
    in_flight: list[Member] = []
    stale: list[Member] = []
    retiring: list[Member] = []
    failed: list[Member] = []
    billing = 0
    for one in members:
        billing += one.bills
        if one.failed:
            failed.append(one)
        elif one.in_flight:
            (in_flight if one.template in ("", template) else stale).append(one)
        elif one.up:
            (retiring if one.retiring else up).append(one)
    in_flight.sort(key=lambda one: one.progress)
    failed.sort(key=lambda one: (-one.failed_at, one.name))
    learned = _learned(group, template, members)
    autoscaler = Autoscaler() if isinstance(settings, NoCluster) else settings.spec.autoscaler
    # Only few slices fail or lose a node: looking at those alone keeps the pass short.
    suspects = [one for one in members if one.failed or one.lost_deadline is not None]
    failures = failures_of(suspects, template, autoscaler, clock)
    backoff = group.status.backoff
    if backoff is not None or failures:
        successes = [one for one in up if one.ready]
        backoff = plan_backoff(group, failures, successes, len(in_flight), autoscaler, now)
    room = max(0, group.spec.max_slices - billing)
    allowed = launches_allowed(backoff, len(in_flight), now)
    return Crew(
        group=group,
        settings=settings,
        now=now,
        clock=clock,
        template=template,
        members=tuple(members),
        up=tuple(up),
        in_flight=tuple(in_flight),
        stale=tuple(stale),
        retiring=tuple(retiring),
        failed=tuple(failed),
        busy=frozenset(one.name for one in members if one.name in busy),
        learned=learned,
        capacity=group_capacity(group, learned),
        backoff=backoff,
        room=room,
        may_launch=room if allowed is None else min(room, allowed),
    )


def _learned(group: ScaleGroup, template: str, members: Sequence[Member]) -> dict[str, int]:
    current = [one for one in members if one.capacities and one.template in ("", template)]
    known = group.status.node_resources
    # With a generation that we have not judged yet the template may be another. That it is shows on slices; without one
    # we forget, as what an old type offers could keep Tasks from the new one for ever.
    changed = group.status.observed_generation != group.metadata.generation
    old = any(one.template not in ("", template) for one in members)
    same = any(one.template in ("", template) for one in members)
    return learn(amounts(known), current, forget=changed and (old or not same))
