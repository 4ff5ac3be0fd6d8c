"""What a ScaleGroup's status says: counts, conditions, the last decisions. Nothing in it changes by time alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from iris_operator.api.base import Condition
from iris_operator.api.quantity import to_quantities
from iris_operator.api.scalegroup import Decision, ScaleGroup, ScaleGroupStatus
from iris_operator.plan.conditions import set_condition, status_of
from iris_operator.plan.groups.boots import recent_boots
from iris_operator.plan.groups.crew import Crew
from iris_operator.plan.groups.growth import Making
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.text import clock, count, names_text

_DECISIONS = 10

Reason = tuple[str, str, str]
"""Action, reason, message."""


def group_status(crew: Crew, making: Making, going: int, decisions: Sequence[Reason], lost: int) -> ScaleGroupStatus:
    """The whole status. `going`: slices that begin to go in this pass; `lost`: those deleted for a node lost for good."""
    group, before = crew.group, crew.group.status
    spot = group.spec.template.spec.compute_class == "spot"
    made = [
        Decision(time=crew.now.replace(microsecond=0), action=action, reason=reason, message=message)
        for action, reason, message in decisions
    ]
    return ScaleGroupStatus(
        observed_generation=group.metadata.generation,
        conditions=_conditions(crew, making),
        slices=len(crew.members),
        ready=crew.roster.ready,
        booting=len(crew.in_flight) + len(crew.roster.stale),
        failed=len(crew.roster.failed),
        bounds=f"{group.spec.min_slices}-{group.spec.max_slices}",
        message=_message(crew, making, going),
        idle=_idle(crew),
        demand=making.demand,
        node_resources=to_quantities(crew.learned),
        recent_boots=recent_boots(before.recent_boots, crew.members),
        decisions=[*reversed(made), *before.decisions][:_DECISIONS],
        backoff=crew.backoff,
        blocked_until=crew.backoff.until if crew.backoff is not None and crew.blocked else None,
        losses=before.losses + (0 if spot else lost),
        spot_losses=before.spot_losses + (lost if spot else 0),
    )


def backoff_decision(crew: Crew) -> list[Reason]:
    """Block when a failure began a new wait, Unblock when launches are free again."""
    before, after = crew.group.status.backoff, crew.backoff
    if after is None:
        return [] if before is None else [("Unblock", "Recovered", "nothing failed since: launches are free again")]
    if before is None or (before.until, before.reason) != (after.until, after.reason):
        return [("Block", str(after.reason), after.message)]
    return []


def held_back(crew: Crew) -> str:
    """Why the group can't make a slice now; empty when it can."""
    backoff = crew.backoff
    if backoff is not None and crew.blocked:
        until = f"blocked until {clock(backoff.until)}" if backoff.until else "blocked until its template changes"
        return f"{until}: {backoff.reason}: {_first_words(backoff.message)}"
    if not crew.room:
        return at_max(crew)
    if backoff is not None and crew.may_launch < crew.room:
        return f"launching {backoff.allowed_launches} at a time after {backoff.reason}"
    return ""


def at_max(crew: Crew) -> str:
    """`at maxSlices 4`."""
    return f"at maxSlices {crew.group.spec.max_slices}"


def _first_words(message: str, limit: int = 160) -> str:
    """What happened, without what follows from it."""
    what = message.split("; then ", 1)[0]
    return what if len(what) <= limit else f"{what[: limit - 1]}…"


def _idle(crew: Crew) -> int:
    return len(crew.roster.ready_names) - len(crew.roster.ready_names & crew.busy)


def _message(crew: Crew, making: Making, going: int) -> str:
    if isinstance(crew.settings, NoCluster):
        return crew.settings.message
    if not crew.active:
        return "is being deleted" if crew.group.deleting else f"IrisCluster {crew.cluster} is being deleted"
    has = [f"{len(crew.up)} up, {crew.busy_up} with Tasks"]
    in_flight = len(crew.in_flight) + len(crew.roster.stale)
    has += [f"{in_flight} booting"] if in_flight else []
    has += [f"{count(len(crew.roster.failed), 'failed slice')} ({_names(crew)})"] if crew.roster.failed else []
    has += [f"{len(crew.retiring)} leaving"] if crew.retiring else []
    wanted = f"wants {count(making.wants.slices, 'slice')} (min {crew.group.spec.min_slices}"
    wanted += f", buffer {crew.group.spec.buffer_slices}" if crew.group.spec.buffer_slices else ""
    wanted += f", demand {making.demand})" if making.demand else ")"
    does = [f"making {making.total}"] if making.total else []
    does += [f"giving back {going}"] if going else []
    stopped = held_back(crew) if _wants_more(making) else ""
    does += [f"can't make more: {stopped}"] if stopped else []
    return f"{', '.join(has)}; {wanted}: {'; '.join(does) or 'nothing to do'}"


def _names(crew: Crew) -> str:
    return names_text([one.name for one in crew.roster.failed], 3)


def _wants_more(making: Making) -> bool:
    met = making.tasks + making.minimum + len(making.wants.promised)
    return making.short > 0 or making.demand > met


def _conditions(crew: Crew, making: Making) -> list[Condition]:
    group, generation = crew.group, crew.group.metadata.generation
    ready, least = crew.roster.ready, group.spec.min_slices
    enough = ready >= least
    stopped = held_back(crew) if crew.active and _wants_more(making) else ""
    reason = "MinSlicesReady" if enough else "WaitingForSlices"
    message = f"{ready} of {count(least, 'slice')} Ready (minSlices)"
    if isinstance(crew.settings, NoCluster):
        enough, reason, message = False, crew.settings.reason, crew.settings.message
    elif not enough and not crew.room and not crew.in_flight:
        reason, message = "AtMaxSlices", f"{message}; at maxSlices {group.spec.max_slices}"
    conditions = set_condition(
        group.status.conditions, "Ready", status_of(enough), reason, message, generation=generation, now=crew.now
    )
    backoff = crew.backoff
    why = str(backoff.reason) if backoff is not None and crew.blocked else "AtMaxSlices" if not crew.room else ""
    blocked = bool(backoff is not None and crew.blocked) or bool(stopped and why)
    return set_condition(
        conditions,
        "ScalingBlocked",
        status_of(blocked),
        why if blocked and why else "NotBlocked",
        held_back(crew) if blocked else "slices can be made when they are needed",
        generation=generation,
        now=crew.now,
    )


def accepted(group: ScaleGroup, status: ScaleGroupStatus, refused: str, now: datetime) -> ScaleGroupStatus:
    """The status with condition ActionsAccepted: False while the API refuses what was planned, and absent before ever."""
    known = any(one.type == "ActionsAccepted" for one in status.conditions)
    if not refused and not known:
        return status
    reason, words = ("Refused", refused) if refused else ("Accepted", "the API takes what is planned")
    generation = group.metadata.generation
    conditions = set_condition(
        status.conditions, "ActionsAccepted", status_of(not refused), reason, words, generation=generation, now=now
    )
    return status.model_copy(update={"conditions": conditions})
