"""Tasks of several replicas: who their members are, for commands that a person gives for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from iris_operator.api.names import LABEL_TASK, bounded_name, member_name
from iris_operator.api.task import Task
from iris_operator.cli.objects import get_task
from iris_operator.cli.session import Session
from iris_operator.ports.kube import TASKS

_LOOK_SECONDS = 0.2
# The operator makes members at once; one that takes longer is away.
_PATIENCE_SECONDS = 15.0


async def members_of(session: Session, parent: Task) -> list[Task]:
    """Those that are there, by rank."""
    labels = f"{LABEL_TASK}={bounded_name(parent.metadata.name)}"
    found = [Task.parse(one) for one in (await session.api.list(TASKS, session.namespace, labels=labels)).items]
    mine = {one.metadata.name: one for one in found if one.owner_uid == parent.metadata.uid}
    names = member_names(parent)
    return [mine[name] for name in names if name in mine]


def member_names(parent: Task) -> list[str]:
    """Names of all that there should be, by rank."""
    return [member_name(parent.metadata.name, rank) for rank in range(parent.spec.replicas)]


async def wait_for_members(session: Session, parent: Task) -> None:
    """Until all are made. ClickException when they are not for long."""
    for _ in range(int(_PATIENCE_SECONDS / _LOOK_SECONDS)):
        if len(await members_of(session, parent)) == parent.spec.replicas:
            return
        await asyncio.sleep(_LOOK_SECONDS)
        parent = await get_task(session, parent.metadata.name)
        if parent.ended:
            break
    raise click.ClickException(f"Task {parent.metadata.name} has not all its members: iris why {parent.metadata.name}")


def facts_of(members: Sequence[Task]) -> list[tuple[str, str]]:
    """One line for each: where it is, and why."""
    found = []
    for one in members:
        status, binding = one.status, one.spec.binding
        where = f" on node {binding.node_name}" if binding is not None and not one.ended else ""
        why = ": ".join(part for part in (status.reason, status.message) if part)
        phase = status.phase or ("Assigned" if binding is not None else "Pending")
        found.append((one.metadata.name, f"{phase}{where}" + (f": {why}" if why else "")))
    return found
