"""`iris top tasks` and `iris top nodes`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import click
from rich.table import Table

from iris_operator.api.streams import slice_stream
from iris_operator.cli.node_targets import NodeTarget, nodes_of
from iris_operator.cli.output import OUTPUT, console, print_data, table
from iris_operator.cli.session import Session, Target, explain, run_async, session, target_options
from iris_operator.cli.top_rows import NODE_COLUMNS, TASK_COLUMNS, Sample, node_data, node_row, task_data, task_row
from iris_operator.ports.errors import ApiError

# Between two looks: the kernel counts work in hundredths of a second.
_APART_SECONDS = 1.0
_WATCH_SECONDS = 2.0
_AT_ONCE = 16

Show = Callable[[list[Sample]], None]


@click.group()
def top() -> None:
    """What Tasks and nodes use now: CPU, memory, GPUs, disk, network.

    Asked of the nodes themselves, twice within a second. GPUs are told by the nvidia-smi that the driver brings into a
    Task's container: those of no running Task, or without it, are not told.
    """


_WATCH = click.option("--watch", is_flag=True, help="Again every two seconds, until Ctrl-C.")
_GROUP = click.option("-g", "--group", default="", metavar="NAME", help="Only the nodes of this ScaleGroup.")


@top.command("tasks")
@click.argument("names", nargs=-1, metavar="[TASK]...")
@_WATCH
@OUTPUT
@target_options
def top_tasks(
    names: tuple[str, ...], watch: bool, output: str,
    namespace: str | None, kubeconfig: str | None, context: str | None,
) -> None:  # fmt: skip
    """Running Tasks: cores, memory of the limit, processes, GPUs, and the size of the log.

    MEMORY is what could not be given up at once: page cache that is idle is not counted, as by the kubelet.
    """
    wanted = {name.removeprefix("task/") for name in names}

    def show(samples: list[Sample]) -> None:
        found = [one for sample in samples for one in task_data(sample) if not wanted or one["name"] in wanted]
        found.sort(key=lambda one: one["name"])
        absent = wanted - {one["name"] for one in found}
        _print(found, output, table(TASK_COLUMNS, [task_row(one) for one in found]), "No Task runs here")
        for name in sorted(absent):
            click.echo(f"Task {name} does not run (see: iris status {name})", err=True)
        if absent and not watch:
            raise SystemExit(1)

    run_async(_top((), "", watch, show, Target(kubeconfig, context, namespace)))


@top.command("nodes")
@click.argument("names", nargs=-1, metavar="[SLICE]...")
@_GROUP
@_WATCH
@OUTPUT
@target_options
def top_nodes(
    names: tuple[str, ...], group: str, watch: bool, output: str,
    namespace: str | None, kubeconfig: str | None, context: str | None,
) -> None:  # fmt: skip
    """The nodes of SLICEs: cores and memory in use of all there are, Iris' disk, network, GPUs, Tasks."""

    def show(samples: list[Sample]) -> None:
        found = [node_data(sample) for sample in samples]
        _print(found, output, table(NODE_COLUMNS, [node_row(one) for one in found]), "No node is here yet")

    run_async(_top(names, group, watch, show, Target(kubeconfig, context, namespace)))


def _print(data: list[dict[str, Any]], output: str, rows: Table, nothing: str) -> None:
    if output != "table":
        print_data(data, output)
    elif data:
        console().print(rows)
    else:
        click.echo(nothing)


async def _top(names: Sequence[str], group: str, watch: bool, show: Show, target: Target) -> None:
    async with session(target) as found:
        nodes = [node for node in await nodes_of(found, names, group) if node.ready or names]
        before, faults = await look(found, nodes)
        while True:
            await asyncio.sleep(_APART_SECONDS)
            now, faults = await look(found, nodes)
            if watch and sys.stdout.isatty():
                click.clear()
            show([Sample(node, before.get(node.key), now[node.key]) for node in nodes if node.key in now])
            for fault in faults:
                click.echo(fault, err=True)
            if not watch:
                break
            before = now
            await asyncio.sleep(_WATCH_SECONDS - _APART_SECONDS)
            nodes = [node for node in await nodes_of(found, names, group) if node.ready or names]
    if faults:
        raise SystemExit(1)


async def look(found: Session, nodes: Sequence[NodeTarget]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What each node says, by its key, and a line for each that does not answer."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def ask(node: NodeTarget) -> dict[str, Any]:
        async with slots:
            path = slice_stream(found.namespace, node.slice_name, "stats")
            return await found.api.request("GET", path, params={"rank": str(node.rank)})

    answers = await asyncio.gather(*(_or_error(ask(node)) for node in nodes))
    pairs = list(zip(nodes, answers, strict=True))
    good = {node.key: answer for node, answer in pairs if isinstance(answer, dict)}
    bad = [f"{node.key}: {explain(answer)}" for node, answer in pairs if isinstance(answer, ApiError)]
    if bad and not good:
        raise click.ClickException("\n".join(bad))
    return good, bad


async def _or_error(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any] | ApiError:
    try:
        return await work
    except ApiError as error:
        return error
