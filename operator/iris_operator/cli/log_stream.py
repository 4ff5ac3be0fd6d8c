"""A Task's log, from its node's agent through the API server's pods/proxy: wherever kubectl works, this does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
import click

from iris_operator.api.names import WORKER_PORT
from iris_operator.api.task import Binding, Task
from iris_operator.cli.objects import get_task, watch_task
from iris_operator.cli.session import Session
from iris_operator.ports.errors import ApiError, NotFoundError, UnavailableError
from iris_operator.ports.kube import PODS, TASKS, Body

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


@dataclass
class LogStream:
    """Writes a Task's log with `write`, and words for the person with `say`.

    `sent` counts the bytes so far of the log of `attempt` (0: of none yet).
    """

    session: Session
    name: str
    write: Callable[[bytes], None]
    say: Callable[[str], None]
    sent: int = 0
    attempt: int = 0
    unreachable_since: float | None = None
    excuse: str = ""

    async def print(self, tail: int | None) -> None:
        """What is there now. ClickException when it has not started, or is gone."""
        task = await get_task(self.session, self.name)
        if task.spec.binding is None or not has_started(task):
            never = f"Task {self.name} never started: {state_line(task)}"
            raise click.ClickException(
                never if ended(task) else f"Task {self.name} has not started: {state_line(task)} (-f waits for it)"
            )
        await self._copy_patiently(task, tail, follow=False)

    async def follow(self, tail: int | None) -> Task | None:
        """From its start to its end, through all its attempts; the Task as it ended, None when it was deleted meanwhile.

        LogGone when it has ended, and the log of its last attempt can't be had.
        """
        gone: LogGone | None = None
        task = await self._started()
        while task is not None:
            if has_started(task):
                tail = self._begin(task, tail)
                gone = await self._copy_if_there(task, tail, follow=True)
            elif ended(task):
                return task
            task = await self._newest(task)
            if task is None or ended(task):
                # Its end may have been told while we were reading: look once more for what came last.
                if task is not None and has_started(task):
                    tail = self._begin(task, tail)
                    gone = await self._copy_if_there(task, tail, follow=False)
                if gone is not None and task is not None:
                    raise gone
                return task
            if has_started(task):
                await asyncio.sleep(_SETTLE_SECONDS if gone is None else _GONE_SECONDS)
            else:  # that attempt is over
                gone, task = None, await self._started()
        return None

    def _begin(self, task: Task, tail: int | None) -> int | None:
        """Another attempt's log begins at its first byte, and with a word; how much of it is wanted."""
        assert task.spec.binding is not None
        before, self.attempt = self.attempt, task.spec.binding.attempt
        if before in (0, self.attempt):
            return tail
        self.say(attempt_line(task))
        self.sent, self.unreachable_since = 0, None
        return None

    async def _copy_if_there(self, task: Task, tail: int | None, *, follow: bool) -> LogGone | None:
        """Copy. What keeps us from it is returned, and said as long as the Task may go on elsewhere."""
        try:
            await self._copy_patiently(task, tail if self.sent == 0 else None, follow=follow)
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

    async def _copy_patiently(self, task: Task, tail: int | None, *, follow: bool) -> None:
        """Copy; an agent or an API server that is away for some seconds is waited for."""
        binding = task.spec.binding
        assert binding is not None
        while True:
            try:
                pod = await self.session.api.get(PODS, binding.worker_pod, self.session.namespace)
            except NotFoundError as error:
                raise LogGone(_worker_gone(task, binding)) from error
            try:
                await self._copy(proxy_path(pod, task, binding), tail if self.sent == 0 else None, follow)
                self.unreachable_since = None
                return
            except NotFoundError as error:
                raise LogGone(_no_log(task, binding, error)) from error
            except UnavailableError as error:
                await self._wait_for_agent(binding, error)

    async def _copy(self, path: str, tail: int | None, follow: bool) -> None:
        params = {"follow": "1" if follow else "0"}
        if tail is not None:
            params["tail"] = str(tail)
        elif self.sent:
            params["sinceBytes"] = str(self.sent)
        # Only the connection has a time limit: a quiet command says nothing for hours.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        async with self.session.api.open("GET", path, params=params, timeout=timeout) as response:
            self.unreachable_since = None
            self.sent = int(response.headers.get(OFFSET_HEADER, self.sent))
            async for chunk in response.content.iter_any():
                self.write(chunk)
                self.sent += len(chunk)

    async def _wait_for_agent(self, binding: Binding, error: ApiError) -> None:
        now = asyncio.get_running_loop().time()
        if self.unreachable_since is None:
            self.unreachable_since = now
            self.say(f"the agent in Pod {binding.worker_pod} does not answer; waiting for it")
        elif now - self.unreachable_since > _PATIENCE_SECONDS:
            raise LogGone(
                f"the agent in Pod {binding.worker_pod} on node {binding.node_name} does not answer: {error.message}. "
                f"See: kubectl describe pod {binding.worker_pod}"
            ) from error
        await asyncio.sleep(_AGAIN_SECONDS)


def proxy_path(pod: Body, task: Task, binding: Binding) -> str:
    """Path of the log through the API server, at the port that the worker Pod's agent listens on."""
    containers = pod.get("spec", {}).get("containers") or [{}]
    ports = containers[0].get("ports") or [{}]
    port = ports[0].get("containerPort", WORKER_PORT)
    base = PODS.path(task.metadata.namespace, f"{binding.worker_pod}:{port}", "proxy")
    return f"{base}/v1/logs/{task.metadata.uid}/{binding.attempt}"


def has_started(task: Task) -> bool:
    """Whether the present attempt has run, or is running."""
    binding = task.spec.binding
    return binding is not None and task.status.start_time is not None and task.status.attempt == binding.attempt


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


def _worker_gone(task: Task, binding: Binding) -> str:
    return (
        f"the log of Task {task.metadata.name} is gone: it was on node {binding.node_name}, "
        f"and its worker {binding.worker_pod} is gone and the log with it. How it ended: {state_line(task)}"
    )


def _no_log(task: Task, binding: Binding, error: ApiError) -> str:
    if binding.worker_pod in error.message and "pods" in error.message:
        return _worker_gone(task, binding)
    return f"no log of Task {task.metadata.name} on node {binding.node_name}: {error.message.strip()}"
