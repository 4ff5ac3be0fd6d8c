"""When a group that failed to launch may launch again: exponential, with jitter, then one probe, doubled on success.

Kept in status.backoff, so that it outlives the operator. A failure counts when it came after the last wait's end, a
success once, by UID.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from iris_operator.api.cluster import Autoscaler
from iris_operator.api.scalegroup import Backoff, ScaleGroup
from iris_operator.api.slice import FailureKind
from iris_operator.plan.groups.members import Member
from iris_operator.plan.text import clock, count, duration

DIE_YOUNG = "SlicesDieYoung"
_SPREAD = 0.2
_COUNTED = 64


@dataclass(frozen=True)
class Failure:
    """One slice that failed to launch, or died young. `created`, `at`: seconds since 1970."""

    uid: str
    name: str
    reason: str
    message: str
    created: float
    at: float
    current: bool  # made from the present template


def failures_of(members: Iterable[Member], template: str, autoscaler: Autoscaler, now: float) -> list[Failure]:
    """The failures among a group's slices, oldest first."""
    found = (_failure(one, template, autoscaler.startup_grace_period_seconds, now) for one in members)
    return sorted((one for one in found if one is not None), key=lambda one: (one.at, one.name))


def _failure(one: Member, template: str, grace: float, now: float) -> Failure | None:
    lost = one.lost_deadline is not None and now >= one.lost_deadline
    if not (one.failed or lost):
        return None
    at = one.failed_at if one.failed else one.lost_deadline or now
    status = one.slice.status
    if one.ready_since is None:
        reason, words = str(one.failure or FailureKind.INTERNAL), status.message
    else:
        life = (one.lost_at or at) - one.ready_since
        if life >= grace:
            return None  # it had its life: no reason to launch less
        reason = DIE_YOUNG
        words = f"lost {duration(max(0.0, life))} after it became Ready (startupGracePeriodSeconds {grace:.0f})"
    current = one.template in ("", template)
    return Failure(one.slice.metadata.uid, one.name, reason, words, one.created, at, current)


def plan_backoff(
    group: ScaleGroup,
    failures: list[Failure],
    successes: Iterable[Member],
    in_flight: int,
    autoscaler: Autoscaler,
    now: datetime,
) -> Backoff | None:
    """The backoff from now on; None when launches are free. `failures` oldest first, `successes`: slices that are Ready."""
    before = group.status.backoff
    invalid = _invalid(group, before, failures)
    if invalid is not None:
        return invalid
    if before is not None and before.reason == FailureKind.INVALID_REQUEST:
        before = None
    after = before
    for one in failures:
        if one.reason != FailureKind.INVALID_REQUEST:
            after = _count(after, group, one, autoscaler, now)
    if after is None or after.until is None or after is not before:
        return after
    return _recover(after, group, successes, in_flight, autoscaler, now)


def blocked(backoff: Backoff | None, now: datetime) -> bool:
    """Whether no launch is allowed now."""
    return backoff is not None and (backoff.until is None or now < backoff.until)


def launches_allowed(backoff: Backoff | None, in_flight: int, now: datetime) -> int | None:
    """Launches that may begin now; None: any number."""
    if backoff is None:
        return None
    return 0 if blocked(backoff, now) else max(0, backoff.allowed_launches - in_flight)


def _invalid(group: ScaleGroup, before: Backoff | None, failures: list[Failure]) -> Backoff | None:
    """CoreWeave refuses the template: nothing until it changes, whoever deletes the failed slice."""
    generation = group.metadata.generation
    refused = [one for one in failures if one.reason == FailureKind.INVALID_REQUEST and one.current]
    if refused:
        last = refused[-1]
        message = f"slice {last.name}: {last.message}; no launch until the group's template changes"
        uids = [one.uid for one in refused][-_COUNTED:]
        same = before is not None and before.reason == FailureKind.INVALID_REQUEST and before.counted == uids
        if before is not None and same and before.generation == generation:
            return before
        return Backoff(
            reason=FailureKind.INVALID_REQUEST,
            message=message,
            failures=len(refused),
            until=None,
            allowed_launches=0,
            generation=generation,
            counted=uids,
        )
    if before is not None and before.reason == FailureKind.INVALID_REQUEST and before.generation == generation:
        return before
    return None


def _count(
    before: Backoff | None, group: ScaleGroup, one: Failure, settings: Autoscaler, now: datetime
) -> Backoff | None:
    """One failure more, unless it is old news: what failed before the wait's end is part of what began it.

    So it does not matter how often a failure is looked at, nor whether all that failed at once are seen at once.
    """
    if before is None:
        until = _until(one, 1, group, settings)
        return None if until <= now else _after(one, 1, until, group)
    if before.until is not None and one.at <= before.until.timestamp():
        return before
    number = before.failures + 1
    return _after(one, number, _until(one, number, group, settings), group)


def _after(one: Failure, number: int, until: datetime, group: ScaleGroup) -> Backoff:
    what = "a launch failed" if number == 1 else f"{number} launches failed in a row"
    message = f"{what}; slice {one.name}: {one.message}; then 1 launch at a time from {clock(until)}"
    return Backoff(
        reason=one.reason,
        message=message,
        failures=number,
        until=until,
        allowed_launches=1,
        generation=group.metadata.generation,
        counted=[one.uid],
    )


def _until(one: Failure, number: int, group: ScaleGroup, settings: Autoscaler) -> datetime:
    wait = min(settings.max_backoff_seconds, settings.backoff_seconds * 2 ** min(number - 1, 32))
    digest = hashlib.sha256(f"{group.metadata.uid}/{one.uid}/{number}".encode()).digest()
    spread = int.from_bytes(digest[:4], "big") / 2**32 * _SPREAD
    moment = datetime.fromtimestamp(one.at + wait * (1 + spread), UTC)
    return moment.replace(microsecond=0) + timedelta(seconds=1)


def _recover(
    before: Backoff,
    group: ScaleGroup,
    successes: Iterable[Member],
    in_flight: int,
    settings: Autoscaler,
    now: datetime,
) -> Backoff | None:
    """Nothing failed since: each success after the wait doubles what may be under way; then it is over."""
    assert before.until is not None
    ended = before.until.timestamp()
    if now < before.until:
        return before
    new = [
        one.slice.metadata.uid
        for one in successes
        if one.ready_since is not None and one.ready_since >= ended and one.slice.metadata.uid not in before.counted
    ]
    allowed = before.allowed_launches * 2 ** min(len(new), 12)
    quiet = now.timestamp() >= ended + settings.max_backoff_seconds and not in_flight
    if allowed > group.spec.max_slices or quiet:
        return None
    if not new:
        return before
    counted = [*before.counted, *sorted(new)][-_COUNTED:]
    return before.model_copy(
        update={
            "failures": 0,
            "allowed_launches": allowed,
            "counted": counted,
            "message": f"{count(len(new), 'slice')} became Ready since: {allowed} launches at a time",
        }
    )
