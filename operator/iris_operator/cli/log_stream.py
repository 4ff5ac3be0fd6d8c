"""A Task's log, from its node: through the API server and Iris' gateway, wherever kubectl works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
import click

from iris_operator.api.streams import task_stream
from iris_operator.api.task import Task
from iris_operator.cli.log_bytes import Counted, Plain, Stamped
from iris_operator.cli.objects import get_task, watch_task
from iris_operator.cli.session import Session
from iris_operator.cli.transfer import size_text
from iris_operator.ports.errors import ApiError, NotFoundError, UnavailableError
from iris_operator.ports.kube import TASKS

OFFSET_HEADER = "Iris-Log-Offset"
# An agent that is being restarted is back within seconds.
_PATIENCE_SECONDS = 20.0
_AGAIN_SECONDS = 0.5
_SETTLE_SECONDS = 0.2
# A log that is away may come back, with its node's agent; or the Task begins again elsewhere.
_GONE_SECONDS = 2.0
_QUIET_SECONDS = 1.0


class Patience:
    """Says a line only when it still holds after a second: nobody wants to read of waits that were none."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._line = ""
        self._timer: asyncio.TimerHandle | None = None

    def say(self, line: str) -> None:
        """Instead of the line before."""
        if line != self._line:
            self.end()
            self._line = line
            self._timer = asyncio.get_running_loop().call_later(_QUIET_SECONDS, self._say, line)

    def end(self) -> None:
        """There is nothing to wait for."""
        if self._timer is not None:
            self._timer.cancel()


class LogGone(click.ClickException):
    """The log can't be had any more, or not from here."""


@dataclass(frozen=True)
class Wanted:
    """Which part of the log. `attempt`: 0 is the present one, -1 the one before it."""

    tail: int | None = None
    since_seconds: int | None = None
    timestamps: bool = False
    attempt: int = 0

    def params(self) -> dict[str, str]:
        """What leaves out a beginning."""
        limits = {"tail": self.tail, "sinceSeconds": self.since_seconds}
        return {name: str(value) for name, value in limits.items() if value is not None}


@dataclass
class LogStream:
    """Writes a Task's log with `write`, and words for the person with `say`.

    `sent` counts the bytes so far of the log of `attempt` (0: of none yet).
    """

    session: Session
    name: str
    write: Callable[[bytes], None]
    say: Callable[[str], None]
    wanted: Wanted = Wanted()
    sent: int = 0
    attempt: int = 0
    whole: bool = False
    unreachable_since: float | None = None
    excuse: str = ""
    counted: Counted = field(default_factory=Plain)

    def __post_init__(self) -> None:
        self._count_anew()

    async def print(self, *, follow: bool = False) -> None:
        """What is there now of one attempt; with `follow`, to its end. ClickException when it has not started, or is gone."""
        task = await get_task(self.session, self.name)
        if follow and self.wanted.attempt == 0 and not has_started(task) and not ended(task):
            task = await self._started() or task
        self.attempt = self._asked_for(task)
        await self._copy_patiently(task, follow=follow)

    async def follow(self) -> Task | None:
        """From its start to its end, through all its attempts; the Task as it ended, None when it was deleted meanwhile.

        LogGone when it has ended, and the log of its last attempt can't be had.
        """
        gone: LogGone | None = None
        task = await self._started()
        while task is not None:
            if has_started(task):
                self._begin(task)
                gone = await self._copy_if_there(task, follow=True)
            elif ended(task):
                return task
            task = await self._newest(task)
            if task is None or ended(task):
                # Its end may have been told while we were reading: look once more for what came last.
                if task is not None and has_started(task):
                    self._begin(task)
                    gone = await self._copy_if_there(task, follow=False)
                if gone is not None and task is not None:
                    raise gone
                return task
            if has_started(task):
                await asyncio.sleep(_SETTLE_SECONDS if gone is None else _GONE_SECONDS)
            else:  # that attempt is over
                gone, task = None, await self._started()
        return None

    def _asked_for(self, task: Task) -> int:
        """The number of the one attempt that is wanted. ClickException when there is no log of it."""
        present = _present_attempt(task)
        if self.wanted.attempt == 0 and (task.spec.binding is None or not has_started(task)):
            never = f"Task {self.name} never started: {state_line(task)}"
            raise click.ClickException(
                never if ended(task) else f"Task {self.name} has not started: {state_line(task)} (-f waits for it)"
            )
        number = self.wanted.attempt if self.wanted.attempt > 0 else present + self.wanted.attempt
        if not 1 <= number <= max(present, 1):
            had = f"its present attempt is {present}" if present else "it has had none"
            which = f"attempt {number}" if number > 0 else "attempt before it"
            raise click.ClickException(f"Task {self.name} has no {which}: {had}")
        return number

    def _begin(self, task: Task) -> None:
        """Another attempt's log begins at its first byte, and with a word."""
        assert task.spec.binding is not None
        before, self.attempt = self.attempt, task.spec.binding.attempt
        if before not in (0, self.attempt):
            self.say(attempt_line(task))
            self.sent, self.unreachable_since, self.whole = 0, None, True
            self._count_anew()

    def _count_anew(self) -> None:
        self.counted = Stamped() if self.wanted.timestamps else Plain()

    async def _copy_if_there(self, task: Task, *, follow: bool) -> LogGone | None:
        """Copy. What keeps us from it is returned, and said as long as the Task may go on elsewhere."""
        try:
            await self._copy_patiently(task, follow=follow)
        except LogGone as gone:
            if not ended(task) and gone.message != self.excuse:
                self.say(gone.message)
            self.excuse = gone.message
            return gone
        self.excuse = ""
        return None

    async def _started(self) -> Task | None:
        """Wait until there may be a log, and say meanwhile what it waits for. None: deleted after its first attempt."""
        if not self.attempt:
            await get_task(self.session, self.name)
        patience = Patience(self.say)
        try:
            async for task in watch_task(self.session, self.name):
                if task is None and not self.attempt:
                    raise click.ClickException(f"Task {self.name} was deleted before it started")
                if task is None or has_started(task) or ended(task):
                    return task
                patience.say(f"waiting for Task {self.name}: {state_line(task)}")
        finally:
            patience.end()
        return None

    async def _newest(self, task: Task) -> Task | None:
        try:
            newest = Task.parse(await self.session.api.get(TASKS, self.name, self.session.namespace))
        except NotFoundError:
            return None
        except UnavailableError:
            return task
        return newest if newest.metadata.uid == task.metadata.uid else None

    async def _copy_patiently(self, task: Task, *, follow: bool) -> None:
        """Copy; an agent, a gateway or an API server that is away for some seconds is waited for."""
        while True:
            try:
                await self._copy(task_stream(self.session.namespace, self.name, "log"), follow)
                self.unreachable_since = None
                return
            except NotFoundError as error:
                raise LogGone(self._no_log(task, error)) from error
            except UnavailableError as error:
                await self._wait_for_agent(task, error)

    async def _copy(self, path: str, follow: bool) -> None:
        params = {"follow": "1" if follow else "0"}
        if self.attempt:
            params["attempt"] = str(self.attempt)
        if self.wanted.timestamps:
            params["timestamps"] = "1"
        if self.sent:
            params["sinceBytes"] = str(self.sent)
        elif not self.whole:
            params |= self.wanted.params()
        # Only the connection has a time limit: a quiet command says nothing for hours.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        self.counted.connected()
        async with self.session.api.open("GET", path, params=params, timeout=timeout) as response:
            self.unreachable_since = None
            asked, self.sent = self.sent, int(response.headers.get(OFFSET_HEADER, self.sent))
            if self.sent > asked and (asked or self.whole or not self.wanted.params()):
                self.say(f"... {size_text(self.sent - asked)} dropped: logs.maxBytes")
            async for chunk in response.content.iter_any():
                whole, size = self.counted.take(chunk)
                self.write(whole)
                self.sent += size

    async def _wait_for_agent(self, task: Task, error: ApiError) -> None:
        binding = task.spec.binding
        where = f"the agent in Pod {binding.worker_pod}" if binding is not None else "the agent of its node"
        now = asyncio.get_running_loop().time()
        if self.unreachable_since is None:
            self.unreachable_since = now
            self.say(f"{where} does not answer; waiting for it")
        elif now - self.unreachable_since > _PATIENCE_SECONDS:
            see = f". See: kubectl describe pod {binding.worker_pod}" if binding is not None else ""
            raise LogGone(f"{where} does not answer: {error.message}{see}") from error
        await asyncio.sleep(_AGAIN_SECONDS)

    def _no_log(self, task: Task, error: ApiError) -> str:
        if "page not found" in error.message:  # the API server's own words for an API that it does not have
            return (
                "logs come through Iris' gateway, and there is no gateway in this cluster: chart value gateway.create"
            )
        name, binding = task.metadata.name, task.spec.binding
        place = _archived_at(task, self.attempt)
        archived = f" It is kept at {place}." if place else ""
        present = binding is not None and self.attempt in (0, binding.attempt)
        if binding is not None and present and binding.worker_pod in error.message:
            return (
                f"the log of Task {name} is gone: it was on node {binding.node_name}, and its worker "
                f"{binding.worker_pod} is gone and the log with it.{archived} How it ended: {state_line(task)}"
            )
        which = f"attempt {self.attempt} of Task {name}" if self.attempt else f"Task {name}"
        return f"no log of {which}: {error.message.strip()}{'.' if archived else ''}{archived}"


def _archived_at(task: Task, attempt: int) -> str:
    """URL of an attempt's log in object storage, empty while it has none. 0: the last one's."""
    earlier = {one.attempt: one.log_archive for one in task.status.attempts}
    return earlier.get(attempt, task.status.log_archive)


def _present_attempt(task: Task) -> int:
    """The number of its present attempt; between two, that of the one to come; 0: there was none."""
    if task.spec.binding is not None:
        return task.spec.binding.attempt
    return task.status.ended_attempt + 1 if task.status.ended_attempt else task.status.attempt or 0


def has_started(task: Task) -> bool:
    """Whether the present attempt has run, or is running."""
    binding = task.spec.binding
    # Its set-up writes to the log before its command starts.
    wrote = task.status.start_time is not None or bool(task.status.log_path)
    return binding is not None and wrote and task.status.attempt == binding.attempt


def ended(task: Task) -> bool:
    """Whether nothing more will happen to it."""
    return task.ended


def attempt_line(task: Task) -> str:
    """Of a Task that runs again: how the attempt before ended, and where it runs now."""
    binding = task.spec.binding
    assert binding is not None
    here = f"attempt {binding.attempt} on node {binding.node_name}"
    last = next((one for one in task.status.attempts if one.attempt < binding.attempt), None)
    return f"attempt {last.attempt} lost: {last.reason}: {last.message}; {here}" if last is not None else here


def state_line(task: Task) -> str:
    """Phase, reason and message in one line."""
    status = task.status
    phase = status.phase.value if status.phase is not None else "Pending"
    if not status.reason and task.spec.binding is not None:
        return f"{phase}: placed on slice {task.spec.binding.slice_name}"
    return ": ".join(part for part in (phase, status.reason, status.message) if part)
