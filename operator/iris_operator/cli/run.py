"""`iris run`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import click

from iris_operator.api.names import GPU_RESOURCE
from iris_operator.api.quantity import parse_quantity
from iris_operator.api.task import Task
from iris_operator.cli.log_stream import LogGone, LogStream, Wanted, ended, state_line
from iris_operator.cli.logs import print_members, to_stderr, to_stdout
from iris_operator.cli.objects import watch_task
from iris_operator.cli.session import Session, Target, run_async, session, target_options
from iris_operator.ports.errors import ConflictError, NotFoundError
from iris_operator.ports.kube import TASKS

# As `docker run` has it: the command was never to blame.
NOT_RUN_EXIT_CODE = 125


@dataclass(frozen=True)
class Wish:
    """What to run."""

    image: str
    command: tuple[str, ...]
    name: str = ""
    cpu: str = ""
    memory: str = ""
    gpus: int = 0
    env: tuple[str, ...] = ()
    slice_name: str = ""
    group_name: str = ""
    replicas: int = 1
    as_args: bool = False
    priority: int = 0


def _quantity(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value:
        try:
            parse_quantity(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return value


def _variables(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for one in value:
        if not one.partition("=")[0] or "=" not in one:
            raise click.BadParameter(f"{one!r} is not NAME=VALUE")
    return value


@click.command()
@click.argument("image")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--name", default="", metavar="NAME", help="Name of the Task. Default: run- and something random.")
@click.option("--cpu", default="", callback=_quantity, metavar="CPUS", help="CPU limit, such as 500m or 4.")
@click.option("--memory", default="", callback=_quantity, metavar="BYTES", help="Memory limit, such as 2Gi.")
@click.option("--gpus", default=0, type=click.IntRange(min=0), metavar="N", help="Whole GPUs.")
@click.option("-e", "--env", multiple=True, callback=_variables, metavar="NAME=VALUE", help="Variable; repeatable.")
@click.option("--slice", "slice_name", default="", metavar="NAME", help="Only on this Slice.")
@click.option("--group", "group_name", default="", metavar="NAME", help="Only on slices of this ScaleGroup.")
@click.option(
    "--priority",
    default=0,
    type=click.IntRange(-1000, 1000),
    metavar="N",
    help="Higher goes first, and in place of lower.",
)
@click.option("--replicas", default=1, type=click.IntRange(min=1), metavar="N", help="So many together, on one slice.")
@click.option("--as-args", is_flag=True, help="Hand COMMAND to the image's entrypoint instead of replacing it.")
@click.option("--rm", "remove", is_flag=True, help="Delete the Task when it has ended, or on Ctrl-C.")
@click.option("-d", "--detach", is_flag=True, help="Only create it, and print its name.")
@target_options
def run(
    image: str,
    command: tuple[str, ...],
    remove: bool,
    detach: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    **wish: Any,
) -> None:
    """Run COMMAND in IMAGE as a Task, show its log, and exit with its exit code.

    \b
      iris run python:3.12 -- python -c 'print("hello")'
      iris run --gpus 8 --memory 64Gi --rm registry.example/train:1 -- python train.py
      iris run --replicas 4 --gpus 8 registry.example/train:1 -- sh -c 'torchrun --node-rank $IRIS_RANK ...'

    Exits with 125 when the Task could not be run, or its worker was lost. Ctrl-C leaves it running, unless --rm.
    """
    if remove and detach:
        raise click.UsageError("--rm and --detach exclude each other: nobody would be there to delete it")
    target = Target(kubeconfig, context, namespace)
    code = run_async(_run(Wish(image, command, **wish), target, remove=remove, detach=detach))
    raise SystemExit(code)


def task_body(wish: Wish) -> dict[str, Any]:
    """The Task to create."""
    limits = {
        name: value
        for name, value in (("cpu", wish.cpu), ("memory", wish.memory), (GPU_RESOURCE, str(wish.gpus or "")))
        if value
    }
    placement = {
        name: value for name, value in (("sliceName", wish.slice_name), ("scaleGroupName", wish.group_name)) if value
    }
    spec: dict[str, Any] = {
        "image": wish.image,
        "args" if wish.as_args else "command": list(wish.command),
        "env": [{"name": name, "value": value} for name, _, value in (one.partition("=") for one in wish.env)],
        "resources": {"limits": limits} if limits else {},
        "placement": placement,
        "priority": wish.priority,
        "replicas": wish.replicas if wish.replicas > 1 else None,
    }
    metadata = {"name": wish.name} if wish.name else {"generateName": "run-"}
    return {
        "apiVersion": TASKS.api_version,
        "kind": "Task",
        "metadata": metadata,
        "spec": {name: value for name, value in spec.items() if value},
    }


async def _run(wish: Wish, target: Target, *, remove: bool, detach: bool) -> int:
    async with session(target) as found:
        try:
            made = await found.api.create(TASKS, task_body(wish), found.namespace)
        except ConflictError as error:
            raise click.ClickException(
                f"there is a Task {wish.name} already: delete it (kubectl delete task {wish.name}) or use another --name"
            ) from error
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        if detach:
            click.echo(name)
            return 0
        to_stderr(f"Task {name}")
        try:
            task = await (_follow(found, name) if wish.replicas == 1 else _follow_members(found, Task.parse(made)))
        except asyncio.CancelledError:
            await asyncio.shield(_interrupted(found, name, uid, remove))
            raise
        if remove:
            await _delete(found, name, uid)
        return exit_code(name, task)


async def _follow(found: Session, name: str) -> Task | None:
    """To its end, with or without its log."""
    try:
        return await LogStream(found, name, to_stdout, to_stderr).follow()
    except LogGone as gone:
        to_stderr(gone.message)
    async for task in watch_task(found, name):
        if task is None or ended(task):
            return task
    return None


async def _follow_members(found: Session, parent: Task) -> Task | None:
    """To the end of all, with or without their logs."""
    try:
        await print_members(found, parent, True, Wanted())
    except click.ClickException as gone:
        to_stderr(gone.message)
    except SystemExit:
        pass  # what is missing of a log was said
    async for task in watch_task(found, parent.metadata.name):
        if task is None or ended(task):
            return task
    return None


def exit_code(name: str, task: Task | None) -> int:
    """The command's own exit code; 125, with words, when it has none."""
    if task is None:
        to_stderr(f"Task {name} was deleted")
        return NOT_RUN_EXIT_CODE
    # An exit code 0 is no success where the Task is none: it was stopped, or a rule of its retry policy says so.
    failed = task.status.phase != "Succeeded" and not task.status.exit_code
    if task.status.exit_code is None or failed or task.status.phase == "WorkerLost":
        to_stderr(f"Task {name} did not run to its end: {state_line(task)}")
        return NOT_RUN_EXIT_CODE if task.status.exit_code in (None, 0) else task.status.exit_code
    if task.status.reason not in ("Completed", "Error"):
        to_stderr(f"Task {name}: {state_line(task)}")
    return task.status.exit_code


async def _interrupted(found: Session, name: str, uid: str, remove: bool) -> None:
    if remove:
        await _delete(found, name, uid)
        to_stderr(f"Task {name} is being deleted")
    else:
        to_stderr(f"Task {name} goes on. See it: iris logs {name} -f   Stop it: kubectl delete task {name}")


async def _delete(found: Session, name: str, uid: str) -> None:
    try:
        await found.api.delete(TASKS, name, found.namespace, uid=uid)
    except (NotFoundError, ConflictError):
        return  # someone was quicker, and perhaps made another
