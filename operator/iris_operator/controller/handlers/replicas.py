"""Reconcile one Task of several replicas: its members, and what it says of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from iris_operator.api.member import ContainerVerdict
from iris_operator.api.names import FINALIZER_TASK
from iris_operator.api.task import Task, TaskStatus
from iris_operator.controller.handlers.stops import write_stop
from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.manifests.member_task import member_task
from iris_operator.plan.tasks.gang import gang_of
from iris_operator.plan.tasks.replicas import ReplicasPlan, plan_replicas
from iris_operator.ports.errors import ConflictError, NotFoundError
from iris_operator.ports.kube import TASKS

log = logging.getLogger(__name__)

_CONCURRENT_WRITES = 16
_CHANGED_SECONDS = 0.2


class ReplicasReconciler:
    """Carries out plan/tasks/replicas. What changed meanwhile is left for the next round, which its change brings."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)
        self._slots = asyncio.Semaphore(_CONCURRENT_WRITES)

    async def reconcile(self, key: Key) -> None:
        """The Task `key.name`; nothing when it is none of several replicas."""
        cache = self._controller.cache
        parent = cache.tasks.get(key.name)
        if parent is None or parent.spec.replicas == 1:
            return
        namespace = parent.metadata.namespace
        gang = gang_of(parent, lambda name: cache.tasks.get(f"{namespace}/{name}"))
        plan = plan_replicas(gang, self._controller.now())
        if plan.recheck_seconds is not None:
            self._controller.queue.add_after(key, plan.recheck_seconds)
        if plan.hold:
            await self._writer.add_finalizer(TASKS, parent, FINALIZER_TASK)
            parent = self._newest(key, parent)
        await self._of_members(key, parent, plan)
        if plan.status is not None:
            await self._writer.status(TASKS, parent, parent.status, plan.status)
        if plan.release:
            await self._writer.remove_finalizer(TASKS, self._newest(key, parent), FINALIZER_TASK)
        if plan.note is not None:
            await self._writer.event(TASKS, parent, plan.note)

    def _newest(self, key: Key, known: Task) -> Task:
        found = self._controller.cache.tasks.get(key.name)
        return known if found is None or found.metadata.uid != known.metadata.uid else found

    async def _of_members(self, key: Key, parent: Task, plan: ReplicasPlan) -> None:
        calls: list[Awaitable[None]] = [
            *(self._create(parent, rank) for rank in plan.create),
            *(write_stop(self._writer, one) for one in plan.stop),
            *(self._writer.delete(TASKS, one) for one in plan.delete),
            *(self._say(one, status) for one, status in plan.say),
            *(self._tell(one, verdict) for one, verdict in plan.tell),
            *(self._writer.metadata(TASKS, one, {}, {"priority": parent.spec.priority}) for one in plan.rank),
        ]
        if not all(await asyncio.gather(*map(self._call, calls))):
            self._controller.queue.add_after(key, _CHANGED_SECONDS)

    async def _call(self, call: Awaitable[None]) -> bool:
        async with self._slots:
            try:
                await call
            except (ConflictError, NotFoundError) as error:
                log.debug("a member changed meanwhile: %s", error)
                return False
        return True

    async def _create(self, parent: Task, rank: int) -> None:
        body, namespace = member_task(parent, rank), parent.metadata.namespace
        try:
            await self._writer.create(TASKS, body, namespace)
        except ConflictError:  # made before, and we were not told; or another Task has that name
            name = body["metadata"]["name"]
            self._controller.observe(TASKS, await self._controller.api.get(TASKS, name, namespace))

    async def _tell(self, member: Task, verdict: ContainerVerdict) -> None:
        await self._writer.metadata(TASKS, member, {}, {"binding": {"member": {"container": verdict.wire()}}})

    async def _say(self, member: Task, status: TaskStatus) -> None:
        await self._writer.status(TASKS, member, member.status, status)
