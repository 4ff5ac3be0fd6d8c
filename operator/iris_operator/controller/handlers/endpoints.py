"""Reconcile the EndpointSlice of one Task: by it the Task's ports join its Service."""

from __future__ import annotations

import logging

from iris_operator.api.core import EndpointSlice
from iris_operator.api.names import endpoint_name
from iris_operator.api.task import Task
from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.manifests.endpoint_slice import endpoint_slice, says_the_same
from iris_operator.plan.tasks.endpoint import endpoint_conditions
from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import ENDPOINT_SLICES, TASKS

log = logging.getLogger(__name__)


class EndpointReconciler:
    """Keeps it as the Task's status says; takes it away when the attempt has ended, or the Task is gone."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)

    async def reconcile(self, key: Key) -> None:
        """Of the Task `key.name`: at most one write for each that is there, and one for the one that is wanted."""
        task = self._controller.cache.tasks.get(key.name)
        wanted = None if task is None else self._wanted(task)
        name = "" if task is None else endpoint_name(task.metadata.name, task.metadata.uid)
        for found in self._controller.cache.endpoints_of(key.name):
            # The family of its addresses can't be changed.
            if found.metadata.name == name and wanted is not None and found.address_type == wanted["addressType"]:
                if says_the_same(found, wanted):
                    return
            elif await self._may_go(found, key.name):
                await self._writer.delete(ENDPOINT_SLICES, found)
        if task is not None and wanted is not None:
            await self._writer.apply(ENDPOINT_SLICES, wanted, task.metadata.namespace)

    def _wanted(self, task: Task) -> dict[str, object] | None:
        conditions = endpoint_conditions(task)
        if conditions is None:
            return None
        try:
            return endpoint_slice(task, conditions)
        except ValueError:
            log.warning("task %s: its address %r is none", task.key, task.status.host_ip)
            return None

    async def _may_go(self, found: EndpointSlice, key: str) -> bool:
        """What our cache lacks may not be listed yet: before an endpoint goes for want of a Task, the API is asked."""
        if key in self._controller.cache.tasks:
            return True
        namespace, name = key.split("/", 1)
        try:
            body = await self._controller.api.get(TASKS, name, namespace)
        except NotFoundError:
            return True
        self._controller.observe(TASKS, body)
        return body["metadata"]["uid"] not in [one.uid for one in found.metadata.owner_references]
