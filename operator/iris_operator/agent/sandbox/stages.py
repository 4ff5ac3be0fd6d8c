"""How far a Task's set-up is, as its start script tells in a file. Pure: what the file says, and what that means.

The file is in the container, so the command can write what it likes there: it misleads only about itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from iris_operator.agent.sandbox.lifetime import outlives
from iris_operator.api.task import Task

AT, FAILED, COMMAND, MISSING = "at", "failed", "command", "missing"
# Longer than anything that the script writes.
MOST_BYTES = 256
SCRIPT = 0
"""The number of the set-up script; commands count from 1."""


@dataclass(frozen=True)
class Stage:
    """How far it is. `number`: at which step of set-up, with `exit_code` when that has failed. `at`: since when.

    `final`: read after the sandbox's end, so it will not change any more; then `last_line` is the last line of the log.
    """

    kind: str
    at: datetime
    number: int = SCRIPT
    exit_code: int | None = None
    final: bool = False
    last_line: str = ""

    @property
    def is_command(self) -> bool:
        """Whether set-up is over and the command runs, or has run."""
        return self.kind == COMMAND

    @property
    def script_is_over(self) -> bool:
        """Whether the set-up script, if there is one, has succeeded."""
        return self.is_command or self.kind == MISSING or self.number > SCRIPT


def has_setup(task: Task) -> bool:
    """Whether anything is done in its container before its command."""
    # A container that outlives its Tasks is set up for itself (agent/sandbox/holds).
    return not outlives(task) and (bool(task.spec.setup) or task.spec.container_lifetime.setup_script is not None)


def parse(text: str, at: datetime) -> Stage:
    """What the file says; what is not understood, such as nothing at all, is the beginning."""
    words = text.split()
    numbers = [int(word) for word in words[1:3] if word.isascii() and word.isdigit() and len(word) < 4]
    match words[:1], numbers:
        case [["command"], _]:
            return Stage(COMMAND, at)
        case [["missing"], [code, *_]]:
            return Stage(MISSING, at, exit_code=code)
        case [["failed"], [number, code]]:
            return Stage(FAILED, at, number, code)
        case [["at"], [number, *_]]:
            return Stage(AT, at, number)
    return Stage(AT, at, SCRIPT)


def words_of(task: Task, stage: Stage) -> str:
    """The step, for people."""
    if stage.number == SCRIPT:
        return "the set-up script" if task.spec.container_lifetime.setup_script is not None else "set-up"
    commands = task.spec.setup
    where = f"set-up command {stage.number} of {len(commands)}"
    if stage.number > len(commands):
        return "set-up"
    name = commands[stage.number - 1].name
    return f"{where} ({name})" if name else where
