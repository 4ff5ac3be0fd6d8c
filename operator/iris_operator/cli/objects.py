"""Finding Iris objects by what a person types: `NAME`, `task/NAME`, `slice/NAME`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import click

from iris_operator.api.base import Resource
from iris_operator.api.cluster import IrisCluster
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.cli.session import Session
from iris_operator.ports.errors import GoneError, NotFoundError, UnavailableError
from iris_operator.ports.kube import IRIS_CLUSTERS, SCALE_GROUPS, SLICES, TASKS, Kind

KINDS: dict[str, tuple[Kind, type[Resource]]] = {
    "task": (TASKS, Task),
    "slice": (SLICES, Slice),
    "scalegroup": (SCALE_GROUPS, ScaleGroup),
    "iriscluster": (IRIS_CLUSTERS, IrisCluster),
}
_ALIASES = {
    "tk": "task",
    "tasks": "task",
    "sl": "slice",
    "slices": "slice",
    "sg": "scalegroup",
    "group": "scalegroup",
    "groups": "scalegroup",
    "scalegroups": "scalegroup",
    "ic": "iriscluster",
    "cluster": "iriscluster",
    "irisclusters": "iriscluster",
}
_AGAIN_SECONDS = 1.0


async def find(session: Session, text: str) -> list[Resource]:
    """The objects of that name, of the kind given, or of every kind that has one. UsageError when there is none."""
    kind, slash, name = text.partition("/")
    plain = kind.lower().removesuffix(".iris.dev")  # as kubectl -o name has it
    wanted = [_ALIASES.get(plain, plain)] if slash else list(KINDS)
    if wanted[0] not in KINDS:
        raise click.UsageError(f"{kind!r} is no kind of Iris: {', '.join(KINDS)}")
    found = await asyncio.gather(*(_get(session, one, name if slash else text) for one in wanted))
    objects = [one for one in found if one is not None]
    if not objects:
        what = wanted[0].capitalize() if slash else "Task, Slice, ScaleGroup or IrisCluster"
        raise click.ClickException(f"no {what} {name if slash else text} in namespace {session.namespace}")
    return objects


async def get_task(session: Session, name: str) -> Task:
    """One Task. ClickException when there is none of that name."""
    try:
        return Task.parse(await session.api.get(TASKS, name.removeprefix("task/"), session.namespace))
    except NotFoundError as error:
        if "could not find the requested resource" in error.message:
            raise
        raise click.ClickException(
            f"no Task {name} in namespace {session.namespace} (another one: -n NAMESPACE)"
        ) from error


async def watch_task(session: Session, name: str) -> AsyncIterator[Task | None]:
    """The Task now and at every change; None when it is gone, and that is the end."""
    selector = f"metadata.name={name}"
    while True:
        try:
            listing = await session.api.list(TASKS, session.namespace, fields=selector)
            if not listing.items:
                yield None
                return
            yield Task.parse(listing.items[0])
            watching = session.api.watch(
                TASKS, session.namespace, resource_version=listing.resource_version, fields=selector
            )
            async for event in watching:
                if event.type == "DELETED":
                    yield None
                    return
                if event.type != "BOOKMARK":
                    yield Task.parse(event.body)
        except (GoneError, UnavailableError):
            await asyncio.sleep(_AGAIN_SECONDS)


async def _get(session: Session, kind: str, name: str) -> Resource | None:
    try:
        return KINDS[kind][1].parse(await session.api.get(KINDS[kind][0], name, session.namespace))
    except NotFoundError as error:
        if "could not find the requested resource" in error.message:
            raise
        return None
