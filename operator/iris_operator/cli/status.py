"""`iris status`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import click

from iris_operator.api.base import Resource
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.cli.objects import find
from iris_operator.cli.output import OUTPUT, age, console, print_data, table
from iris_operator.cli.report import Report, report
from iris_operator.cli.session import Session, Target, run_async, session, target_options
from iris_operator.ports.kube import SCALE_GROUPS, SLICES, TASKS, Kind


@click.command()
@click.argument("names", nargs=-1, metavar="[TASK|SLICE|GROUP]...")
@OUTPUT
@target_options
def status(
    names: tuple[str, ...], output: str, namespace: str | None, kubeconfig: str | None, context: str | None
) -> None:
    """One line per ScaleGroup, Slice and Task: where it is, since when, and what it waits for or how it ended.

    \b
      iris status               all of the namespace
      iris status hello         by name
      iris status slice/hello   by kind and name
    """
    run_async(_status(names, output, Target(kubeconfig, context, namespace)))


async def _status(names: tuple[str, ...], output: str, target: Target) -> None:
    async with session(target) as found:
        objects = await _named(found, names) if names else await _all(found)
        namespace = found.namespace
    now = datetime.now(UTC)
    reports = [report(one, now) for one in objects]
    if output != "table":
        print_data([one.data() for one in reports], output)
    elif not reports:
        click.echo(f"Nothing of Iris in namespace {namespace}. Begin with: kubectl apply -f examples/slice.yaml")
    else:
        rows = [[f"{one.kind.lower()}/{one.name}", one.phase, age(one.since, now), _line(one)] for one in reports]
        console().print(table(("NAME", "PHASE", "SINCE", "WHY"), rows))


def _line(one: Report) -> str:
    return one.summary.replace("\n", " ")


async def _named(found: Session, names: tuple[str, ...]) -> list[Resource]:
    return [one for group in await asyncio.gather(*(find(found, name) for name in names)) for one in group]


async def _all(found: Session) -> list[Resource]:
    kinds: dict[Kind, type[Resource]] = {SCALE_GROUPS: ScaleGroup, SLICES: Slice, TASKS: Task}
    listings = await asyncio.gather(*(found.api.list(kind, found.namespace) for kind in kinds))
    return [model.parse(item) for model, one in zip(kinds.values(), listings, strict=True) for item in one.items]
