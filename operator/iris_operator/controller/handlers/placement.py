"""One pass over a namespace: bind what fits, let its groups grow and shrink, say why the rest waits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable

from iris_operator.api.cluster import Autoscaler
from iris_operator.api.names import FINALIZER_TASK
from iris_operator.api.task import Task
from iris_operator.controller.handlers.groups import GroupWork
from iris_operator.controller.handlers.stops import stop_task
from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.plan.actions import BindTask, Preempt, StopTask
from iris_operator.plan.groups.fleet import plan_fleet
from iris_operator.plan.placement.ledger import Ledger
from iris_operator.plan.placement.placement import Denied, PlacementPlan, Unplaced, plan_placement
from iris_operator.plan.tasks.lifecycle import TaskPlan, never_placed, plan_waiting
from iris_operator.plan.tasks.policy import POLICY_DENIED
from iris_operator.ports.errors import ConflictError, NotFoundError
from iris_operator.ports.kube import TASKS

log = logging.getLogger(__name__)

_CONCURRENT_WRITES = 16
# Words about work that can't run must not slow the work that can.
_WAITING_WRITES_PER_PASS = 20
# A Task that changed just as it was to be stopped: those that were told must not have ended for nothing.
_HALF_STOPPED_SECONDS = 0.1
# Placement answers every change; groups are looked at no more often than this.
_FLEET_SECONDS = 1.0


class PlacementReconciler:
    """One pass at a time per namespace (the queue sees to it)."""

    def __init__(self, controller: Controller, clock: Callable[[], float] = time.monotonic) -> None:
        self._controller, self._clock = controller, clock
        self._writer = Writer(controller)
        self._groups = GroupWork(controller)
        self._slots = asyncio.Semaphore(_CONCURRENT_WRITES)
        self._ledgers: defaultdict[str, Ledger] = defaultdict(Ledger)  # caches only: what they say is in the API
        self._looked: dict[str, float] = {}

    async def reconcile(self, key: Key) -> None:
        """Place and bind; then, unless that was done a moment ago, the groups."""
        now = self._controller.now()
        plan = plan_placement(self._controller.cache.placement_view(key.name), now, self._ledgers[key.name])
        await asyncio.gather(*(self._bind(one) for one in plan.bindings), *(self._deny(one) for one in plan.denied))
        wait = self._looked.get(key.name, -_FLEET_SECONDS) + _FLEET_SECONDS - self._clock()
        if wait > 0:
            self._controller.queue.add_after(key, wait)
            return
        self._looked[key.name] = self._clock()
        await self._fleet(key, plan)

    async def _fleet(self, key: Key, placement: PlacementPlan) -> None:
        view = self._controller.cache.fleet_view(key.name)
        plan = plan_fleet(view, placement, self._controller.now(), self._ledgers[key.name])
        await asyncio.gather(*(self._preempt(one, key) for one in plan.preempts))
        for group in plan.groups:
            again = await self._groups.carry_out(group)
            if again is not None:
                self._controller.queue.add_after(key, again)
        if plan.look_again_seconds is not None:
            self._controller.queue.add_after(key, plan.look_again_seconds)
        if view.groups:
            self._controller.queue.add_after(key, self._interval(key.name))
        await self._explain(key, plan.waiting)

    def _interval(self, namespace: str) -> float:
        found = [
            one.spec.autoscaler.evaluation_interval_seconds
            for one in self._controller.cache.clusters.values()
            if one.metadata.namespace == namespace
        ]
        return min(found, default=Autoscaler().evaluation_interval_seconds)

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

    async def _preempt(self, action: Preempt, key: Key) -> None:
        log.info("task %s: %s", action.task.key, action.note.message)
        if all(await asyncio.gather(*(self._stop(one) for one in action.stops))):
            await self._writer.event(TASKS, action.task, action.note)
            return
        self._looked.pop(key.name, None)
        self._controller.queue.add_after(key, _HALF_STOPPED_SECONDS)

    async def _stop(self, action: StopTask) -> bool:
        async with self._slots:
            return await stop_task(self._writer, action)

    async def _deny(self, denied: Denied) -> None:
        async with self._slots:
            await self._say(
                denied.task, never_placed(denied.task, POLICY_DENIED, denied.message, self._controller.now())
            )

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
            await self._say(one.task, plan)

    async def _say(self, task: Task, plan: TaskPlan) -> None:
        """Its status, then its Event; nothing when it changed meanwhile: that brings the next pass."""
        if plan.status is None:
            return
        try:
            await self._writer.status(TASKS, task, task.status, plan.status)
        except (ConflictError, NotFoundError):
            log.debug("task %s changed meanwhile", task.key)
            return
        if plan.note is not None:
            await self._writer.event(TASKS, task, plan.note)
