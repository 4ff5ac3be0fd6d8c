"""Reconcile one Task: the operator only speaks where the agent can't."""

from __future__ import annotations

import contextlib
import logging

from iris_operator.api.core import Lease
from iris_operator.api.machine import is_machine
from iris_operator.api.names import FINALIZER_TASK
from iris_operator.api.task import Task
from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.plan.tasks.lifecycle import plan_task
from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import LEASES, PODS, TASKS

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 5.0


class TaskReconciler:
    """Tells of Tasks whose worker is gone, frees those whose attempt is over, lets those go that were deleted."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)

    async def reconcile(self, key: Key) -> None:
        """Plan; one status patch; then the binding or the finalizer. Our own write brings the key back if more follows."""
        cache = self._controller.cache
        task = cache.tasks.get(key.name)
        if task is None:
            return
        plan = plan_task(task, cache.worker_exists(task), self._controller.now(), spot=self._on_spot(task))
        if plan.recheck_seconds is not None:
            self._controller.queue.add_after(key, plan.recheck_seconds)
        if plan.lost and await self._worker_stands(task):
            self._controller.queue.add_after(key, _LOOK_AGAIN_SECONDS)
            return
        if plan.status is not None:
            await self._writer.status(TASKS, task, task.status, plan.status)
        if plan.unbind:
            await self._unbind(task)
        if plan.release:
            await self._writer.remove_finalizer(TASKS, cache.tasks.get(key.name, task), FINALIZER_TASK)
        if plan.note is not None:
            await self._writer.event(TASKS, task, plan.note)

    def _on_spot(self, task: Task) -> bool:
        binding = task.spec.binding
        found = (
            self._controller.cache.slices.get(f"{task.metadata.namespace}/{binding.slice_name}") if binding else None
        )
        return found is not None and found.spec.compute_class == "spot"

    async def _worker_stands(self, task: Task) -> bool:
        """Asked of the API: what our cache lacks may only have left its label, or not be listed yet."""
        binding = task.spec.binding
        assert binding is not None
        name, namespace = binding.worker_pod, task.metadata.namespace
        with contextlib.suppress(NotFoundError):
            if (await self._controller.api.get(PODS, name, namespace))["metadata"]["uid"] == binding.worker_uid:
                return True
        try:
            lease = Lease.parse(await self._controller.api.get(LEASES, name, namespace))
        except NotFoundError:
            return False
        return is_machine(lease) and lease.spec.holder_identity == binding.worker_uid

    async def _unbind(self, task: Task) -> None:
        """Binding and finalizer in one write: between attempts nothing holds a Task that its user deletes."""
        left = [one for one in task.metadata.finalizers if one != FINALIZER_TASK]
        try:
            await self._writer.metadata(TASKS, task, {"finalizers": left}, {"binding": None})
        except NotFoundError:
            log.debug("task %s is gone already", task.key)
