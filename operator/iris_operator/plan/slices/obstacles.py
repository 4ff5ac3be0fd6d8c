"""Why a call on a NodePool was not made, or was refused: what the next plan must know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from iris_operator.api.slice import FailureKind
from iris_operator.plan.text import count
from iris_operator.ports.errors import ApiError, ForbiddenError, InvalidError, UnavailableError

LAUNCH_RATE_LIMITED = "LaunchRateLimited"


@dataclass(frozen=True)
class Obstacle:
    """`reason` is a condition's, `message` has the API's words. `failure`: what it counts as if it lasts."""

    call: Literal["launch", "delete"]
    reason: str
    message: str
    failure: FailureKind | None = None


class Held(Exception):
    """An action that can't be done now. Tried again after `wait_seconds`, or with backoff when there is an `error`."""

    def __init__(self, obstacle: Obstacle, *, wait_seconds: float = 0.0, error: ApiError | None = None) -> None:
        super().__init__(obstacle.message)
        self.obstacle, self.wait_seconds, self.error = obstacle, wait_seconds, error


def rate_limited(launches_per_minute: int) -> Obstacle:
    """Its turn has not come: no failure, and the message does not change while it waits."""
    bound = f"{count(launches_per_minute, 'NodePool')} a minute (autoscaler.launchesPerMinute)"
    return Obstacle("launch", LAUNCH_RATE_LIMITED, f"waits for its turn: at most {bound}")


def launch_refused(name: str, error: ApiError) -> Obstacle | None:
    """What a refused creation means; None when it says nothing of this NodePool (a conflict, an API out of reach)."""
    words = f"the API refuses NodePool {name}: {error.message}"
    if isinstance(error, InvalidError):
        return Obstacle("launch", "InvalidNodePool", words, FailureKind.INVALID_REQUEST)
    if isinstance(error, ForbiddenError) and "quota" in error.message.lower():
        return Obstacle("launch", "OverQuota", words, FailureKind.OVER_QUOTA)
    if _is_refusal(error):
        return Obstacle("launch", "NodePoolRefused", words, FailureKind.INTERNAL)
    return None


def deletion_refused(name: str, error: ApiError) -> Obstacle | None:
    """A refused deletion; None as for launches. It bills on: the words must reach a person."""
    if isinstance(error, InvalidError) or _is_refusal(error):
        return Obstacle("delete", "DeletionRefused", f"the API refuses to delete NodePool {name}: {error.message}")
    return None


def _is_refusal(error: ApiError) -> bool:
    # 429 and no answer at all are the API server's own trouble; a 5xx may be the vendor's webhook.
    return isinstance(error, ForbiddenError) or (isinstance(error, UnavailableError) and error.status >= 500)
