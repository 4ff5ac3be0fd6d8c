"""What a NodePool's conditions mean (docs/coreweave-nodepool.md): by type and status, hardly ever by a reason."""

from __future__ import annotations

import pytest

from iris_operator.api.slice import FailureKind
from iris_operator.plan.slices.node_pool_state import is_ours, pool_state, told_by_events
from tests.builders import NodePoolBuilder, node_pool, slice_

_POOL = node_pool()
_OK = _POOL.validated()

CASES: dict[str, tuple[NodePoolBuilder | None, str, str, bool]] = {
    "none yet": (None, "Unknown", "CreatingNodePool", False),
    "not looked at": (_POOL, "Unknown", "WaitingForCoreWeave", False),
    "validated": (_OK, "True", "Accepted", False),
    "validated, by the older name": (_POOL.condition("Valid", "True"), "True", "Accepted", False),
    "invalid": (_POOL.condition("Validated", "False", "Invalid"), "False", "InvalidNodePool", True),
    "invalid, by the older name": (_POOL.condition("Valid", "False"), "False", "InvalidNodePool", True),
    "over quota": (_OK.condition("Quota", "False", "Over"), "False", "OverQuota", False),
    "no quota at all": (_OK.condition("Quota", "False", "NotSet"), "False", "OverQuota", False),
    "no capacity": (_OK.condition("Capacity", "False", "QueuedAwaitingCapacity"), "False", "NoCapacity", False),
    "capacity unknown": (_OK.condition("Capacity", "Unknown", "CapacityUnknown"), "True", "Accepted", False),
    "quota before capacity": (
        _OK.condition("Capacity", "False").condition("Quota", "False"), "False", "OverQuota", False,
    ),
    "invalid before all": (
        _POOL.condition("Quota", "False").condition("Validated", "False"), "False", "InvalidNodePool", True,
    ),
    "a fault of the vendor's own": (_POOL.condition("Capacity", "Unknown", "InternalError"), "False", "Internal", False),
    "a fault while validating says nothing of the spec": (
        _POOL.condition("Validated", "False", "InternalError"), "False", "Internal", False,
    ),
    "under target is no fault": (_OK.condition("AtTarget", "False", "UnderTarget"), "True", "Accepted", False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_state(name: str) -> None:
    pool, accepted, reason, rejected = CASES[name]
    found = pool_state(pool.build() if pool else None)
    assert (found.accepted, found.reason, found.rejected) == (accepted, reason, rejected)
    assert found.message


def test_the_vendor_s_words_are_shown() -> None:
    pool = _POOL.condition("Validated", "False", "Invalid", "instance type does not exist in zone").build()
    assert pool_state(pool).message == "NodePool team-s is invalid: Invalid: instance type does not exist in zone"


def test_counts_are_shown_of_more_than_one() -> None:
    pool = _OK.status(currentNodes=1, inProgress=2, queuedNodes=3).build()
    assert pool_state(pool).message == "NodePool team-s: 1 registered, 2 booting, 3 queued"
    for counts in ({"currentNodes": 1}, {"inProgress": 1}, {"queuedNodes": 1}):
        assert pool_state(_OK.status(**counts).build()).message == "NodePool team-s is accepted"


FAILURES = {
    "invalid": (_POOL.condition("Validated", "False"), FailureKind.INVALID_REQUEST),
    "quota": (_OK.condition("Quota", "False"), FailureKind.OVER_QUOTA),
    "capacity": (_OK.condition("Capacity", "False"), FailureKind.NO_CAPACITY),
    "internal": (_OK.condition("Quota", "Unknown", "InternalError"), FailureKind.INTERNAL),
    "well": (_OK, None),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failure(name: str) -> None:
    pool, kind = FAILURES[name]
    assert pool_state(pool.build()).failure is kind


@pytest.mark.parametrize(
    ("reasons", "kind"),
    [
        ((), None),
        (("CWNodeCordoned",), None),
        (("CWInsufficientCapacity",), FailureKind.NO_CAPACITY),
        (("CWInsufficientCapacity", "CWOverQuota"), FailureKind.OVER_QUOTA),
    ],
)
def test_events(reasons: tuple[str, ...], kind: FailureKind | None) -> None:
    assert told_by_events(reasons) is kind


def test_whose_it_is() -> None:
    assert is_ours(_POOL.build(), slice_().build())
    assert not is_ours(_POOL.build(), slice_().meta(uid="of-a-later-one").build())
    assert not is_ours(_POOL.meta(annotations={}).build(), slice_().build())
