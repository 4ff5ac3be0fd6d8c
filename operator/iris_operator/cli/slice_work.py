"""What the commands of `iris slice` do: on each slice named, then one word for each, and the faults of all at the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import click

from iris_operator.api.slice import Availability, Slice
from iris_operator.cli.output import console, print_data, table
from iris_operator.cli.session import Session, Target, session
from iris_operator.cli.slice_changes import Change, Changed, apply, availability, delete, each, get_slice
from iris_operator.cli.slice_display import display
from iris_operator.cli.slice_rows import COLUMNS, data, row
from iris_operator.cli.slice_wait import Goal, Left, wait
from iris_operator.plan.text import duration
from iris_operator.ports.kube import SLICES


async def list_slices(names: Sequence[str], group: str, output: str, target: Target) -> None:
    """Print them all, or those named, or those of a group."""
    async with session(target) as found:
        if names:
            one_by_one, faults = await each(names, lambda name: get_slice(found, name))
        else:
            listing = await found.api.list(SLICES, found.namespace)
            one_by_one, faults = [Slice.parse(item) for item in listing.items], []
    shown = [one for one in one_by_one if not group or one.spec.scale_group_name == group]
    now = datetime.now(UTC)
    if output != "table":
        print_data([data(one) for one in shown], output)
    elif shown:
        console().print(table(COLUMNS, [row(one, now) for one in shown]))
    elif not faults:
        whose = f" of ScaleGroup {group}" if group else ""
        click.echo(f"No Slice{whose} in namespace {found.namespace}. Make one: kubectl apply -f examples/slice.yaml")
    _fail(faults)


async def change_slices(names: Sequence[str], change: Change, output: str, target: Target) -> None:
    """One change of each."""
    async with session(target) as found:
        changed, faults = await each(names, lambda name: apply(found, name, change))
    _say(changed, change.word, output)
    _fail(faults)


async def drain_slices(
    names: Sequence[str], waiting: bool, timeout: timedelta | None, output: str, target: Target
) -> None:
    """Drain each, and wait unless told not to."""
    change = availability("draining", Availability.DRAINED)
    async with session(target) as found:
        changed, faults = await each(names, lambda name: apply(found, name, change))
        if not waiting:
            _say(changed, change.word, output)
            _fail(faults)
            return
        goals = [Goal(one.slice) for one in changed]
        faults += await _wait(found, goals, timeout, output, "The drain goes on. Undo it: iris slice uncordon NAME")
    _fail(faults)


async def delete_slices(
    names: Sequence[str], force: bool, waiting: bool, timeout: timedelta | None, output: str, target: Target
) -> None:
    """Delete each, and wait unless told not to."""
    async with session(target) as found:
        asked, faults = await each(names, lambda name: delete(found, name, force=force))
        if waiting:
            goals = [Goal(one, gone=True) for one in asked]
            faults += await _wait(found, goals, timeout, output, "The deletion goes on. See it: iris slice list")
        else:
            _say([Changed(one, True) for one in asked], "being deleted", output)
    _fail(faults)


async def _wait(
    found: Session, goals: Sequence[Goal], timeout: timedelta | None, output: str, interrupted: str
) -> list[str]:
    """Wait and say how each ended; why the others have not."""
    last: list[Left] = []
    try:
        with display() as show:

            def look(lefts: Sequence[Left]) -> None:
                last[:] = lefts
                show(lefts)

            unfinished = await wait(found, goals, timeout, look, time.monotonic) if goals else []
    except asyncio.CancelledError:
        click.echo(interrupted, err=True)
        raise
    if output == "table":
        for one in last:
            if one.end:
                click.echo(one.line)
    else:
        print_data([{"name": one.goal.name, "ended": bool(one.end), "message": one.line} for one in last], output)
    after = duration(timeout.total_seconds()) if timeout else ""
    return [f"{one.line} (after {after}). {interrupted}" for one in unfinished]


def _say(changed: Sequence[Changed], word: str, output: str) -> None:
    if output != "table":
        print_data([data(one.slice) for one in changed], output)
        return
    for one in changed:
        click.echo(f"slice/{one.slice.metadata.name} {word}{'' if one.done else ' already'}")


def _fail(faults: Sequence[str]) -> None:
    if faults:
        raise click.ClickException("\n".join(faults))
