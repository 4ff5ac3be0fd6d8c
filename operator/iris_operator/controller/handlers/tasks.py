"""Reconcile one bound Task: the operator only speaks where the agent can't."""

from __future__ import annotations

import logging

from iris_operator.api.names import FINALIZER_TASK
from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.plan.actions import Note
from iris_operator.plan.task_lifecycle import plan_task
from iris_operator.ports.kube import TASKS

log = logging.getLogger(__name__)


class TaskReconciler:
    """Tells of Tasks whose worker is gone, and lets those go that were deleted."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)

    async def reconcile(self, key: Key) -> None:
        """Plan, one status patch, then the finalizer."""
        cache = self._controller.cache
        task = cache.tasks.get(key.name)
        if task is None:
            return
        plan = plan_task(task, cache.worker_exists(task), self._controller.now())
        if plan.recheck_seconds is not None:
            self._controller.queue.add_after(key, plan.recheck_seconds)
        if plan.status is not None:
            await self._writer.status(TASKS, task, task.status, plan.status)
            if plan.status.phase is not None and plan.status.phase.ended:
                await self._writer.event(TASKS, task, Note("Warning", plan.status.reason, plan.status.message))
        if plan.release:
            await self._writer.remove_finalizer(TASKS, cache.tasks.get(key.name, task), FINALIZER_TASK)
