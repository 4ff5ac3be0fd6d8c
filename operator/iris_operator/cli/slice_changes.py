"""What `iris slice` changes on a Slice: spec.availability, spec.holdUntil and annotations, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from iris_operator.api.names import ANNOTATION_FORCE_DELETE, ANNOTATION_RETIRING, ANNOTATION_RETIRING_SINCE
from iris_operator.api.slice import Availability, Slice
from iris_operator.cli.session import Session, explain, missing_kinds
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.ports.kube import SLICES

T = TypeVar("T")
Patch = dict[str, Any]


class Refusal(Exception):
    """Why one slice was not changed, for a person."""


@dataclass(frozen=True)
class Change:
    """A change and its word. `patch`: a merge patch for the slice as it is; None when it is so already."""

    word: str
    patch: Callable[[Slice], Patch | None]


@dataclass(frozen=True)
class Changed:
    """A slice after the change; `done` is False when it was so already."""

    slice: Slice
    done: bool


def availability(word: str, wanted: Availability) -> Change:
    """Cordon, drain or uncordon."""

    def patch(found: Slice) -> Patch | None:
        change: Patch = {}
        if found.spec.availability is not wanted:
            change["spec"] = {"availability": wanted.value}
        if wanted is Availability.SCHEDULABLE and ANNOTATION_RETIRING in found.metadata.annotations:
            change["metadata"] = {"annotations": {ANNOTATION_RETIRING: None, ANNOTATION_RETIRING_SINCE: None}}
        return change or None

    return Change(word, patch)


def hold(until: datetime | None) -> Change:
    """Keep it until then though idle; None: no longer."""

    def patch(found: Slice) -> Patch | None:
        if found.spec.hold_until == until:
            return None
        return {"spec": {"holdUntil": until.strftime("%Y-%m-%dT%H:%M:%SZ") if until else None}}

    return Change(f"held until {until:%Y-%m-%d %H:%M:%S} UTC" if until else "released", patch)


def force_delete() -> Change:
    """Mark it as to be deleted in spite of its deletionProtection."""

    def patch(found: Slice) -> Patch | None:
        if found.metadata.annotations.get(ANNOTATION_FORCE_DELETE) == "true":
            return None
        return {"metadata": {"annotations": {ANNOTATION_FORCE_DELETE: "true"}}}

    return Change("marked", patch)


def slice_name(text: str) -> str:
    """`NAME` of what a person or `kubectl -o name` writes: `NAME`, `slice/NAME`, `slice.iris.dev/NAME`."""
    return text.rpartition("/")[2]


async def each(names: Sequence[str], work: Callable[[str], Awaitable[T]]) -> tuple[list[T], list[str]]:
    """`work` on every slice of that name, once each; what came of it, and why it failed for the others."""
    wanted = list(dict.fromkeys(slice_name(name) for name in names))
    ended = await asyncio.gather(*(_tried(work, name) for name in wanted))
    return [one for one in ended if not isinstance(one, str)], [one for one in ended if isinstance(one, str)]


async def _tried(work: Callable[[str], Awaitable[T]], name: str) -> T | str:
    try:
        return await work(name)
    except Refusal as refusal:
        return str(refusal)
    except ApiError as error:
        if missing_kinds(error):
            raise
        return f"Slice {name}: {explain(error)}"


async def get_slice(found: Session, name: str) -> Slice:
    """Refusal when there is none of that name."""
    try:
        return Slice.parse(await found.api.get(SLICES, name, found.namespace))
    except NotFoundError as error:
        if missing_kinds(error):
            raise
        raise Refusal(
            f"no Slice {name} in namespace {found.namespace}: iris slice list shows all (another namespace: -n NAME)"
        ) from error


async def apply(found: Session, name: str, change: Change) -> Changed:
    """Refusal when it is being deleted: nothing brings it back."""
    one = await get_slice(found, name)
    if one.deleting:
        raise Refusal(f"Slice {name} is being deleted, and can't be {change.word} any more: {one.status.message}")
    patch = change.patch(one)
    if patch is None:
        return Changed(one, False)
    return Changed(Slice.parse(await found.api.patch(SLICES, name, patch, namespace=found.namespace)), True)


async def delete(found: Session, name: str, *, force: bool) -> Slice:
    """Ask for its deletion; as it was before. Asked for already: that is no fault."""
    one = await get_slice(found, name)
    if not one.deleting:
        if force:
            one = (await apply(found, name, force_delete())).slice
        try:
            await found.api.delete(SLICES, name, found.namespace, uid=one.metadata.uid)
        except (NotFoundError, ConflictError):
            return one  # someone was quicker, and perhaps made another
    return one
