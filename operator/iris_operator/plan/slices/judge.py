"""Which phase a Slice is in, why, and when that may change by time alone: booting, initializing, Ready, lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from iris_operator.api.cluster import IrisClusterSpec
from iris_operator.api.slice import Availability, FailureKind, SlicePhase, SliceStatus
from iris_operator.plan.conditions import find_condition, is_true
from iris_operator.plan.slices.boot_text import elapsed, next_step, usual_boot
from iris_operator.plan.slices.node_pool_state import PoolState, told_by_events
from iris_operator.plan.slices.nodes import NodeReport, waiting_text
from iris_operator.plan.slices.plan import AGENTS_READY, NODE_POOL_ACCEPTED, NODES_FIT, NODES_READY, Verdict
from iris_operator.plan.slices.snapshot import SliceView
from iris_operator.plan.text import clock, count

_TAKES = {
    Availability.SCHEDULABLE: "",
    Availability.CORDONED: "; cordoned: takes no new Task",
    Availability.DRAINED: "; drained: takes no Task",
}


@dataclass(frozen=True)
class Facts:
    """What a verdict is given on. `status` has this pass's nodes and conditions already."""

    view: SliceView
    settings: IrisClusterSpec
    status: SliceStatus
    pool: PoolState
    reports: Sequence[NodeReport]
    now: datetime

    @property
    def waiting(self) -> str:
        """What each node waits for, one line."""
        return waiting_text(one.status.message for one in self.reports)

    def since(self, kind: str, status: str) -> datetime | None:
        """Since when a condition has this status; None when it hasn't."""
        found = find_condition(self.status.conditions, kind)
        return found.last_transition_time if found is not None and found.status == status else None


def judge(facts: Facts) -> Verdict:
    """The phase."""
    if is_true(facts.status.conditions, AGENTS_READY):
        message = f"{count(len(facts.reports), 'agent')} registered{_TAKES[facts.view.slice.spec.availability]}"
        return Verdict(SlicePhase.READY, "AgentsReady", message)
    if facts.view.external:
        return _judge_machines(facts)
    if facts.view.slice.status.ready_since is not None:
        return _judge_lost(facts)
    if facts.pool.rejected:
        return Verdict(SlicePhase.FAILED, facts.pool.reason, facts.pool.message, failure=facts.pool.failure)
    if facts.since(NODES_READY, "True") is not None:
        return _judge_init(facts)
    return _judge_launch(facts) or _judge_fitness(facts) or _judge_boot(facts)


def _judge_machines(facts: Facts) -> Verdict:
    """Nobody boots them, and nobody has others in their place: it waits for as long as it takes."""
    reason = next((one.reason for one in facts.reports if one.reason), "WaitingForMachines")
    up = facts.view.slice.status.ready_since is not None
    return Verdict(SlicePhase.DEGRADED if up else SlicePhase.INITIALIZING, reason, facts.waiting)


def _judge_lost(facts: Facts) -> Verdict:
    """It was Ready. A group replaces its slices itself, so many at once as it may; one made by hand decides alone."""
    reason = next((one.reason for one in facts.reports if one.reason), "NodeLost")
    repair = facts.view.slice.spec.repair
    losses = [one.status.lost_since for one in facts.reports if one.status.lost_since is not None]
    if facts.view.grouped or repair.policy != "Replace" or not losses:
        return Verdict(SlicePhase.DEGRADED, reason, facts.waiting)
    end = min(losses) + timedelta(seconds=repair.delay_seconds)
    if facts.now < end:
        message = f"{facts.waiting}; fails at {clock(end)} (repair.delaySeconds)"
        return Verdict(SlicePhase.DEGRADED, reason, message, end)
    message = f"lost for {repair.delay_seconds}s (repair.delaySeconds): {facts.waiting}"
    return Verdict(SlicePhase.FAILED, "NodeLost", message, failure=FailureKind.NODE_LOST)


def _judge_init(facts: Facts) -> Verdict:
    limit = facts.settings.timeouts.init_seconds
    end = (facts.since(NODES_READY, "True") or facts.now) + timedelta(seconds=limit)
    if facts.now >= end:
        message = f"no agent on every node after {limit}s (initSeconds): {facts.waiting}"
        return Verdict(SlicePhase.FAILED, "InitTimeout", message, failure=FailureKind.SLOW)
    message = f"{facts.waiting}; fails at {clock(end)} (initSeconds)"
    return Verdict(SlicePhase.INITIALIZING, "WaitingForAgents", message, end)


def _judge_launch(facts: Facts) -> Verdict | None:
    """The vendor won't boot (all of) it now, or its NodePool isn't there yet; None: it boots."""
    since, failure = facts.since(NODE_POOL_ACCEPTED, "False"), facts.pool.failure
    launched = facts.view.node_pool is not None
    if since is None or failure is None:
        return None if launched else Verdict(SlicePhase.PENDING, facts.pool.reason, facts.pool.message)
    if launched and not facts.view.grouped:
        return None  # by hand: it may wait for its boot limit
    grace = facts.settings.autoscaler.launch_grace_seconds
    limit, setting = (grace, "launchGraceSeconds") if facts.view.grouped else (_boot_limit(facts), "bootSeconds")
    end = since + timedelta(seconds=limit)
    if launched and end >= _boot_end(facts):
        return None
    where = f"{_nodes(facts)}; {facts.pool.message}" if launched else facts.pool.message
    if facts.now >= end:
        message = f"{where}: for {limit}s ({setting})"
        return Verdict(SlicePhase.FAILED, facts.pool.reason, message, failure=failure)
    phase = SlicePhase.BOOTING if launched else SlicePhase.PENDING
    return Verdict(phase, facts.pool.reason, f"{where}; fails at {clock(end)} ({setting})", end)


def _judge_fitness(facts: Facts) -> Verdict | None:
    """A node came without what was ordered: its devices may yet register, but not for ever."""
    seen = facts.since(NODES_FIT, "False")
    unfit = [one for one in facts.reports if one.unfit]
    if seen is None or not unfit:
        return None
    limit = facts.settings.timeouts.fit_seconds
    # From when it was Ready, and seen without: what went missing later (a plugin restarts) has its time as well.
    end = min(max(seen, one.unfit_since or seen) for one in unfit) + timedelta(seconds=limit)
    what = waiting_text(one.status.message for one in unfit)
    if facts.now >= end:
        message = f"{what}: for {limit}s (fitSeconds)"
        return Verdict(SlicePhase.FAILED, "NodeUnfit", message, failure=FailureKind.NODE_UNFIT)
    if end >= _boot_end(facts):
        return None
    return Verdict(SlicePhase.BOOTING, "NodeUnfit", f"{_nodes(facts)}; {what}; fails at {clock(end)} (fitSeconds)", end)


def _judge_boot(facts: Facts) -> Verdict:
    launched, end, pool = _launched(facts), _boot_end(facts), facts.pool
    held_up = pool.accepted != "True"
    where = _nodes(facts) + (f"; {pool.message}" if held_up or len(facts.reports) > 1 else "")
    if facts.now >= end:
        unfit = FailureKind.NODE_UNFIT if any(one.unfit for one in facts.reports) else None
        failure = pool.failure or unfit or told_by_events(facts.view.pool_events) or FailureKind.SLOW
        told = f"; Events: {', '.join(facts.view.pool_events)}" if facts.view.pool_events else ""
        message = f"{where} after {_boot_limit(facts)}s (bootSeconds): {facts.waiting}{told}"
        return Verdict(SlicePhase.FAILED, "BootTimeout", message, failure=failure)
    reason = pool.reason if pool.accepted == "False" else "WaitingForNodes"
    took = f"{elapsed(launched, facts.now)}; {usual_boot(facts.view.boots)}"
    message = f"{where}; {took}; fails at {clock(end)} (bootSeconds)"
    return Verdict(SlicePhase.BOOTING, reason, message, min(end, next_step(launched, facts.now)))


def _nodes(facts: Facts) -> str:
    fit = sum(one.node_fit for one in facts.reports)
    return f"{fit} of {count(len(facts.reports), 'node')} Ready"


def _boot_limit(facts: Facts) -> int:
    return facts.settings.timeouts.boot_seconds


def _launched(facts: Facts) -> datetime:
    return facts.status.launched_at or facts.now


def _boot_end(facts: Facts) -> datetime:
    return _launched(facts) + timedelta(seconds=_boot_limit(facts))
