"""Carry out what the fleet pass planned for one ScaleGroup: calls first, then one status patch, then Events."""

from __future__ import annotations

import asyncio
import logging
from functools import singledispatchmethod
from itertools import groupby

from iris_operator.api.names import ANNOTATION_RETIRING, ANNOTATION_RETIRING_FROM, ANNOTATION_RETIRING_SINCE
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Availability
from iris_operator.controller.memo import Controller
from iris_operator.controller.writer import Writer
from iris_operator.manifests.group_slice import group_slice
from iris_operator.plan.actions import CordonSlice, CreateSlice, DeleteSlice, GroupAction, UncordonSlice
from iris_operator.plan.fleet import GroupPlan
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.ports.kube import SCALE_GROUPS, SLICES

log = logging.getLogger(__name__)

_CONCURRENT_WRITES = 16
_CHANGED_SECONDS = 1.0
_REFUSED_SECONDS = 5.0


class GroupWork:
    """Makes, cordons, uncordons and deletes slices. What changed since it was looked at is left for the next pass."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)
        self._slots = asyncio.Semaphore(_CONCURRENT_WRITES)

    async def carry_out(self, plan: GroupPlan) -> float | None:
        """Seconds after which to look again, since not all could be done; None: all is done, and told."""
        waits: list[float] = []
        for _, some in groupby(plan.actions, type):  # kinds in order, each at once
            waits += [wait for wait in await asyncio.gather(*(self._do(one, plan.group) for one in some)) if wait]
        if waits:
            # The status would tell of decisions that were not carried out.
            return min(waits)
        try:
            await self._writer.status(SCALE_GROUPS, plan.group, plan.group.status, plan.status)
        except (ConflictError, NotFoundError):
            return _CHANGED_SECONDS
        for note in plan.notes:
            await self._writer.event(SCALE_GROUPS, plan.group, note)
        return None

    async def _do(self, action: GroupAction, group: ScaleGroup) -> float:
        """0, or after how many seconds to try again."""
        name = action.name if isinstance(action, CreateSlice) else action.slice.metadata.name
        log.info("group %s: %s %s: %s", group.key, type(action).__name__, name, action.reason)
        async with self._slots:
            try:
                await self._act(action, group)
            except (ConflictError, NotFoundError) as error:
                log.info("group %s: slice %s changed meanwhile: %s", group.key, name, error.message)
                return _CHANGED_SECONDS
            except ApiError as error:  # one group's trouble must not hold up the others
                log.warning("group %s: %s %s: %s", group.key, type(action).__name__, name, error)
                return _REFUSED_SECONDS
        return 0.0

    @singledispatchmethod
    async def _act(self, action: GroupAction, group: ScaleGroup) -> None:
        raise TypeError(f"no way to do {action}")

    @_act.register
    async def _(self, action: CreateSlice, group: ScaleGroup) -> None:
        namespace = group.metadata.namespace
        try:
            await self._writer.create(SLICES, group_slice(group, action.name), namespace)
        except ConflictError:  # made before, by a call whose answer was lost
            self._controller.observe(SLICES, await self._controller.api.get(SLICES, action.name, namespace))

    @_act.register
    async def _(self, action: CordonSlice, group: ScaleGroup) -> None:
        since = self._controller.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        notes = {ANNOTATION_RETIRING: action.reason, ANNOTATION_RETIRING_SINCE: since}
        before = action.slice.spec.availability
        if before is not Availability.SCHEDULABLE and ANNOTATION_RETIRING not in action.slice.metadata.annotations:
            notes[ANNOTATION_RETIRING_FROM] = str(before)  # a person's wish, to be put back if the slice stays
        await self._writer.metadata(
            SLICES, action.slice, {"annotations": notes}, {"availability": str(Availability.CORDONED)}
        )

    @_act.register
    async def _(self, action: UncordonSlice, group: ScaleGroup) -> None:
        names = (ANNOTATION_RETIRING, ANNOTATION_RETIRING_SINCE, ANNOTATION_RETIRING_FROM)
        notes = action.slice.metadata.annotations
        now = action.slice.spec.availability
        after = notes.get(ANNOTATION_RETIRING_FROM) if now is Availability.CORDONED else now
        availability = str(after or Availability.SCHEDULABLE)
        gone = {name: None for name in names if name in notes}
        await self._writer.metadata(SLICES, action.slice, {"annotations": gone}, {"availability": availability})

    @_act.register
    async def _(self, action: DeleteSlice, group: ScaleGroup) -> None:
        await self._writer.delete(SLICES, action.slice, unchanged=True)
