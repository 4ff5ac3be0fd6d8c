"""`iris slice`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from iris_operator.api.slice import Availability
from iris_operator.cli.durations import DurationType, MomentType
from iris_operator.cli.output import OUTPUT
from iris_operator.cli.session import Target, run_async, target_options
from iris_operator.cli.slice_changes import availability, hold
from iris_operator.cli.slice_work import change_slices, delete_slices, drain_slices, list_slices

_WAIT = click.option("--wait/--no-wait", default=True, show_default=True, help="Wait for it, and show what is left.")
_TIMEOUT = click.option("--timeout", type=DurationType(), help="Stop waiting after this long; the rest goes on.")


def _on_slices(required: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Names, output format and where: handed on as `names`, `output` and `target`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called(namespace: str | None, kubeconfig: str | None, context: str | None, **rest: Any) -> None:
            command(target=Target(kubeconfig, context, namespace), **rest)

        names = click.argument("names", nargs=-1, required=required, metavar="NAME..." if required else "[NAME]...")
        return names(OUTPUT(target_options(called)))

    return decorate


@click.group("slice")
def slices() -> None:
    """See, cordon, drain, hold and delete Slices.

    A change of a Slice is an ordinary patch; kubectl can do the same (spec.availability, spec.holdUntil).
    """


@slices.command("list")
@click.option("-g", "--group", default="", metavar="NAME", help="Only those of this ScaleGroup.")
@_on_slices(required=False)
def list_(names: tuple[str, ...], group: str, output: str, target: Target) -> None:
    """Slices, with what each does and whether it takes Tasks."""
    run_async(list_slices(names, group, output, target))


@slices.command()
@_on_slices()
def cordon(names: tuple[str, ...], output: str, target: Target) -> None:
    """Give NAME no new Tasks; those on it go on."""
    run_async(change_slices(names, availability("cordoned", Availability.CORDONED), output, target))


@slices.command()
@_on_slices()
def uncordon(names: tuple[str, ...], output: str, target: Target) -> None:
    """Give NAME Tasks again, after cordon or drain."""
    run_async(change_slices(names, availability("uncordoned", Availability.SCHEDULABLE), output, target))


@slices.command()
@_WAIT
@_TIMEOUT
@_on_slices()
def drain(names: tuple[str, ...], wait: bool, timeout: timedelta | None, output: str, target: Target) -> None:
    """Move all Tasks off NAME, and give it no new ones.

    Each Task is stopped within its grace period and placed elsewhere; that costs it no retry. The nodes stay, until
    `iris slice uncordon` or `iris slice delete`.

    \b
      iris slice drain cpu-4x2k8
      iris slice drain cpu-4x2k8 --timeout 10m || iris why slice/cpu-4x2k8
    """
    run_async(drain_slices(names, wait, timeout, output, target))


@slices.command("hold")
@click.option("--for", "span", type=DurationType(), help="For this long, such as 2h or 1h30m.")
@click.option("--until", type=MomentType(), help="Until then, such as 2026-11-22T18:00 (local) or 2026-11-22T18:00Z.")
@_on_slices()
def hold_(names: tuple[str, ...], span: timedelta | None, until: datetime | None, output: str, target: Target) -> None:
    """Keep NAME though it is idle: scaling down, rollouts and its lifetime leave it alone.

    \b
      iris slice hold cpu-4x2k8 --for 2h
    """
    if (span is None) == (until is None):
        raise click.UsageError("say how long: either --for 2h or --until 2026-11-22T18:00")
    now = datetime.now(UTC).replace(microsecond=0)
    end = until if until is not None else now + (span or timedelta())
    if end <= now:
        raise click.UsageError(
            f"{end:%Y-%m-%d %H:%M:%S} UTC is not in the future; to end a hold: iris slice release NAME"
        )
    run_async(change_slices(names, hold(end), output, target))


@slices.command()
@_on_slices()
def release(names: tuple[str, ...], output: str, target: Target) -> None:
    """End the hold of NAME."""
    run_async(change_slices(names, hold(None), output, target))


@slices.command("delete")
@click.option("--force", is_flag=True, help="In spite of spec.deletionProtection, though Tasks run on it.")
@_WAIT
@_TIMEOUT
@_on_slices()
def delete_(
    names: tuple[str, ...], force: bool, wait: bool, timeout: timedelta | None, output: str, target: Target
) -> None:
    """Give NAME's nodes back. Its Tasks are stopped within their grace periods and placed elsewhere.

    A ScaleGroup makes another when it needs one: to have fewer, use iris group scale.
    """
    run_async(delete_slices(names, force, wait, timeout, output, target))
