"""How many slices a ScaleGroup has. For now: minSlices are kept, failed ones replaced, maxSlices never exceeded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from iris_operator.api.names import bounded_name
from iris_operator.api.scalegroup import ScaleGroup, ScaleGroupStatus
from iris_operator.api.slice import Slice, SlicePhase
from iris_operator.plan.actions import CreateSlice, Note
from iris_operator.plan.conditions import set_condition, status_of
from iris_operator.plan.text import count, names_text

_BOOTING = (None, SlicePhase.PENDING, SlicePhase.BOOTING, SlicePhase.INITIALIZING)


@dataclass(frozen=True)
class GroupPlan:
    """Slices to make and to delete (failed ones that were replaced), then the group's status."""

    create: tuple[CreateSlice, ...]
    delete: tuple[Slice, ...]
    status: ScaleGroupStatus
    notes: tuple[Note, ...] = ()


def plan_group(group: ScaleGroup, slices: Iterable[Slice], token: Callable[[], str], now: datetime) -> GroupPlan:
    """`slices`: those owned by the group. `token` gives the random end of a new slice's name."""
    own = sorted(slices, key=lambda one: one.metadata.name)
    standing = [one for one in own if not one.deleting]
    failed = [one for one in standing if one.status.phase is SlicePhase.FAILED]
    good = [one for one in standing if one.status.phase is not SlicePhase.FAILED]
    missing = 0 if group.deleting else max(0, group.spec.min_slices - len(good))
    # A failed slice gives up its place only when another takes it: so its reason stays readable until then.
    replaced = failed[: max(0, missing - max(0, group.spec.max_slices - len(own)))] if missing else []
    room = max(0, group.spec.max_slices - len(own))
    create = tuple(CreateSlice(bounded_name(f"{group.metadata.name}-{token()}", 50)) for _ in range(min(missing, room)))
    message = _message(group, good, failed, len(create), missing)
    notes = (Note("Normal", "ScalingUp", message),) if create else ()
    return GroupPlan(create, tuple(replaced), _status(group, own, good, failed, message, missing, now), notes)


def _message(group: ScaleGroup, good: list[Slice], failed: list[Slice], creating: int, missing: int) -> str:
    wanted = f"keeps {count(group.spec.min_slices, 'slice')} (minSlices), has {len(good)}"
    if failed:
        wanted += f" and {len(failed)} failed ({names_text([one.metadata.name for one in failed], 3)})"
    if creating:
        return f"{wanted}: making {creating}"
    if missing:
        return f"{wanted}: can't make {missing} more, at maxSlices {group.spec.max_slices}"
    return f"{wanted}: nothing to do"


def _status(
    group: ScaleGroup,
    own: list[Slice],
    good: list[Slice],
    failed: list[Slice],
    message: str,
    missing: int,
    now: datetime,
) -> ScaleGroupStatus:
    ready = sum(one.status.phase is SlicePhase.READY for one in good)
    satisfied = ready >= group.spec.min_slices
    return ScaleGroupStatus(
        observed_generation=group.metadata.generation,
        slices=len(own),
        ready=ready,
        booting=sum(one.status.phase in _BOOTING for one in good),
        failed=len(failed),
        bounds=f"{group.spec.min_slices}-{group.spec.max_slices}",
        message=message,
        conditions=set_condition(
            group.status.conditions,
            "Ready",
            status_of(satisfied),
            "MinSlicesReady"
            if satisfied
            else "AtMaxSlices"
            if missing and len(own) >= group.spec.max_slices
            else "WaitingForSlices",
            f"{ready} of {count(group.spec.min_slices, 'slice')} Ready; {message}",
            generation=group.metadata.generation,
            now=now,
        ),
    )
