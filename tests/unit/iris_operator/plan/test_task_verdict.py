"""What becomes of a Task after an exit or a failure of its user's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from iris_operator.api.task import Task
from iris_operator.plan.tasks.verdict import after_exit, after_failure
from tests.builders import task

_RULES: list[dict[str, Any]] = [
    {"exitCodes": [42, 43], "action": "Retry"},
    {"exitCodes": [7], "action": "Fail"},
    {"exitCodes": [3, 7], "action": "Succeed"},
]
_ALL = {"onExitCodes": _RULES}


@dataclass(frozen=True)
class Case:
    """A policy, retries of the user's so far and an exit code (None: a failure without one): phase and words."""

    code: int | None
    phase: str
    words: str = ""
    policy: dict[str, Any] = field(default_factory=dict)
    before: int = 0

    @property
    def task(self) -> Task:
        return task(retryPolicy=self.policy).bound().status(retries={"user": self.before}).build()


CASES = {
    "done": Case(0, "Succeeded"),
    "done, though it might be tried again": Case(0, "Succeeded", policy={"user": 3}),
    "failed": Case(1, "Failed"),
    "failed, and is tried again": Case(1, "Pending", policy={"user": 1}),
    "failed once more": Case(1, "Failed", "retried 1 time before, and no more", {"user": 1}, before=1),
    "failed the third time of three": Case(1, "Pending", policy={"user": 3}, before=2),
    "failed the fourth time of three": Case(1, "Failed", "retried 3 times before", {"user": 3}, before=3),
    "killed": Case(137, "Failed"),
    "a code that counts as done": Case(3, "Succeeded", "a success by retryPolicy.onExitCodes", _ALL),
    "a code that is never tried again": Case(7, "Failed", "never again", {**_ALL, "user": 5}),
    "the first rule that fits": Case(7, "Failed", "never again", _ALL),
    "a code that is tried again": Case(43, "Pending", policy={**_ALL, "user": 1}),
    "a code to try again, within the budget": Case(42, "Failed", "and no more", {**_ALL, "user": 1}, before=1),
    "a code to try again, without a budget": Case(42, "Failed", "says Retry, but retryPolicy.user is 0", _ALL),
    "a code of no rule": Case(9, "Pending", policy={**_ALL, "user": 1}),
    "0 is never again": Case(0, "Failed", "never again", {"onExitCodes": [{"exitCodes": [0], "action": "Fail"}]}),
    "0 is tried again": Case(0, "Pending", "", {"user": 1, "onExitCodes": [{"exitCodes": [0], "action": "Retry"}]}),
    "no code": Case(None, "Failed"),
    "no code, and is tried again": Case(None, "Pending", policy={"user": 1}),
    "no code, too often": Case(None, "Failed", "retried 2 times before, and no more", {"user": 2}, before=2),
}


@pytest.mark.parametrize("name", CASES)
def test_verdict(name: str) -> None:
    case = CASES[name]
    found = after_failure(case.task) if case.code is None else after_exit(case.task, case.code)
    assert found.phase == case.phase
    assert case.words in found.words if case.words else not found.words


def test_words_follow_the_message() -> None:
    assert after_exit(CASES["failed"].task, 1).said("exit code 1") == "exit code 1"
    case = CASES["failed once more"]
    assert after_exit(case.task, 1).said("exit code 1") == "exit code 1 (retried 1 time before, and no more)"
