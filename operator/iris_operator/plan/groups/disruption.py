"""Which standing slices go, and how: cordoned first, deleted ten seconds later if still nobody needs them.

Idle ones beyond what is wanted, those of an old template, those past their lifetime, those that lost a node for good.
Never more at once than disruption.maxUnavailable, never a held one, never one with Tasks for mere scale-down.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from iris_operator.plan.actions import CordonSlice, DeleteSlice, UncordonSlice
from iris_operator.plan.groups.crew import EXPIRE, REPLACE, ROLL, SCALE_DOWN, Crew
from iris_operator.plan.groups.members import Member
from iris_operator.plan.text import duration

SETTLE_SECONDS = 10.0
"""Between cordon and deletion: more than the 8 s for which a replica that lost the Lease may still bind Tasks."""
_CLOCK_SLACK_SECONDS = 60.0


@dataclass(frozen=True)
class Wants:
    """`slices`: that should stand, waiting Tasks' needs and spares included. `idle`: of those, to be kept without Tasks.

    `in_flight`: slices on their way to keep; `promised`: names of slices that waiting Tasks were promised; `keep`: names
    of retiring ones that are wanted back.
    """

    slices: int
    idle: int
    in_flight: int
    promised: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()


@dataclass
class Disruption:
    """`reasons`: (action of the decision, reason, message) per slice that begins to go. `wake`: when to look again."""

    cordon: list[CordonSlice] = field(default_factory=list)
    uncordon: list[UncordonSlice] = field(default_factory=list)
    delete: list[DeleteSlice] = field(default_factory=list)
    reasons: list[tuple[str, str, str]] = field(default_factory=list)
    wake: list[float] = field(default_factory=list)
    lost: int = 0  # slices deleted because a node of theirs is lost for good


def plan_disruption(crew: Crew, wants: Wants) -> Disruption:
    """The slices that go, those that are kept after all, and those whose time has come."""
    plan = Disruption()
    _failed(crew, plan)
    _in_flight(crew, wants, plan)
    for one in crew.retiring:
        _second_step(crew, one, wants, plan)
    budget = max_unavailable(crew)
    chosen = _lost(crew, wants, budget, plan)
    chosen |= _expired(crew, wants, budget, chosen, plan)
    chosen |= _old(crew, wants, budget, chosen, plan)
    _idle(crew, wants, budget, chosen, plan)
    return plan


def max_unavailable(crew: Crew) -> int:
    """disruption.maxUnavailable in slices: a share is rounded down, but at least 1."""
    text = crew.group.spec.disruption.max_unavailable
    if not text.endswith("%"):
        return int(text)
    standing = len(crew.up) + len(crew.retiring) + len(crew.in_flight)
    return max(1, standing * int(text[:-1]) // 100)


def _failed(crew: Crew, plan: Disruption) -> None:
    for one in crew.roster.failed[crew.group.spec.failed_slices_history_limit :]:
        plan.delete.append(DeleteSlice(one.slice, "FailedHistory"))


def _in_flight(crew: Crew, wants: Wants, plan: Disruption) -> None:
    """Slices that are not Ready yet hold no Task: they go at once, when their template is old or nobody wants them."""
    for one in crew.roster.stale:
        if one.hold_until <= crew.clock:
            plan.delete.append(DeleteSlice(one.slice, ROLL))
            words = f"slice {one.name} is not Ready yet and of an old template"
            plan.reasons.append((ROLL, "TemplateChanged", words))
    spare = [one for one in crew.in_flight if one.name not in wants.promised]
    surplus = len(spare) - wants.in_flight
    settings = crew.autoscaler
    for one in reversed(spare):  # the one that is furthest from Ready first
        if surplus <= 0:
            return
        surplus -= 1
        launched = one.launched_at is not None
        grace = settings.startup_grace_period_seconds if launched else settings.scale_up_delay_seconds
        due = max((one.launched_at if one.launched_at is not None else one.created) + grace, one.hold_until)
        if due > crew.clock:
            plan.wake.append(due)
            continue
        name = "startupGracePeriodSeconds" if launched else "scaleUpDelaySeconds"
        words = f"slice {one.name} is not Ready yet, and nobody has wanted it since before {grace} s ({name})"
        plan.delete.append(DeleteSlice(one.slice, SCALE_DOWN))
        plan.reasons.append((SCALE_DOWN, "NotNeeded", words))


def _second_step(crew: Crew, one: Member, wants: Wants, plan: Disruption) -> None:
    """A slice that was cordoned in an earlier pass."""
    why = _keep_it(crew, one, wants)
    if why:
        plan.uncordon.append(UncordonSlice(one.slice, why))
        return
    since = one.retiring_since
    if since is None or since > crew.clock + _CLOCK_SLACK_SECONDS:  # a person's edit, or the clock was set back
        plan.cordon.append(CordonSlice(one.slice, one.retiring))
        plan.wake.append(crew.clock + SETTLE_SECONDS)
        return
    due = since + SETTLE_SECONDS
    if due > crew.clock:
        plan.wake.append(due)
        return
    if one.retiring != SCALE_DOWN and one.protected and one.name in crew.busy:
        return  # the API would refuse; it takes no new Tasks, so that it ends
    plan.delete.append(DeleteSlice(one.slice, one.retiring))
    plan.lost += one.retiring == REPLACE


def _keep_it(crew: Crew, one: Member, wants: Wants) -> str:
    """Why a retiring slice stays; empty when it goes."""
    if one.schedulable:
        return "Uncordoned"  # by a person
    if one.hold_until > crew.clock:
        return "Held"
    expired = one.expires_at is not None and one.expires_at <= crew.clock
    stays = {
        ROLL: (one.template in ("", crew.template), "TemplateRestored"),
        EXPIRE: (not expired, "LifetimeExtended"),
        REPLACE: (one.lost_at is None, "NodeCameBack"),
    }
    if one.retiring in stays:
        holds, why = stays[one.retiring]
        return why if holds else ""
    if one.name in crew.busy:
        return "GivenWork"
    return "Wanted" if one.name in wants.keep else ""


def _unavailable(crew: Crew, wants: Wants) -> int:
    """Slices that should stand and are not Ready: what is disrupted already, by us or not."""
    return max(0, wants.slices - crew.roster.sound)


def _choose(crew: Crew, plan: Disruption, one: Member, action: str, reason: str, words: str) -> None:
    plan.cordon.append(CordonSlice(one.slice, action))
    plan.wake.append(crew.clock + SETTLE_SECONDS)
    plan.reasons.append((action, reason, words))


def _lost(crew: Crew, wants: Wants, budget: int, plan: Disruption) -> set[str]:
    due: list[Member] = []
    for one in crew.roster.lost:
        if one.lost_deadline is None:
            continue
        when = max(one.lost_deadline, one.hold_until)
        if when > crew.clock:
            plan.wake.append(when)
        elif not (one.protected and one.name in crew.busy):
            due.append(one)
    allowed = budget - max(0, _unavailable(crew, wants) - len(crew.roster.lost))
    chosen = sorted(due, key=lambda one: (one.lost_deadline or 0, one.name))[: max(0, allowed)]
    for one in chosen:
        lost_for = duration(crew.clock - (one.lost_at or crew.clock))
        words = (
            f"slice {one.name} lost a node {lost_for} ago (repair.delaySeconds {one.slice.spec.repair.delay_seconds})"
        )
        _choose(crew, plan, one, REPLACE, "NodeLost", words)
    return {one.name for one in chosen}


def _expired(crew: Crew, wants: Wants, budget: int, taken: set[str], plan: Disruption) -> set[str]:
    due: list[Member] = []
    for one in crew.roster.mortal:
        assert one.expires_at is not None
        when = max(one.expires_at, one.hold_until)
        if when > crew.clock:
            plan.wake.append(when)
        elif _may_go(crew, one, taken):
            due.append(one)
    chosen = sorted(due, key=lambda one: (one.name in crew.busy, one.expires_at or 0, one.name))
    chosen = chosen[: max(0, budget - _unavailable(crew, wants) - len(taken))]
    for one in chosen:
        words = f"slice {one.name} is {one.slice.spec.max_lifetime_seconds} s past its first Ready (maxLifetimeSeconds)"
        _choose(crew, plan, one, EXPIRE, "MaxLifetime", words)
    return {one.name for one in chosen}


def _old(crew: Crew, wants: Wants, budget: int, taken: set[str], plan: Disruption) -> set[str]:
    due: list[Member] = []
    for one in crew.roster.old:
        if not _may_go(crew, one, taken):
            continue
        if one.hold_until > crew.clock:
            plan.wake.append(one.hold_until)
        else:
            due.append(one)
    # While nothing can be launched, an old slice is worth more than none.
    allowed = 0 if crew.blocked else budget - _unavailable(crew, wants) - len(taken)
    chosen = sorted(due, key=lambda one: (one.name in crew.busy, one.idle_since or crew.clock, one.name))
    chosen = chosen[: max(0, allowed)]
    for one in chosen:
        state = "with Tasks, which move" if one.name in crew.busy else "idle"
        words = f"slice {one.name} ({state}) is of an old template; {len(due)} are, {budget} at once (maxUnavailable)"
        _choose(crew, plan, one, ROLL, "TemplateChanged", words)
    return {one.name for one in chosen}


def _may_go(crew: Crew, one: Member, taken: set[str]) -> bool:
    return one.name not in taken and not (one.protected and one.name in crew.busy)


def _idle(crew: Crew, wants: Wants, budget: int, taken: set[str], plan: Disruption) -> None:
    """The longest idle first. A slice that doesn't say since when was given work, or ended it, a moment ago."""
    idle = len(crew.up) - crew.busy_up - len(taken - crew.busy)
    surplus = idle - wants.idle
    delay = crew.autoscaler.scale_down_delay_seconds
    leaving = sum(one.retiring == SCALE_DOWN for one in crew.retiring)
    pace = max(1, budget) - leaving
    for one in crew.roster.idle_known:
        if surplus <= 0 or pace <= 0:
            return
        if one.name in crew.busy or one.name in taken:
            continue
        since = one.idle_since or 0.0
        if since + delay > crew.clock:
            plan.wake.append(since + delay)
            return  # all others are idle for less long
        if one.hold_until > crew.clock:
            plan.wake.append(one.hold_until)
            continue
        surplus -= 1
        pace -= 1
        words = (
            f"slice {one.name} idle for {duration(crew.clock - since)} (scaleDownDelaySeconds {delay}); "
            f"{idle} idle, {wants.idle} kept"
        )
        _choose(crew, plan, one, SCALE_DOWN, "Idle", words)
