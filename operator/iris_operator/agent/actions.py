"""What may be done next for one Task. Data only: `diff` decides for one of these, `act` does it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from datetime import datetime

from iris_operator.api.task import Task, TaskStatus


@dataclass(frozen=True)
class Nothing:
    """All is as wanted, or something is waited for."""


@dataclass(frozen=True)
class Pull:
    """Fetch the image, in the background."""

    task: Task


@dataclass(frozen=True)
class CancelPull:
    """The image isn't wanted any more."""


@dataclass(frozen=True)
class Start:
    """Make the sandbox and start the command."""

    task: Task


@dataclass(frozen=True)
class Report:
    """Write this status. `verify`: first make sure that there really is no sandbox of that id. `leaves`: go on at once."""

    status: TaskStatus
    verify: str = ""
    leaves: bool = False


@dataclass(frozen=True)
class Hook:
    """Do lifecycle.preStop, in the background, for so long at most."""

    task: Task
    sandbox_id: str
    seconds: float


@dataclass(frozen=True)
class Signal:
    """Signal the command that it shall end, or (`kill`) SIGKILL everything in the sandbox."""

    sandbox_id: str
    number: int = signal.SIGTERM
    kill: bool = False


@dataclass(frozen=True)
class Look:
    """Read how far the set-up is, and be told from now on. `final`: the sandbox has ended."""

    task: Task
    final: bool = False


@dataclass(frozen=True)
class Remove:
    """Take the sandbox away; what runs in it is killed. `then`: what is to be told once it is gone."""

    sandbox_id: str
    why: str
    then: TaskStatus | None = None


@dataclass(frozen=True)
class Release:
    """Nothing is left of the Task on this node: log away, finalizer off."""

    task: Task
    verify: str


@dataclass(frozen=True)
class Forget:
    """The Task has left this node and so have its sandboxes: log away too, if the Task is gone from the API."""

    uid: str


Action = Nothing | Pull | CancelPull | Start | Look | Report | Hook | Signal | Remove | Release | Forget


@dataclass(frozen=True)
class Decision:
    """The action now, and when to look again without being told (None: only when something changes)."""

    action: Action
    look_again: datetime | None = None
