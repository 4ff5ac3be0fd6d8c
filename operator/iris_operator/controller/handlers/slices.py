"""Reconcile one Slice."""

from __future__ import annotations

import logging
from dataclasses import replace

from iris_operator.api.slice import FailureKind, Slice, SlicePhase
from iris_operator.controller.handlers.slice_actions import SliceActions, words
from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.plan.actions import DeleteSlice, RemoveFinalizer
from iris_operator.plan.slices.lifecycle import plan_slice
from iris_operator.plan.slices.obstacles import Held
from iris_operator.plan.slices.plan import SlicePlan, lets_go
from iris_operator.plan.slices.snapshot import SliceView
from iris_operator.ports.errors import ApiError
from iris_operator.ports.kube import EVENTS, SLICES

log = logging.getLogger(__name__)

_EVENTS_NAMESPACE = "default"  # where Events on cluster-scoped objects are


class SliceReconciler:
    """Brings one Slice nearer to what it should be."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)
        self._actions = SliceActions(controller, self._writer)

    async def reconcile(self, key: Key) -> None:
        """Plan, act, then one status patch. What can't be done is planned with once more, and tried again later."""
        owner = self._controller.cache.slices.get(key.name)
        if owner is None:
            return
        view = self._controller.cache.slice_view(owner)
        plan = await self._plan_with_events(view)
        if lets_go(owner, plan) and not await self._actions.nothing_left(owner):
            self._controller.queue.add_after(key, 1.0)  # its NodePool stands; now the cache knows
            return
        held = await self._act(plan, owner)
        if any(isinstance(action, (RemoveFinalizer, DeleteSlice)) for action in plan.actions):
            return
        fresh = self._view(owner)
        if held is not None:
            plan = self._plan(replace(fresh, obstacle=held.obstacle))
        elif fresh.node_pool is not view.node_pool or fresh.pods.keys() != view.pods.keys():
            return  # what the plan was made from is no more: the next pass, queued by now, has a better word to write
        await self._tell(key, owner, plan)
        if held is not None and plan.status.phase is not SlicePhase.FAILED:
            self._later(key, held)

    def _plan(self, view: SliceView) -> SlicePlan:
        return plan_slice(view, self._controller.now())

    def _view(self, owner: Slice) -> SliceView:
        """As it is now: our own actions may have made it newer."""
        cache = self._controller.cache
        return cache.slice_view(cache.slices.get(owner.key, owner))

    async def _plan_with_events(self, view: SliceView) -> SlicePlan:
        """The plan. A boot that is merely slow may have its reason in the vendor's Events: asked for once, at its end."""
        plan = self._plan(view)
        if view.slice.status.phase is SlicePhase.FAILED or plan.status.phase is not SlicePhase.FAILED:
            return plan
        if plan.status.failure is not FailureKind.SLOW or view.node_pool is None:
            return plan
        name = view.node_pool.metadata.name
        try:
            listing = await self._controller.api.list(EVENTS, _EVENTS_NAMESPACE, fields=f"regarding.name={name}")
        except ApiError as error:
            log.info("slice %s: its NodePool's Events can't be read: %s", view.slice.key, error)
            return plan
        reasons = {str(item.get("reason", "")) for item in listing.items if item.get("type") == "Warning"}
        return self._plan(replace(view, pool_events=tuple(sorted(reasons)))) if reasons else plan

    async def _act(self, plan: SlicePlan, owner: Slice) -> Held | None:
        """Do what the plan says, up to the first that can't be done now."""
        for action in plan.actions:
            log.info("slice %s: %s", owner.key, words(action))
            try:
                await self._actions.do(action, owner)
            except Held as held:
                return held
        return None

    async def _tell(self, key: Key, owner: Slice, plan: SlicePlan) -> None:
        newest = self._controller.cache.slices.get(owner.key, owner)  # our own actions may have made it newer
        await self._writer.status(SLICES, newest, owner.status, plan.status)
        for note in plan.notes:
            await self._writer.event(SLICES, owner, note)
        if plan.recheck_seconds is not None:
            self._controller.queue.add_after(key, plan.recheck_seconds)

    def _later(self, key: Key, held: Held) -> None:
        if held.error is not None:
            raise held.error  # tried again with backoff, for ever
        self._controller.queue.add_after(key, held.wait_seconds)
