"""Conditions: one among others, and the time of its last transition."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from iris_operator.api.base import Condition
from iris_operator.plan.conditions import ConditionStatus, find_condition, is_true, set_condition, status_of
from tests.builders import NOW

_EARLIER = NOW - timedelta(hours=1)
_READY = Condition(type="Ready", status="True", reason="Was", message="m", last_transition_time=_EARLIER)


def _set(before: list[Condition], status: ConditionStatus, now: datetime = NOW) -> list[Condition]:
    return set_condition(before, "Ready", status, "Why", "words", generation=3, now=now)


CASES: dict[str, tuple[list[Condition], ConditionStatus, datetime]] = {
    "new": ([], "True", NOW),
    "same status keeps the time": ([_READY], "True", _EARLIER),
    "another status takes now": ([_READY], "False", NOW),
    "unknown is another status": ([_READY], "Unknown", NOW),
}


@pytest.mark.parametrize("name", CASES)
def test_transition_time(name: str) -> None:
    before, status, since = CASES[name]
    (found,) = _set(before, status)
    assert (found.status, found.last_transition_time) == (status, since)
    assert (found.reason, found.message, found.observed_generation) == ("Why", "words", 3)


def test_others_stay_and_the_order_is_by_type() -> None:
    other = Condition(type="Accepted", status="True", reason="R", last_transition_time=_EARLIER)
    last = Condition(type="Zeal", status="True", reason="R", last_transition_time=_EARLIER)
    assert [one.type for one in _set([last, other], "True")] == ["Accepted", "Ready", "Zeal"]


def test_the_time_is_in_whole_seconds() -> None:
    """As the API stores it: else each pass would see a change."""
    assert _set([], "True", NOW.replace(microsecond=5))[0].last_transition_time == NOW


def test_asking() -> None:
    assert is_true([_READY], "Ready")
    assert not is_true([], "Ready")
    assert find_condition([_READY], "Other") is None
    assert (status_of(True), status_of(False)) == ("True", "False")
