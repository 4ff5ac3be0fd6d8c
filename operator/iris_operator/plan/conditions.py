"""metav1 conditions: set one among the others, keeping the time of its last transition."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from iris_operator.api.base import Condition

ConditionStatus = Literal["True", "False", "Unknown"]


def find_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of that type."""
    return next((one for one in conditions if one.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Whether that type holds."""
    found = find_condition(conditions, kind)
    return found is not None and found.status == "True"


def status_of(holds: bool) -> ConditionStatus:
    """A bool as a condition's status."""
    return "True" if holds else "False"


def set_condition(
    conditions: Iterable[Condition],
    kind: str,
    status: ConditionStatus,
    reason: str,
    message: str,
    *,
    generation: int,
    now: datetime,
) -> list[Condition]:
    """The conditions with this one set; its lastTransitionTime is `now` only when the status changes."""
    kept = [one for one in conditions if one.type != kind]
    before = find_condition(conditions, kind)
    since = (
        before.last_transition_time if before is not None and before.status == status else now.replace(microsecond=0)
    )
    new = Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
        last_transition_time=since,
    )
    return sorted([*kept, new], key=lambda one: one.type)
