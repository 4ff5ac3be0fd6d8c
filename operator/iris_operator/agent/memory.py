"""What this process remembers of a Task's attempt beyond the API and the runtime. Losing it costs time, never truth."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from iris_operator.agent.inputs.model import NO_INPUTS, Inputs
from iris_operator.agent.probes.told import NO_VERDICT, Verdict
from iris_operator.agent.sandbox.stages import Stage
from iris_operator.api.task import TaskStatus

_BACKOFF_SECONDS = (1.0, 60.0)


@dataclass(frozen=True)
class Pulling:
    """A pull under way. `fetching`: the bundle that the bytes are of; empty: they are the image's."""

    since: datetime
    done_bytes: int = 0
    total_bytes: int = 0
    fetching: str = ""


@dataclass(frozen=True)
class StartFailure:
    """Why the command can never start: the user's to mend. `exit_code` as a shell would give it, if it would."""

    reason: str
    message: str
    at: datetime
    exit_code: int | None = None


@dataclass(frozen=True)
class Trouble:
    """Why starting fails for now: the platform's to mend. Tried again at `retry_at`."""

    reason: str
    message: str
    failures: int
    retry_at: datetime

    @staticmethod
    def after(
        before: Trouble | None, reason: str, message: str, now: datetime, longest_seconds: float = _BACKOFF_SECONDS[1]
    ) -> Trouble:
        """One more failure; waits double from 1 s to 60 s, or to less."""
        failures = (before.failures if before else 0) + 1
        seconds = min(_BACKOFF_SECONDS[0] * 2 ** min(failures - 1, 16), longest_seconds)
        return Trouble(reason, message, failures, now + timedelta(seconds=seconds))


@dataclass(frozen=True)
class Illness:
    """Why a running command must be stopped, by the user's fault: a probe's verdict, a volume that is full.

    Whoever finds it sets `Memory.ill` and marks the Task; the agent then stops the command as it stops any, and the attempt
    ends as a user's failure with this reason. `words`: what is wrong, with the numbers; goes on after "stopped because".
    """

    reason: str
    words: str


@dataclass(frozen=True)
class Hook:
    """lifecycle.preStop: begun at `since`, from when the grace period counts. `words`: what went wrong with it, if anything."""

    since: datetime
    over: bool = False
    words: str = ""


@dataclass(frozen=True)
class Memory:
    """One attempt's. `image_digest` empty: not pulled yet; `inputs` come with it."""

    attempt: int = 0
    image_digest: str = ""
    inputs: Inputs = NO_INPUTS
    pulling: Pulling | None = None
    failure: StartFailure | None = None
    trouble: Trouble | None = None
    told_at: datetime | None = None
    final: TaskStatus | None = None  # how it ended, as we reported it: its sandbox, the other witness, is removed then
    term_sent: datetime | None = None
    kill_sent: datetime | None = None
    ill: Illness | None = None
    verdict: Verdict = NO_VERDICT
    left: bool = False  # that it is ready no more, for it stops, was told
    hook: Hook | None = None
    stage: Stage | None = None  # None: not read yet, or there is no set-up

    @property
    def stopping_since(self) -> datetime | None:
        """When the command was first told to go, as far as this process knows."""
        return self.hook.since if self.hook is not None else self.term_sent


BLANK = Memory()
