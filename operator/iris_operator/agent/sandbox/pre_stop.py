"""lifecycle.preStop in the background, one per Task at most; the Task's worker goes on when it is over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import aiohttp

from iris_operator.agent.http_get import HttpGetter, url_of
from iris_operator.agent.memories import Memories
from iris_operator.agent.memory import Hook
from iris_operator.agent.node.ports import resolve
from iris_operator.api.probe import HttpGetAction, PreStop
from iris_operator.api.task import Task
from iris_runtimes.errors import RuntimeFault
from iris_runtimes.execution import ExecRequest
from iris_runtimes.lifecycle import run_command
from iris_runtimes.protocol import Runtime

log = logging.getLogger(__name__)

_MOST_OUTPUT_BYTES = 4096


class PreStops:
    """`on_change` is called with the uid of a Task whose preStop is over. `address`: the node's, for HTTP."""

    def __init__(
        self,
        runtime: Runtime,
        memories: Memories,
        on_change: Callable[[str], None],
        now: Callable[[], datetime],
        address: str,
        http: HttpGetter | None = None,
    ) -> None:
        self._runtime, self._memories, self._on_change, self._now = runtime, memories, on_change, now
        self._address, self._http = address, http or HttpGetter()
        self._jobs: dict[str, asyncio.Task[None]] = {}

    def begin(self, task: Task, sandbox_id: str, ports: dict[str, int], seconds: float) -> None:
        """Do it, for so long at most. `ports`: the Task's, by name."""
        uid, hook = task.metadata.uid, task.spec.lifecycle.pre_stop
        assert hook is not None
        self._memories.update(task, hook=Hook(self._now()))
        job = self._run(task, hook, sandbox_id, ports, seconds)
        self._jobs[uid] = asyncio.create_task(job, name=f"preStop {uid}")

    async def cancel(self, uid: str) -> None:
        """Its sandbox goes."""
        job = self._jobs.pop(uid, None)
        if job is not None:
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)

    async def close(self) -> None:
        """Stop all; whoever comes next begins them anew."""
        for uid in list(self._jobs):
            await self.cancel(uid)
        await self._http.close()

    async def _run(self, task: Task, hook: PreStop, sandbox_id: str, ports: dict[str, int], seconds: float) -> None:
        try:
            words = await self._do(hook, sandbox_id, ports, seconds)
        except (RuntimeFault, aiohttp.ClientError, OSError, ValueError) as error:  # a TimeoutError is an OSError
            words = str(error) or f"no answer within {seconds:.0f}s"
        except Exception:
            self._over(task, "an error of the agent's own")  # which must not cost the command its stop signal
            raise
        self._over(task, words)

    def _over(self, task: Task, words: str) -> None:
        if words:
            words = f"preStop failed: {words}"
            log.warning("Task %s: %s", task.key, words)
        self._jobs.pop(task.metadata.uid, None)
        known = self._memories.of(task).hook
        if known is not None:
            self._memories.update(task, hook=replace(known, over=True, words=words))
        self._on_change(task.metadata.uid)

    async def _do(self, hook: PreStop, sandbox_id: str, ports: dict[str, int], seconds: float) -> str:
        """What went wrong; empty when nothing did."""
        if hook.exec is not None:
            request = ExecRequest(hook.exec.command)
            done = await run_command(self._runtime, sandbox_id, request, seconds, _MOST_OUTPUT_BYTES)
            if done.timed_out:
                return f"it took longer than {seconds:.0f}s and was killed"
            return f"exit code {done.exit_code}" if done.exit_code else ""
        assert hook.http_get is not None
        return await self._get(hook.http_get, ports, seconds)

    async def _get(self, wanted: HttpGetAction, ports: dict[str, int], seconds: float) -> str:
        port = resolve(wanted.port, ports)
        if port is None:  # judged when the Task was to start
            return f"there is no port {wanted.port}"
        async with asyncio.timeout(max(seconds, 0.001)):
            answer = await self._http.get(wanted, self._address, port)
        return "" if answer.good else f"GET {url_of(wanted, self._address, port)} answered {answer.status}"
