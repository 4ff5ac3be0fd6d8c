"""`iris why`."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from rich.console import Console
from rich.text import Text

from iris_operator.api.base import Resource
from iris_operator.api.task import Task
from iris_operator.cli.members import members_of
from iris_operator.cli.objects import find
from iris_operator.cli.output import OUTPUT, age, console, phase_text, print_data, table
from iris_operator.cli.report import Report, report
from iris_operator.cli.session import Session, Target, run_async, session, target_options
from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import SLICES


@click.command()
@click.argument("name")
@OUTPUT
@target_options
def why(name: str, output: str, namespace: str | None, kubeconfig: str | None, context: str | None) -> None:
    """Say why NAME waits, or how it ended, and what to do about it.

    NAME is a Task, a Slice, a ScaleGroup or an IrisCluster; task/NAME or slice/NAME when several have that name.
    """
    run_async(_why(name, output, Target(kubeconfig, context, namespace)))


async def _why(name: str, output: str, target: Target) -> None:
    async with session(target) as found:
        objects = await find(found, name)
        objects += await _slices_of(found, objects)
        members = {one.metadata.uid: await _members_of(found, one) for one in objects}
    now = datetime.now(UTC)
    reports = [report(one, now, members[one.metadata.uid]) for one in objects]
    if output != "table":
        print_data([one.data() for one in reports], output)
        return
    out = console()
    for index, one in enumerate(reports):
        if index:
            out.print()
        _print(out, one, now)


async def _slices_of(found: Session, objects: list[Resource]) -> list[Resource]:
    """A Task that doesn't run yet waits on its slice: show that too."""
    from iris_operator.api.slice import Slice

    slices: list[Resource] = []
    for one in objects:
        if not isinstance(one, Task) or one.status.start_time is not None:
            continue
        name = one.spec.binding.slice_name if one.spec.binding else one.spec.placement.slice_name
        if name and not any(isinstance(other, Slice) and other.metadata.name == name for other in objects):
            try:
                slices.append(Slice.parse(await found.api.get(SLICES, name, found.namespace)))
            except NotFoundError:
                continue
    return slices


async def _members_of(found: Session, one: Resource) -> list[Task]:
    return await members_of(found, one) if isinstance(one, Task) and one.spec.replicas > 1 else []


def _print(out: Console, one: Report, now: datetime) -> None:
    since = age(one.since, now)
    head = Text.assemble((f"{one.kind} {one.name}", "bold"), ": ", phase_text(one.phase))
    out.print(head + Text(f" for {since}" if since else ""))
    if one.summary:
        out.print(Text(f"  {one.summary}"))
    for name, value in one.facts:
        out.print(Text(f"  {name + ': ':<15}{value}"))
    if one.conditions:
        rows = [
            [f"  {each.type}", each.status, age(each.last_transition_time, now), each.reason, each.message]
            for each in one.conditions
        ]
        out.print(table(("  CONDITION", "STATUS", "FOR", "REASON", "MESSAGE"), rows))
    for line in one.advice:
        out.print(Text(f"  -> {line}", style="cyan"))
