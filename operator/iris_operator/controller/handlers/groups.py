"""Carry out what the fleet pass planned for one ScaleGroup: calls first, then one status patch, then Events."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import singledispatchmethod
from itertools import groupby

from iris_operator.api.names import ANNOTATION_RETIRING, ANNOTATION_RETIRING_FROM, ANNOTATION_RETIRING_SINCE
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Availability
from iris_operator.controller.memo import Controller
from iris_operator.controller.writer import Writer
from iris_operator.manifests.group_slice import group_slice
from iris_operator.plan.actions import CordonSlice, CreateSlice, DeleteSlice, GroupAction, UncordonSlice
from iris_operator.plan.groups.fleet import GroupPlan
from iris_operator.plan.groups.status import accepted
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.ports.kube import SCALE_GROUPS, SLICES

log = logging.getLogger(__name__)

_CONCURRENT_WRITES = 16
_CHANGED_SECONDS = 1.0
_REFUSED_SECONDS = 5.0


@dataclass(frozen=True)
class _Trouble:
    """An action that was not carried out: when to try again, and for people why, if it isn't a mere change meanwhile."""

    wait_seconds: float
    words: str = ""


class GroupWork:
    """Makes, cordons, uncordons and deletes slices. What changed since it was looked at is left for the next pass."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)
        self._slots = asyncio.Semaphore(_CONCURRENT_WRITES)

    async def carry_out(self, plan: GroupPlan) -> float | None:
        """Seconds after which to look again, since not all could be done; None: all is done, and told."""
        troubles: list[_Trouble] = []
        for _, some in groupby(plan.actions, type):  # kinds in order, each at once
            troubles += [one for one in await asyncio.gather(*(self._do(one, plan.group) for one in some)) if one]
        refused = next((one.words for one in troubles if one.words), "")
        # The planned status would tell of decisions that were not carried out.
        status = plan.group.status if troubles else plan.status
        status = accepted(plan.group, status, refused, self._controller.now())
        try:
            await self._writer.status(SCALE_GROUPS, plan.group, plan.group.status, status)
        except (ConflictError, NotFoundError):
            return _CHANGED_SECONDS
        if troubles:
            return min(one.wait_seconds for one in troubles)
        for note in plan.notes:
            await self._writer.event(SCALE_GROUPS, plan.group, note)
        return None

    async def _do(self, action: GroupAction, group: ScaleGroup) -> _Trouble | None:
        """None when it is done."""
        name = action.name if isinstance(action, CreateSlice) else action.slice.metadata.name
        log.info("group %s: %s %s: %s", group.key, type(action).__name__, name, action.reason)
        async with self._slots:
            try:
                await self._act(action, group)
            except (ConflictError, NotFoundError) as error:
                log.info("group %s: slice %s changed meanwhile: %s", group.key, name, error.message)
                return _Trouble(_CHANGED_SECONDS)
            except ApiError as error:  # one group's trouble must not hold up the others
                log.warning("group %s: %s %s: %s", group.key, type(action).__name__, name, error)
                verb = type(action).__name__.removesuffix("Slice").lower()
                # A new slice has another name at each try: words that change would be a write each.
                what, said = f"slice {name}", error.message or str(error)
                if isinstance(action, CreateSlice):
                    what, said = "a slice", said.replace(name, "NAME")
                return _Trouble(_REFUSED_SECONDS, f"the API refuses to {verb} {what}: {said}")
        return None

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
