"""Failed launches hold back a group: for how long, what ends it, and what does not count."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from iris_operator.api.scalegroup import Backoff, ScaleGroup
from iris_operator.plan.conditions import find_condition
from iris_operator.plan.groups.fleet import GroupPlan
from tests.builders import NOW, Builder, SliceBuilder, at, cluster, group
from tests.unit.iris_operator.plan.fleets import acted, booting, created, failed, fleet, idle, old, only

_GROUP = group(minSlices=4, maxSlices=8, failedSlicesHistoryLimit=100)


def _backoff(failures: int = 1, until: float = 30, allowed: int = 1, **more: Any) -> dict[str, Any]:
    """`until`: seconds from NOW."""
    row = {"reason": "NoCapacity", "failures": failures, "until": at(-until), "allowedLaunches": allowed}
    return {"backoff": {**row, "counted": ["uid-x"], **more}}


def _plan(slices: list[SliceBuilder], built: Builder[ScaleGroup] = _GROUP, now: datetime = NOW) -> GroupPlan:
    return only(fleet([built], slices, now=now))


def _seconds(found: Backoff | None) -> float:
    assert found is not None and found.until is not None
    return (found.until - NOW).total_seconds()


def test_a_failure_holds_back_all_launches() -> None:
    plan = _plan([failed("a", "OverQuota", 0)])
    backoff = plan.status.backoff
    assert backoff is not None and (backoff.reason, backoff.failures, backoff.allowed_launches) == ("OverQuota", 1, 1)
    assert 60 <= _seconds(backoff) <= 73
    assert (created(plan), plan.status.blocked_until) == ([], backoff.until)
    assert "slice a: said CoreWeave" in backoff.message
    blocked = find_condition(plan.status.conditions, "ScalingBlocked")
    assert blocked is not None and (blocked.status, blocked.reason) == ("True", "OverQuota")
    assert [(one.action, one.reason) for one in plan.status.decisions] == [("Block", "OverQuota")]
    assert [note.type for note in plan.notes] == ["Warning"]
    assert "can't make more: blocked until 12:01:" in plan.status.message


def test_all_that_fail_together_are_one_failure() -> None:
    backoff = _plan([failed(f"f{n}", ago=n) for n in range(20)]).status.backoff
    assert backoff is not None and backoff.failures == 1


def test_it_is_not_counted_again() -> None:
    slices = [failed(f"f{n}", ago=n) for n in range(3)]
    first = _plan(slices).status
    again = _plan(slices, _GROUP.status(**first.wire()))
    assert (again.status.wire(), again.notes) == (first.wire(), ())


@pytest.mark.parametrize(("failures", "least"), [(1, 120), (2, 240), (4, 960), (9, 1800), (900, 1800)])
def test_each_failure_after_the_wait_doubles_it(failures: int, least: int) -> None:
    plan = _plan([failed("probe", ago=0)], _GROUP.status(**_backoff(failures, until=-5)))
    assert plan.status.backoff is not None and plan.status.backoff.failures == failures + 1
    assert least <= _seconds(plan.status.backoff) <= least * 1.2 + 1


def test_waits_differ_between_groups_but_not_between_looks() -> None:
    waits = {
        _seconds(only(fleet([group(f"g{n}", minSlices=1)], [failed("a", ago=0, of=f"g{n}")]), f"g{n}").status.backoff)
        for n in range(8)
    }
    assert len(waits) > 1


def test_a_launch_that_was_under_way_before_is_no_second_strike() -> None:
    before = _GROUP.status(**_backoff(1, until=30))
    plan = _plan([failed("late", ago=0)], before)
    assert plan.status.backoff is not None and (plan.status.backoff.failures, _seconds(plan.status.backoff)) == (1, 30)


def test_then_one_probe() -> None:
    after = _GROUP.status(**_backoff(until=-1))
    assert created(_plan([], after)) == ["MinSlices"]
    assert created(_plan([booting("probe")], after)) == []
    assert created(_plan([booting("probe"), booting("more")], _GROUP.status(**_backoff(until=-1, allowed=4)))) == [
        "MinSlices", "MinSlices",
    ]  # fmt: skip


def test_each_success_doubles_and_then_it_is_over() -> None:
    after = _GROUP.status(**_backoff(until=-9000))
    ready = [idle(f"s{n}", 100).status(readySince=at(800 - n)) for n in range(3)]
    status = _plan([*ready[:1], booting("b")], after).status
    assert status.backoff is not None and status.backoff.allowed_launches == 2
    again = _plan([*ready[:1], booting("b")], _GROUP.status(**status.wire())).status
    assert again.backoff == status.backoff
    more = _plan([*ready, booting("b")], _GROUP.status(**status.wire()))
    assert more.status.backoff is not None and more.status.backoff.allowed_launches == 8
    fourth = idle("s4", 100).status(readySince=at(5))
    over = _plan([*ready, fourth], _GROUP.status(**more.status.wire())).status
    assert (over.backoff, over.decisions[0].action) == (None, "Unblock")


def test_a_success_before_the_wait_is_over_changes_nothing() -> None:
    plan = _plan([idle("s", 1)], _GROUP.status(**_backoff(until=30)))
    assert plan.status.backoff is not None and plan.status.backoff.allowed_launches == 1


def test_forgotten_when_nothing_was_tried_for_long() -> None:
    slices = [failed("f", ago=2000)]
    assert _plan(slices, _GROUP.status(**_backoff(until=-1799))).status.backoff is not None
    plan = _plan(slices, _GROUP.status(**_backoff(until=-1800)))
    assert (plan.status.backoff, len(created(plan))) == (None, 4)
    assert _plan(slices, _GROUP).status.backoff is None


def test_the_settings_count() -> None:
    settings = cluster(autoscaler={"backoffSeconds": 5, "maxBackoffSeconds": 8})
    plan = only(fleet([_GROUP], [failed("a", ago=0)], clusters=[settings]))
    assert 5 <= _seconds(plan.status.backoff) <= 7


def test_an_invalid_request_waits_for_another_template() -> None:
    refused = failed("a", "InvalidRequest", 90_000)
    plan = _plan([refused])
    assert created(plan) == []
    assert plan.status.backoff is not None and (plan.status.backoff.until, plan.status.blocked_until) == (None, None)
    assert "until the group's template changes" in plan.status.backoff.message
    blocked = _GROUP.status(**plan.status.wire())
    assert created(_plan([], blocked)) == []  # whoever deletes the slice
    assert created(_plan([refused], blocked.meta(generation=2))) == []  # kubectl scale is no other template
    assert len(created(_plan([old(refused)], blocked.meta(generation=2)))) == 4


@pytest.mark.parametrize("kind", ["OverQuota", "NoCapacity", "Internal", "Slow", "NodeUnfit"])
def test_kinds(kind: str) -> None:
    backoff = _plan([failed("a", kind, 0)]).status.backoff
    assert backoff is not None and backoff.reason == kind


def _lost(name: str, lived: float) -> SliceBuilder:
    """Past its repair delay by a second, after so short a life."""
    node = {"rank": 0, "name": "n", "ready": False, "lostSince": at(901)}
    return idle(name).status(phase="Degraded", nodes=[node], readySince=at(901 + lived), idleSince=None)


def test_slices_that_die_young() -> None:
    plan = _plan([_lost("a", 2399)])
    assert plan.status.backoff is not None and plan.status.backoff.reason == "SlicesDieYoung"
    assert "lost 40 min after it became Ready" in plan.status.backoff.message
    assert created(plan) == []


def test_those_that_had_their_life_don_t_count() -> None:
    assert _plan([_lost("a", 2400)]).status.backoff is None


def test_it_ends_by_itself_and_the_group_goes_on() -> None:
    """Through time: blocked, one probe, its success, then all at once."""
    first = _plan([failed("a", ago=0)]).status
    later = NOW + timedelta(seconds=80)
    probing = _plan([failed("a", ago=0)], _GROUP.status(**first.wire()), later)
    assert (created(probing), acted(probing)) == (["MinSlices"], [])
    assert probing.status.blocked_until is None
    assert "launching 1 at a time after NoCapacity" in probing.status.message
