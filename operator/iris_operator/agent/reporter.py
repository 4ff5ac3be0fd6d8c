"""Writes Tasks' statuses: the latest wanted one of each, one patch at a time, for ever until it is in or the Task is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from iris_operator.adapters.kube.merge import merge_patch
from iris_operator.agent.backoff import Backoff
from iris_operator.agent.metrics import Metrics
from iris_operator.agent.task_store import TaskStore
from iris_operator.api.task import Task, TaskPhase, TaskStatus
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.ports.kube import TASKS, KubeApi

log = logging.getLogger(__name__)

_SIDE_BY_SIDE = 8
_BACKOFF_SECONDS = (0.2, 10.0)
_HOLD_SECONDS = 0.5


class Reporter:
    """`on_change` is called with a uid whose status must be decided anew: the Task had changed meanwhile.

    `burst` tells whether many Tasks are being started at this moment.
    """

    def __init__(self, api: KubeApi, store: TaskStore, metrics: Metrics, on_change: Callable[[str], None]) -> None:
        self.burst: Callable[[], bool] = lambda: False
        self._api, self._store, self._metrics = api, store, metrics
        self._on_change = on_change
        self._wanted: dict[str, TaskStatus] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._held: dict[str, asyncio.Event] = {}
        self._slots = asyncio.Semaphore(_SIDE_BY_SIDE)

    @property
    def waiting(self) -> int:
        """Statuses that are not in yet."""
        return len(self._writing)

    def want(self, uid: str, status: TaskStatus) -> None:
        """Have this status written. What waits for that Task is replaced: a Task that ends soon costs one patch."""
        self._wanted[uid] = status
        if uid in self._held and status.phase is not TaskPhase.RUNNING:
            self._held[uid].set()
        if uid not in self._writing:
            task = asyncio.create_task(self._write(uid), name=f"report {uid}")
            self._writing[uid] = task

    async def close(self) -> None:
        """Give up what waits."""
        writing = list(self._writing.values())
        for task in writing:
            task.cancel()
        await asyncio.gather(*writing, return_exceptions=True)

    async def _write(self, uid: str) -> None:
        backoff = Backoff(*_BACKOFF_SECONDS)
        try:
            await self._hold(uid)
            while uid in self._wanted:
                try:
                    async with self._slots:
                        await self._write_once(uid)
                    backoff.reset()
                except ApiError as error:
                    log.warning("status of Task %s: %s; is tried again", uid, error)
                    await backoff.wait()
        finally:
            self._wanted.pop(uid, None)
            del self._writing[uid]

    async def _hold(self, uid: str) -> None:
        """In a burst, that a Task runs is told a little later: most short ones have ended by then, and cost one patch."""
        if self._wanted[uid].phase is not TaskPhase.RUNNING or not self.burst():
            return
        self._held[uid] = asyncio.Event()
        try:
            async with asyncio.timeout(_HOLD_SECONDS):
                await self._held[uid].wait()
        except TimeoutError:
            return
        finally:
            del self._held[uid]

    async def _write_once(self, uid: str) -> None:
        before, after = self._store.get(uid), self._wanted[uid]
        if before is None or not _same_attempt(before, after):
            del self._wanted[uid]
            return
        patch = merge_patch(before.status.stated(), after.stated())
        if patch is not None and not await self._patch(before, patch):
            return
        if self._wanted.get(uid) == after:
            del self._wanted[uid]
        if patch is not None and after.phase is not None and after.phase.ended:
            self._metrics.tasks_ended[after.phase.value] += 1

    async def _patch(self, before: Task, patch: dict[str, object]) -> bool:
        """One patch of the version we know. False: it had changed or gone, and is decided anew."""
        meta = before.metadata
        # The version guards the uid too: the API server ignores metadata.uid in a patch of /status.
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": patch}
        self._metrics.wrote("patch", "tasks/status")
        try:
            answer = await self._api.patch(TASKS, meta.name, body, namespace=meta.namespace, subresource="status")
            self._store.observe(answer)
            return True
        except NotFoundError:
            self._store.drop(meta.uid)
        except ConflictError:
            await self.refresh(before)
        self._wanted.pop(meta.uid, None)
        self._on_change(meta.uid)
        return False

    async def refresh(self, known: Task) -> None:
        """Read a Task again, for its newest version. Another of its name means: ours is gone."""
        try:
            body = await self._api.get(TASKS, known.metadata.name, known.metadata.namespace)
        except NotFoundError:
            self._store.drop(known.metadata.uid)
            return
        if body["metadata"]["uid"] != known.metadata.uid:
            self._store.drop(known.metadata.uid)
        else:
            self._store.observe(body)


def _same_attempt(task: Task, status: TaskStatus) -> bool:
    return task.spec.binding is not None and task.spec.binding.attempt == status.attempt
