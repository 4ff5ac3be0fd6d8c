"""What an error of the API means for a NodePool's launch and its deletion."""

from __future__ import annotations

import pytest

from iris_operator.api.slice import FailureKind
from iris_operator.plan.slices.obstacles import deletion_refused, launch_refused
from iris_operator.ports.errors import error_for

# HTTP status, its words; a launch's reason and failure; a deletion's reason
CASES: dict[str, tuple[int, str, str, FailureKind | None, str]] = {
    "breaks the schema": (422, "spec.x: unknown", "InvalidNodePool", FailureKind.INVALID_REQUEST, "DeletionRefused"),
    "bad request": (400, "bad", "InvalidNodePool", FailureKind.INVALID_REQUEST, "DeletionRefused"),
    "over a ResourceQuota": (403, "exceeded quota: pools", "OverQuota", FailureKind.OVER_QUOTA, "DeletionRefused"),
    "denied": (403, "denied the request", "NodePoolRefused", FailureKind.INTERNAL, "DeletionRefused"),
    "a webhook fails": (500, "failed calling webhook", "NodePoolRefused", FailureKind.INTERNAL, "DeletionRefused"),
    "unavailable": (503, "try later", "NodePoolRefused", FailureKind.INTERNAL, "DeletionRefused"),
    "too many requests: ours to wait": (429, "slow down", "", None, ""),
    "changed meanwhile": (409, "conflict", "", None, ""),
    "gone": (404, "not found", "", None, ""),
}


@pytest.mark.parametrize("name", CASES)
def test_refusals(name: str) -> None:
    status, words, launch, failure, deletion = CASES[name]
    error = error_for(status, "Because", words)
    started, ended = launch_refused("team-s", error), deletion_refused("team-s", error)
    assert ((started.reason, started.failure) if started else ("", None)) == (launch, failure)
    assert (ended.reason if ended else "") == deletion
    for found in (started, ended):
        assert found is None or (words in found.message and "team-s" in found.message)


def test_no_answer_at_all_says_nothing_of_the_node_pool() -> None:
    error = error_for(503, "", "")
    error.status = 0
    assert launch_refused("team-s", error) is deletion_refused("team-s", error) is None
