"""NodePools whose Slice is no more go after a grace; what isn't ours is never touched."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from iris_operator.plan.slices.orphans import (
    DeleteOrphan,
    MarkOrphan,
    OrphanPlan,
    OrphanView,
    UnmarkOrphan,
    plan_orphans,
)
from tests.builders import NOW, NodePoolBuilder, node_pool

_OURS = node_pool().labelled(**{"iris-managed": "true"})
_NOTES = _OURS.body()["metadata"]["annotations"]


def _marked(at: str) -> NodePoolBuilder:
    return _OURS.meta(annotations={**_NOTES, "iris.dev/orphaned-since": at})


def _noted(**notes: str | None) -> NodePoolBuilder:
    """Other annotations; None takes one away."""
    changed = {**_NOTES, **{f"iris.dev/{name.replace('_', '-')}": value for name, value in notes.items()}}
    return _OURS.meta(annotations={name: value for name, value in changed.items() if value is not None})


@dataclass(frozen=True)
class Case:
    pool: NodePoolBuilder
    actions: tuple[str, ...] = ()
    recheck: float | None = None
    slices: frozenset[str] = frozenset()
    grace: int = 300


CASES = {
    "its slice is there": Case(_OURS, slices=frozenset({"uid-s"})),
    "missing since now": Case(_OURS, ("MarkOrphan",), 301),
    "another slice of that name": Case(_OURS, ("MarkOrphan",), 301, frozenset({"uid-of-a-later-one"})),
    "marked, in its grace": Case(_marked("2026-11-21T11:55:01Z"), (), 2),
    "its grace is over": Case(_marked("2026-11-21T11:55:00Z"), ("DeleteOrphan",)),
    "no grace": Case(_OURS, ("MarkOrphan", "DeleteOrphan"), grace=0),
    "marked, but its slice is there": Case(_marked("2026-11-21T11:00:00Z"), ("UnmarkOrphan",), slices=frozenset({"uid-s"})),
    "a mark from the future counts from now": Case(_marked("2026-11-21T13:00:00Z"), ("MarkOrphan",), 301),
    "a mark that can't be read counts from now": Case(_marked("soon"), ("MarkOrphan",), 301),
    "a mark without a zone counts from now": Case(_marked("2026-11-21T11:00:00"), ("MarkOrphan",), 301),
    "going already": Case(_marked("2026-11-21T11:00:00Z").deleting()),
    # strangers'
    "without our label": Case(node_pool()),
    "our label says no": Case(_OURS.labelled(**{"iris-managed": "false"})),
    "without our annotations": Case(_OURS.meta(annotations={})),
    "without a UID": Case(_noted(slice_uid=None)),
    "with an empty UID": Case(_noted(slice_uid="")),
    "without a slice": Case(_noted(slice=None)),
    "with a slice that is no namespace/name": Case(_noted(slice="s")),
    "of a namespace that we don't watch": Case(_noted(slice="another/s")),
    "marked, of a namespace that we don't watch": Case(_noted(slice="another/s", orphaned_since="2026-11-21T11:00:00Z")),
}  # fmt: skip


def _plan(case: Case) -> OrphanPlan:
    return plan_orphans(OrphanView((case.pool.build(),), {"team": case.slices}, {"team": case.grace}), NOW)


@pytest.mark.parametrize("name", CASES)
def test_orphans(name: str) -> None:
    case = CASES[name]
    plan = _plan(case)
    assert tuple(type(action).__name__ for action in plan.actions) == case.actions
    assert plan.recheck_seconds == case.recheck
    assert all(action.node_pool == case.pool.build() for action in plan.actions)


def test_what_it_says() -> None:
    assert _plan(CASES["missing since now"]).actions == (MarkOrphan(_OURS.build(), NOW),)
    (action,) = _plan(CASES["its grace is over"]).actions
    assert isinstance(action, DeleteOrphan) and action.reason == "its Slice team/s is gone for more than 300s"
    (action,) = _plan(CASES["marked, but its slice is there"]).actions
    assert isinstance(action, UnmarkOrphan)


def test_looks_again_for_the_first() -> None:
    pools = (_marked("2026-11-21T11:59:00Z").build(), _marked("2026-11-21T11:58:00Z").meta(name="other").build())
    assert plan_orphans(OrphanView(pools, {"team": frozenset()}, {"team": 300}), NOW).recheck_seconds == 181
