"""Place the waiting Tasks of one namespace."""

from __future__ import annotations

import asyncio
import logging

from iris_operator.api.names import FINALIZER_TASK
from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.plan.actions import BindTask
from iris_operator.plan.placement import Unplaced, plan_placement
from iris_operator.plan.task_lifecycle import plan_waiting
from iris_operator.ports.errors import ConflictError, NotFoundError
from iris_operator.ports.kube import TASKS

log = logging.getLogger(__name__)

_CONCURRENT_WRITES = 16
# Words about work that can't run must not slow the work that can.
_WAITING_WRITES_PER_PASS = 20


class PlacementReconciler:
    """One pass at a time per namespace (the queue sees to it)."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)
        self._slots = asyncio.Semaphore(_CONCURRENT_WRITES)

    async def reconcile(self, key: Key) -> None:
        """Bind what fits, then say why the rest waits."""
        now = self._controller.now()
        plan = plan_placement(self._controller.cache.placement_view(key.name), now)
        await asyncio.gather(*(self._bind(one) for one in plan.bindings))
        await self._explain(key, plan.unplaced)

    async def _bind(self, action: BindTask) -> None:
        task = action.task
        finalizers = task.metadata.finalizers
        if FINALIZER_TASK not in finalizers:
            finalizers = [*finalizers, FINALIZER_TASK]
        async with self._slots:
            try:
                await self._writer.metadata(TASKS, task, {"finalizers": finalizers}, {"binding": action.binding.wire()})
            except (ConflictError, NotFoundError) as error:
                log.info("task %s was not bound, it changed meanwhile: %s", task.key, error.message)

    async def _explain(self, key: Key, unplaced: tuple[Unplaced, ...]) -> None:
        now = self._controller.now()
        written = 0
        for one in unplaced:
            plan = plan_waiting(one.task, one.reason, one.message, now)
            if plan.recheck_seconds is not None:
                self._controller.queue.add_after(key, plan.recheck_seconds)
            if plan.status is None:
                continue
            if written == _WAITING_WRITES_PER_PASS:
                self._controller.queue.add_after(key, 1.0)
                return
            written += 1
            try:
                await self._writer.status(TASKS, one.task, one.task.status, plan.status)
            except (ConflictError, NotFoundError):
                log.debug("task %s changed meanwhile", one.task.key)
