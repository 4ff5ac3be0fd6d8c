"""What becomes of a Task after a failure of its user's: exit-code rules first, then the budget, then the wait.

`retryPolicy.onExitCodes` is asked only of a command that ended by itself: whoever stops one (a timeout, a probe) knows why.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from iris_operator.api.life import Cause, Retries, RetryPolicy
from iris_operator.api.task import Task, TaskPhase
from iris_operator.plan.text import count

_RULES = "retryPolicy.onExitCodes"


@dataclass(frozen=True)
class Verdict:
    """`phase`: Succeeded, Failed, or Pending: another attempt follows. `words`: what decided it; may be empty."""

    phase: TaskPhase
    words: str = ""

    def said(self, message: str) -> str:
        """The message, with what decided it."""
        return f"{message} ({self.words})" if self.words else message


def retries_of(task: Task) -> Retries:
    """Retries so far. A member's attempts are those of all members: as many were known when it was placed."""
    binding = task.spec.binding
    return task.status.retries if binding is None or binding.member is None else binding.member.retries


def after_exit(task: Task, exit_code: int) -> Verdict:
    """Of a command that ended by itself; `exit_code`: 128 plus the signal's number when a signal ended it."""
    policy = task.spec.retry_policy
    action = next((rule.action for rule in policy.on_exit_codes if exit_code in rule.exit_codes), None)
    if action == "Succeed":
        return Verdict(TaskPhase.SUCCEEDED, "" if exit_code == 0 else f"a success by {_RULES}")
    if action == "Fail":
        return Verdict(TaskPhase.FAILED, f"{_RULES}: never again")
    if action is None and exit_code == 0:
        return Verdict(TaskPhase.SUCCEEDED)
    if action == "Retry" and not policy.user:
        return Verdict(TaskPhase.FAILED, f"{_RULES} says Retry, but retryPolicy.user is 0")
    return after_failure(task)


def after_failure(task: Task) -> Verdict:
    """Of a failure by the user's fault without an exit code of the command's own: set-up, probes, timeouts, inputs."""
    budget = task.spec.retry_policy.user
    if retries_of(task).user < budget:
        return Verdict(TaskPhase.PENDING)
    return Verdict(TaskPhase.FAILED, f"retried {count(budget, 'time')} before, and no more" if budget else "")


def wait_before(policy: RetryPolicy, cause: Cause | None, retry: int) -> timedelta:
    """How long the `retry`-th retry (from 1) for that cause waits for its placing. Only user failures wait."""
    if cause is not Cause.USER:
        return timedelta()
    doubled = policy.backoff_seconds * 2 ** min(retry - 1, 20)
    return timedelta(seconds=min(doubled, policy.max_backoff_seconds))
