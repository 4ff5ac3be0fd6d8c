"""The memory of every Task on the node; a new attempt starts with a blank one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from iris_operator.agent.memory import Memory, StartFailure, Trouble
from iris_operator.api.task import Task
from iris_runtimes.errors import CommandNotExecutable, CommandNotFound, RuntimeFault

_SHELL_CODES: dict[type[RuntimeFault], int] = {CommandNotFound: 127, CommandNotExecutable: 126}


class Memories:
    """By Task uid."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Memory] = {}

    def get(self, uid: str) -> Memory:
        """What is remembered, of whichever attempt."""
        return self._by_uid.get(uid, Memory())

    def of(self, task: Task) -> Memory:
        """What is remembered of the Task's present attempt."""
        assert task.spec.binding is not None
        memory, attempt = self.get(task.metadata.uid), task.spec.binding.attempt
        return memory if memory.attempt == attempt else Memory(attempt=attempt)

    def update(self, task: Task, **changes: Any) -> None:
        """Remember more."""
        self._by_uid[task.metadata.uid] = replace(self.of(task), **changes)

    def forget(self, uid: str) -> None:
        """The Task is gone."""
        self._by_uid.pop(uid, None)

    def failed(self, task: Task, fault: RuntimeFault, now: datetime) -> None:
        """Starting failed: for good when the user must act, for now when the platform must."""
        if fault.who == "user":
            self.cannot_start(task, fault.reason, str(fault), now, _SHELL_CODES.get(type(fault)))
        else:
            self.in_trouble(task, fault.reason, str(fault), now)

    def cannot_start(self, task: Task, reason: str, message: str, now: datetime, exit_code: int | None = None) -> None:
        """It can never start as it is."""
        self.update(task, failure=StartFailure(reason, message, now, exit_code))

    def in_trouble(self, task: Task, reason: str, message: str, now: datetime, longest_seconds: float = 60.0) -> None:
        """It can't start now; it is tried again later, after `longest_seconds` at most."""
        self.update(task, trouble=Trouble.after(self.of(task).trouble, reason, message, now, longest_seconds))
