"""What a group remembers of its past boots: the last ten, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iris_operator.api.scalegroup import Boot
from iris_operator.plan.groups.members import Member

_REMEMBERED = 10


def recent_boots(before: Sequence[Boot], members: Iterable[Member]) -> list[Boot]:
    """`before` with the boots that ended since. A boot is known by its slice's name and its seconds.

    What is older than the newest that we know of was there when we last looked: a group has more slices than this.
    """
    booted = [(_ended(one), one) for one in members if one.launched_at is not None and _seconds(one) is not None]
    known = {(boot.slice_name, boot.seconds) for boot in before}
    newest = max((ended for ended, one in booted if (one.name, _seconds(one)) in known), default=(0.0, ""))
    news = sorted((item for item in booted if item[0] > newest), key=lambda item: item[0], reverse=True)
    if not news:
        return list(before)
    made = [Boot(slice_name=one.name, seconds=_seconds(one) or 0) for _, one in news[:_REMEMBERED]]
    return [*made, *before][:_REMEMBERED]


def _seconds(one: Member) -> int | None:
    return one.slice.status.boot_seconds


def _ended(one: Member) -> tuple[float, str]:
    return ((one.launched_at or 0.0) + (_seconds(one) or 0), one.name)
