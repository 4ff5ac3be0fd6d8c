"""`iris group`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.cli.group_rows import (
    COLUMNS,
    DECISION_COLUMNS,
    blocked,
    boots,
    bounds,
    data,
    decision_rows,
    row,
)
from iris_operator.cli.output import OUTPUT, console, print_data, table
from iris_operator.cli.session import Session, Target, missing_kinds, run_async, session, target_options
from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import SCALE_GROUPS

_COUNT = click.IntRange(0, 1000)


@click.group("group")
def groups() -> None:
    """See and scale ScaleGroups, and read why they did what they did."""


@groups.command("list")
@OUTPUT
@target_options
def list_(output: str, namespace: str | None, kubeconfig: str | None, context: str | None) -> None:
    """ScaleGroups, with what each has, what it wants, and its last decision."""
    run_async(_list(output, Target(kubeconfig, context, namespace)))


@groups.command()
@click.argument("name")
@click.option("--min", "least", type=_COUNT, help="spec.minSlices: slices that are always kept.")
@click.option("--max", "most", type=_COUNT, help="spec.maxSlices: never more than these.")
@click.option("--buffer", "spare", type=_COUNT, help="spec.bufferSlices: idle slices kept warm.")
@OUTPUT
@target_options
def scale(
    name: str,
    least: int | None,
    most: int | None,
    spare: int | None,
    output: str,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Set the bounds of ScaleGroup NAME. Within them it follows what its Tasks need.

    \b
      iris group scale h100 --min 2 --max 8
      iris group scale h100 --min 0 --buffer 0      down to nothing when no Task needs it
    """
    wanted = {"minSlices": least, "maxSlices": most, "bufferSlices": spare}
    spec = {field: value for field, value in wanted.items() if value is not None}
    if not spec:
        raise click.UsageError("say which bound: --min, --max or --buffer")
    run_async(_scale(name, spec, output, Target(kubeconfig, context, namespace)))


@groups.command()
@click.argument("name")
@OUTPUT
@target_options
def decisions(name: str, output: str, namespace: str | None, kubeconfig: str | None, context: str | None) -> None:
    """The last decisions of ScaleGroup NAME with their reasons, what holds it back, and its last boots."""
    run_async(_decisions(name, output, Target(kubeconfig, context, namespace)))


async def _list(output: str, target: Target) -> None:
    async with session(target) as found:
        listing = await found.api.list(SCALE_GROUPS, found.namespace)
    shown = [ScaleGroup.parse(item) for item in listing.items]
    now = datetime.now(UTC)
    if output != "table":
        print_data([data(one) for one in shown], output)
    elif shown:
        console().print(table(COLUMNS, [row(one, now) for one in shown]))
    else:
        click.echo(f"No ScaleGroup in namespace {found.namespace}. Make one: kubectl apply -f examples/scalegroup.yaml")


async def _scale(name: str, spec: dict[str, Any], output: str, target: Target) -> None:
    async with session(target) as found:
        group = await get_group(found, name)
        body = await found.api.patch(SCALE_GROUPS, group.metadata.name, {"spec": spec}, namespace=found.namespace)
    group = ScaleGroup.parse(body)
    if output == "table":
        click.echo(f"scalegroup/{group.metadata.name} scaled to {bounds(group)}; it has {group.status.slices} now")
    else:
        print_data(data(group), output)


async def _decisions(name: str, output: str, target: Target) -> None:
    async with session(target) as found:
        group = await get_group(found, name)
    if output != "table":
        print_data(data(group), output)
        return
    now, out = datetime.now(UTC), console()
    rows = decision_rows(group, now)
    if rows:
        out.print(table(DECISION_COLUMNS, rows))
    else:
        click.echo(f"ScaleGroup {group.metadata.name} has decided nothing yet. {group.status.message}".rstrip())
    for title, words in (("Blocked", blocked(group)), ("Boots", boots(group))):
        if words:
            click.echo(f"{title}: {words}")


async def get_group(found: Session, text: str) -> ScaleGroup:
    """By `NAME` or `scalegroup/NAME`. ClickException when there is none."""
    name = text.rpartition("/")[2]
    try:
        return ScaleGroup.parse(await found.api.get(SCALE_GROUPS, name, found.namespace))
    except NotFoundError as error:
        if missing_kinds(error):
            raise
        raise click.ClickException(
            f"no ScaleGroup {name} in namespace {found.namespace}: iris group list shows all (another namespace: -n NAME)"
        ) from error
