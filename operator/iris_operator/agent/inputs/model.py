"""What preparing a Task's inputs gives, and how it fails. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from iris_runtimes.protocol import Mount, Tmpfs


@dataclass(frozen=True)
class Inputs:
    """Ready on the node, for one attempt.

    `env`: the Task's own environment, resolved (envFrom, and env over it), each name once; Iris' facts go over it.
    `env` is not in the repr: it may hold Secrets' values. `setup_script`: containerLifetime.setupScript.configMapKeyRef's text.
    """

    env: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    tmpfs: tuple[Tmpfs, ...] = ()
    setup_script: str = ""

    def __repr__(self) -> str:
        return f"Inputs(env={len(self.env)} variables, mounts={self.mounts}, tmpfs={self.tmpfs})"


NO_INPUTS = Inputs()


class Whose(StrEnum):
    """Who must act on a failed input, and so what becomes of the attempt."""

    USER = "user"  # the attempt fails
    ABSENT = "absent"  # an object that may yet be applied: it is looked for again until timeouts.buildingSeconds, as a Pod does
    PLATFORM = "platform"  # tried again


class InputFault(Exception):
    """One line a person understands, with namespace, object and key but never a value. `reason`: CamelCase."""

    def __init__(self, reason: str, message: str, whose: Whose = Whose.USER) -> None:
        super().__init__(message)
        self.reason, self.whose = reason, whose


@dataclass(frozen=True)
class Fetching:
    """How far a bundle is. `total_bytes` 0: not known."""

    what: str
    done_bytes: int = 0
    total_bytes: int = 0
