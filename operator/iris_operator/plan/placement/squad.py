"""Members of a Task of several replicas that may be placed now: all of them at once, as one attempt.

One attempt of such a Task is one attempt of each member under the same number. It begins only when no member has
anything left of an earlier one: an attempt that is over is unbound first (tasks/retry), and until then nobody is placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from iris_operator.api.life import Cause, Retries
from iris_operator.api.names import member_name
from iris_operator.api.task import Binding, Task
from iris_operator.plan.tasks.retry import attempt_is_over


class Squad(NamedTuple):
    """`free`: (rank, member) of those to place. `placed`: those that are bound already, since an operator that placed them
    all ended in between. `retry_after`: not before then."""

    parent: Task
    free: tuple[tuple[int, Task], ...]
    placed: tuple[Task, ...]
    attempt: int
    retries: Retries
    retry_after: datetime | None


def squad_of(parent: Task, members: Iterable[Task]) -> Squad | None:
    """`members`: those of `parent` that have not ended. None: they are not all there, or none is to be placed now."""
    by_name = {one.metadata.name: one for one in members if not one.deleting}
    names = [member_name(parent.metadata.name, rank) for rank in range(parent.spec.replicas)]
    if parent.deleting or parent.ended or any(name not in by_name for name in names):
        return None
    ranked = [by_name[name] for name in names]
    free = tuple((rank, one) for rank, one in enumerate(ranked) if one.spec.binding is None)
    placed = tuple(one for one in ranked if one.spec.binding is not None)
    last = max(last_attempt_of(one) for one in (parent, *ranked))
    if not free or (placed and not _may_be_joined(free, placed, last)):
        return None
    rests = [one.status.retry_after for one in ranked if one.status.retry_after is not None]
    retries = most_retries([parent, *ranked])
    return Squad(parent, free, placed, last if placed else last + 1, retries, max(rests, default=None))


def last_attempt_of(task: Task) -> int:
    """The number of the last attempt that anybody knows of; 0: there was none."""
    bound = task.spec.binding.attempt if task.spec.binding is not None else 0
    return max(bound, task.status.attempt or 0, task.status.ended_attempt or 0)


def most_retries(tasks: Iterable[Task]) -> Retries:
    """Of members and their Task together: an attempt that several members end counts once."""
    found = [one.status.retries for one in tasks]
    return Retries(**{cause.budget: max(one.of(cause) for one in found) for cause in Cause})


def _may_be_joined(free: Sequence[tuple[int, Task]], placed: Sequence[Task], attempt: int) -> bool:
    """Whether the rest of them can still begin the attempt that these have begun."""
    bindings = [one.spec.binding for one in placed if one.spec.binding is not None]
    going = all(one.attempt == attempt and not one.stop_reason and one.member is not None for one in bindings)
    if not going or any(attempt_is_over(one) for one in placed):
        return False
    return all(may_join(one, bindings, attempt) for _, one in free)


def may_join(task: Task, bindings: Sequence[Binding], attempt: int) -> bool:
    """Whether an unbound member may yet be bound for the attempt that others, with these bindings, are in."""
    begun = [one.bound_at for one in bindings if one.attempt == attempt]
    if not begun or last_attempt_of(task) >= attempt:
        return False
    created = task.metadata.creation_timestamp
    # One that was made since is not the one that they began with: that one was deleted in the middle of the attempt.
    return created is None or created <= min(begun)
