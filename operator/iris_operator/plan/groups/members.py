"""A Slice as its ScaleGroup looks at it: what a pass over thousands needs, worked out once per version of the Slice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from iris_operator.api.names import (
    ANNOTATION_RETIRING,
    ANNOTATION_RETIRING_FROM,
    ANNOTATION_RETIRING_SINCE,
    LABEL_TEMPLATE_HASH,
)
from iris_operator.api.quantity import Amounts
from iris_operator.api.slice import Availability, FailureKind, Slice, SlicePhase

_IN_FLIGHT = (None, SlicePhase.PENDING, SlicePhase.BOOTING, SlicePhase.INITIALIZING)
_UP = (SlicePhase.READY, SlicePhase.DEGRADED)
# How near to Ready a slice in flight is: Tasks are promised the nearest first.
_PROGRESS = {SlicePhase.INITIALIZING: 0, SlicePhase.BOOTING: 1}


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """Times are seconds since 1970, None when they don't apply.

    `standing`: neither failed nor leaving. `up`: standing, and was Ready once. `in_flight`: standing, not yet up.
    `bills`: may cost money, now or soon, so counts for maxSlices. `retiring`: why its group cordoned it, to delete it.
    `returns`: would take Tasks again if it stayed: no person had cordoned it before.
    `lost_at`: since when a node of it is lost; `lost_deadline`: when it is to be replaced for that.
    """

    slice: Slice
    name: str
    owner_uid: str
    template: str
    standing: bool
    up: bool
    ready: bool
    in_flight: bool
    failed: bool
    bills: bool
    schedulable: bool
    retiring: str
    retiring_since: float | None
    returns: bool
    created: float
    launched_at: float | None
    ready_since: float | None
    idle_since: float | None
    hold_until: float
    expires_at: float | None
    lost_at: float | None
    lost_deadline: float | None
    failure: FailureKind | None
    failed_at: float
    progress: tuple[int, float, str]
    protected: bool
    capacities: tuple[Amounts, ...]


def make_member(owner: Slice, capacities: tuple[Amounts, ...] = ()) -> Member:
    """The facts of one Slice. `capacities`: the different ones among its ready nodes."""
    status, spec, meta = owner.status, owner.spec, owner.metadata
    failed = status.phase is SlicePhase.FAILED
    standing = not failed and not owner.deleting
    ready_since = _seconds(status.ready_since)
    lost_at = min((_at(node.lost_since) for node in status.nodes if node.lost_since is not None), default=None)
    created = _seconds(meta.creation_timestamp) or 0.0
    in_flight = standing and status.phase in _IN_FLIGHT
    lifetime = spec.max_lifetime_seconds
    return Member(
        slice=owner,
        name=meta.name,
        owner_uid=next((one.uid for one in meta.owner_references if one.kind == "ScaleGroup"), ""),
        template=meta.labels.get(LABEL_TEMPLATE_HASH, ""),
        standing=standing,
        up=standing and status.phase in _UP,
        ready=standing and status.phase is SlicePhase.READY,
        in_flight=in_flight,
        failed=failed and not owner.deleting,
        bills=not (failed and not status.node_pool_name),
        schedulable=spec.availability is Availability.SCHEDULABLE,
        retiring=meta.annotations.get(ANNOTATION_RETIRING, ""),
        returns=ANNOTATION_RETIRING_FROM not in meta.annotations,
        retiring_since=_parse(meta.annotations.get(ANNOTATION_RETIRING_SINCE, "")),
        created=created,
        launched_at=_seconds(status.launched_at),
        ready_since=ready_since,
        idle_since=_seconds(status.idle_since),
        hold_until=_seconds(spec.hold_until) or 0.0,
        expires_at=ready_since + lifetime if lifetime is not None and ready_since is not None else None,
        lost_at=lost_at,
        lost_deadline=lost_at + spec.repair.delay_seconds
        if lost_at is not None and spec.repair.policy == "Replace"
        else None,
        failure=status.failure,
        failed_at=_seconds(status.phase_since) or created,
        progress=(_PROGRESS.get(status.phase, 2) if status.phase else 3, created, meta.name),
        protected=spec.deletion_protection,
        capacities=capacities,
    )


def _at(moment: datetime) -> float:
    return moment.timestamp()


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _parse(text: str) -> float | None:
    """An annotation's time; None when it is missing or no time at all (people can write there)."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None
