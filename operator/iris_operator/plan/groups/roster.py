"""A group's slices sorted out, as far as time and Tasks don't matter: worked out once per change, not once per pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iris_operator.api.quantity import Amounts
from iris_operator.plan.groups.members import Member


@dataclass(frozen=True, eq=False)
class Roster:
    """`up`: were Ready once, and stay. `in_flight`: on their way there, the nearest first. `stale`: in flight, but of an
    old template. `retiring`: cordoned by the group, to be deleted next. `failed`: last failed first.

    Of those up: `old` are of another template, `lost` miss a node, `mortal` have a lifetime, `idle_known` say since when
    they are idle (longest first), `sound` counts the Ready ones that miss none. `ready` counts retiring ones too,
    `billing` what counts for maxSlices.
    """

    members: tuple[Member, ...]
    names: frozenset[str]
    up: tuple[Member, ...]
    up_names: frozenset[str]
    in_flight: tuple[Member, ...]
    stale: tuple[Member, ...]
    retiring: tuple[Member, ...]
    failed: tuple[Member, ...]
    old: tuple[Member, ...]
    lost: tuple[Member, ...]
    mortal: tuple[Member, ...]
    idle_known: tuple[Member, ...]
    ready_names: frozenset[str]
    sound: int
    ready: int
    billing: int
    suspects: tuple[Member, ...]
    kinds: tuple[Amounts, ...]
    mixed: bool  # there are slices of another template
    same: bool  # there are slices of the present one


def make_roster(members: Sequence[Member], template: str) -> Roster:
    """`template`: the hash of the group's present one."""
    present = ("", template)
    standing = [one for one in members if one.up]
    up = tuple(one for one in standing if not one.retiring)
    in_flight = [one for one in members if one.in_flight]
    current = [one for one in members if one.template in present]
    kinds = {id(kind): kind for one in current for kind in one.capacities}
    return Roster(
        members=tuple(members),
        names=frozenset(one.name for one in members),
        up=up,
        up_names=frozenset(one.name for one in up),
        in_flight=tuple(sorted((one for one in in_flight if one.template in present), key=lambda one: one.progress)),
        stale=tuple(sorted((one for one in in_flight if one.template not in present), key=lambda one: one.progress)),
        retiring=tuple(sorted((one for one in standing if one.retiring), key=lambda one: one.name)),
        failed=tuple(sorted((one for one in members if one.failed), key=lambda one: (-one.failed_at, one.name))),
        old=tuple(one for one in up if one.template not in present),
        lost=tuple(one for one in up if one.lost_at is not None),
        mortal=tuple(one for one in up if one.expires_at is not None),
        idle_known=tuple(
            sorted((one for one in up if one.idle_since is not None), key=lambda one: (one.idle_since or 0.0, one.name))
        ),
        ready_names=frozenset(one.name for one in up if one.ready),
        sound=sum(one.ready and one.lost_at is None for one in up),
        ready=sum(one.ready for one in members),
        billing=sum(one.bills for one in members),
        suspects=tuple(one for one in members if one.failed or one.lost_deadline is not None),
        kinds=tuple(kinds.values()),
        mixed=len(current) < len(members),
        same=bool(current),
    )
