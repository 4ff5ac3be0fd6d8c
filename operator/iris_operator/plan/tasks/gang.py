"""A Task of several replicas and its members, as seen; what each member's standing in the present attempt is.

All members make an attempt together: none begins one while another is still in the one before, and when one has to be
repeated, all are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from functools import cached_property

from iris_operator.api.life import Retries
from iris_operator.api.names import member_name
from iris_operator.api.task import Task, TaskPhase
from iris_operator.plan.placement.squad import last_attempt_of, may_join, most_retries
from iris_operator.plan.tasks.retry import attempt_is_over

MEMBER_FAILED = "MemberFailed"
MEMBERS_RESTART = "MembersRestart"
_NEVER = datetime.max.replace(tzinfo=UTC)


class Standing(Enum):
    """Of one member."""

    MISSING = auto()  # it is yet to be made, or is being deleted
    LIVE = auto()  # bound; something of it may run
    DONE = auto()  # succeeded
    FAILED = auto()  # ended, and not well
    BEHIND = auto()  # its part in the present attempt is over, or it has none
    LATE = auto()  # not bound yet, and others are: an operator ended in between, and the next one binds the rest


@dataclass(frozen=True, eq=False)
class Gang:
    """`members`: by rank, None where there is none. `taken`: names that a member should have, and another Task has."""

    parent: Task
    members: tuple[Task | None, ...]
    taken: tuple[str, ...] = ()

    @property
    def there(self) -> tuple[Task, ...]:
        """The members that exist."""
        return tuple(one for one in self.members if one is not None)

    @cached_property
    def attempt(self) -> int:
        """The attempt that the members are in, or were in last; 0: there was none yet."""
        return max(last_attempt_of(one) for one in (self.parent, *self.there))

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """Of the members by rank."""
        return tuple(self._standing(one) for one in self.members)

    def of(self, *wanted: Standing) -> list[Task]:
        """The members of these standings that exist, by rank."""
        return [
            one for one, found in zip(self.members, self.standings, strict=True) if one is not None and found in wanted
        ]

    def count(self, wanted: Standing) -> int:
        """How many have this standing."""
        return self.standings.count(wanted)

    @cached_property
    def blamed(self) -> Task | None:
        """The member that failed first, for which all the others end; None: none has."""
        failed = self.of(Standing.FAILED)
        return min(
            failed, key=lambda one: (one.status.reason == MEMBER_FAILED, one.status.finish_time or _NEVER), default=None
        )

    @property
    def repeats(self) -> bool:
        """Whether the present attempt can't go on: some are in it, and others are not any more."""
        begun = self.count(Standing.LIVE) + self.count(Standing.DONE)
        return bool(begun) and bool(self.count(Standing.BEHIND) + self.count(Standing.MISSING))

    @cached_property
    def retries(self) -> Retries:
        """Of all members together."""
        return most_retries([self.parent, *self.there])

    def _standing(self, one: Task | None) -> Standing:
        if one is None:
            return Standing.MISSING
        phase = one.status.phase
        if one.ended and phase is not TaskPhase.SUCCEEDED and not (one.deleting and phase is TaskPhase.KILLED):
            return Standing.FAILED
        if one.deleting:
            return Standing.MISSING
        if one.ended:
            return Standing.DONE
        if one.spec.binding is not None:
            return Standing.BEHIND if attempt_is_over(one) else Standing.LIVE
        return Standing.LATE if self._may_join(one) else Standing.BEHIND

    def _may_join(self, one: Task) -> bool:
        """Whether an unbound member is to be bound yet to the attempt that others are in."""
        bindings = [other.spec.binding for other in self.there if not other.ended]
        return may_join(one, [found for found in bindings if found is not None], self.attempt)


def gang_of(parent: Task, find: Callable[[str], Task | None]) -> Gang:
    """`find`: a Task of the same namespace by its name."""
    members: list[Task | None] = []
    taken: list[str] = []
    for rank in range(parent.spec.replicas):
        name = member_name(parent.metadata.name, rank)
        found = find(name)
        if found is not None and found.owner_uid != parent.metadata.uid:
            taken.append(name)
            found = None
        members.append(found)
    return Gang(parent, tuple(members), tuple(taken))
