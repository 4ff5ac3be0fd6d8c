"""`iris logs`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta

import click

from iris_operator import malloc
from iris_operator.api.task import Task
from iris_operator.cli.durations import DurationType
from iris_operator.cli.log_bytes import Prefixed
from iris_operator.cli.log_stream import LogStream, Wanted, state_line
from iris_operator.cli.members import member_names, wait_for_members
from iris_operator.cli.objects import get_task
from iris_operator.cli.session import Session, Target, explain, run_async, session, target_options
from iris_operator.ports.errors import ApiError
from iris_operator.ports.kube import TASKS

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)  # ANSI: never red, which means trouble


@click.command()
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@click.option("-f", "--follow", is_flag=True, help="Wait for the start, then go on until the end, through all retries.")
@click.option("-l", "--selector", default="", metavar="LABELS", help="All Tasks with these labels, such as app=train.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines (and what follows).")
@click.option("--since", type=DurationType(), help="Only what was written in the last 45s, 10m, 2h ...")
@click.option("--timestamps", is_flag=True, help="Begin each line with when it was written (UTC, to the second).")
@click.option("-p", "--previous", is_flag=True, help="Of the attempt before the present one.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Of this attempt alone.")
@target_options
def logs(
    tasks: tuple[str, ...], follow: bool, selector: str, tail: int | None, since: timedelta | None, timestamps: bool,
    previous: bool, attempt: int | None, namespace: str | None, kubeconfig: str | None, context: str | None,
) -> None:  # fmt: skip
    """Print what TASK has written: standard output and error, as they came.

    The log comes straight from the Task's node. It is kept until the Task is deleted. The logs of several Tasks come
    together, each line with its Task's name; those of a Task's replicas with their rank, as [0].

    Times are noted by the node once a second while a log grows: a line's is late by a second at most.

    \b
      iris logs hello                    what there is now
      iris logs hello -f                 from its start to its end
      iris logs hello --since 10m --timestamps
      iris logs -l app=train -f --tail 5
      iris logs train                    all its replicas together
    """
    if bool(tasks) == bool(selector):
        raise click.UsageError("give the names of Tasks, or -l LABELS")
    if previous and attempt:
        raise click.UsageError("--previous and --attempt exclude each other")
    seconds = int(since.total_seconds()) if since is not None else None
    wanted = Wanted(tail, seconds, timestamps, -1 if previous else attempt or 0)
    malloc.keep_buffers()
    run_async(_logs(tasks, selector, follow, wanted, Target(kubeconfig, context, namespace)))


async def _logs(names: Sequence[str], selector: str, follow: bool, wanted: Wanted, target: Target) -> None:
    async with session(target) as found:
        plain = [name.removeprefix("task/") for name in names]
        tasks = [await get_task(found, plain[0])] if len(plain) == 1 else await _selected(found, plain, selector)
        if len(tasks) == 1 and tasks[0].spec.replicas > 1:
            await print_members(found, tasks[0], follow, wanted)
        elif len(plain) == 1:
            await _one(LogStream(found, plain[0], to_stdout, to_stderr, wanted), follow)
        elif not await _together(found, _shown(plain, tasks), follow, wanted):
            raise SystemExit(1)


async def print_members(found: Session, parent: Task, follow: bool, wanted: Wanted) -> None:
    """The logs of all members, each line with its rank. SystemExit when one could not be had."""
    if follow:
        await wait_for_members(found, parent)
    shown = [(f"[{rank}]", name) for rank, name in enumerate(member_names(parent))]
    if not await _together(found, shown, follow, wanted):
        raise SystemExit(1)


async def _selected(found: Session, names: Sequence[str], selector: str) -> list[Task]:
    """The Tasks of these names that are there, or with these labels."""
    if names:
        listing = [await found.api.list(TASKS, found.namespace, fields=f"metadata.name={name}") for name in names]
        return [Task.parse(one) for each in listing for one in each.items]
    labelled = (await found.api.list(TASKS, found.namespace, labels=selector)).items
    if not labelled:
        raise click.ClickException(f"no Task with labels {selector} in namespace {found.namespace}")
    return sorted((Task.parse(one) for one in labelled), key=lambda one: one.metadata.name)


def _shown(names: Sequence[str], tasks: Sequence[Task]) -> list[tuple[str, str]]:
    """(what stands before its lines, name) of each log: of Tasks of several replicas, their members'."""
    known = {one.metadata.name: one for one in tasks}
    found = []
    for name in names or known:
        members = member_names(known[name]) if name in known and known[name].spec.replicas > 1 else [name]
        found += [(one, one) for one in members]
    return list(dict.fromkeys(found))


async def _one(stream: LogStream, follow: bool) -> None:
    """ClickException when there is nothing to be had."""
    if not follow or stream.wanted.attempt:
        await stream.print(follow=follow)
        return
    task = await stream.follow()
    if task is None:
        raise click.ClickException(f"Task {stream.name} was deleted")
    if task.status.start_time is None and not task.status.log_path:
        raise click.ClickException(f"Task {stream.name} never started: {state_line(task)}")


async def _together(found: Session, shown: Sequence[tuple[str, str]], follow: bool, wanted: Wanted) -> bool:
    """Side by side, (prefix, name) of each; whether all went well. What went wrong with one is said, and the others go on."""
    width = max(len(prefix) for prefix, _ in shown)

    async def one(this: tuple[str, str], colour: int) -> bool:
        prefix, name = this
        lines = Prefixed(_prefix(prefix.ljust(width), colour))
        stream = LogStream(found, name, lambda data: to_stdout(lines.take(data)), _named(prefix), wanted)
        try:
            await _one(stream, follow)
        except click.ClickException as error:
            to_stderr(f"{prefix}: {error.message}")
            return False
        except ApiError as error:
            to_stderr(f"{prefix}: {explain(error)}")
            return False
        finally:
            to_stdout(lines.end())
        return True

    colours = [_COLOURS[number % len(_COLOURS)] for number in range(len(shown))]
    return all(await asyncio.gather(*map(one, shown, colours)))


def _named(name: str) -> Callable[[str], None]:
    return lambda line: to_stderr(f"{name}: {line}")


def _prefix(name: str, colour: int) -> bytes:
    shown = f"\x1b[{colour}m{name}\x1b[0m " if sys.stdout.isatty() else f"{name} "
    return shown.encode()


def to_stdout(chunk: bytes) -> None:
    """Bytes as they are, at once."""
    if chunk:
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def to_stderr(line: str) -> None:
    """A word to the person, apart from the log."""
    click.echo(line, err=True)
