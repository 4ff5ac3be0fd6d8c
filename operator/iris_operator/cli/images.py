"""`iris images`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import aiohttp
import click
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn

from iris_operator.api.streams import slice_stream
from iris_operator.cli.node_targets import NodeTarget, nodes_of
from iris_operator.cli.output import OUTPUT, console, print_data, table
from iris_operator.cli.session import Session, Target, explain, run_async, session, target_options
from iris_operator.cli.transfer import size_text
from iris_operator.ports.errors import ApiError, UnavailableError

_AT_ONCE = 32
_CUT_SECONDS = 20.0
_COLUMNS = ("SLICE", "NODE", "SIZE", "USED", "IN USE", "IMAGE")

Result = dict[str, Any]
Do = Callable[[Session, NodeTarget], Awaitable[Result]]

_SLICES = click.argument("slices", nargs=-1, metavar="[SLICE]...")
_GROUP = click.option("-g", "--group", default="", metavar="NAME", help="All nodes of this ScaleGroup.")


@click.group()
def images() -> None:
    """The images on nodes: see them, fetch one before its Tasks come, remove one.

    Without SLICE and --group it is all nodes of the namespace, side by side.
    """


@images.command("list")
@_SLICES
@_GROUP
@OUTPUT
@target_options
def list_images(
    slices: tuple[str, ...], group: str, output: str,
    namespace: str | None, kubeconfig: str | None, context: str | None,
) -> None:  # fmt: skip
    """Images of Iris on each node, with their size there (layers that images share count for each)."""
    run_async(_list(slices, group, output, Target(kubeconfig, context, namespace)))


@images.command()
@click.argument("image")
@_SLICES
@_GROUP
@click.option("--secret", "secrets", multiple=True, metavar="NAME", help="Pull secret of the namespace to use.")
@OUTPUT
@target_options
def pull(
    image: str, slices: tuple[str, ...], group: str, secrets: tuple[str, ...], output: str,
    namespace: str | None, kubeconfig: str | None, context: str | None,
) -> None:  # fmt: skip
    """Fetch IMAGE to the nodes, so that Tasks that want it start at once.

    \b
      iris images pull registry.example/train:7 --group h100
    """
    run_async(_pull(image, slices, group, secrets, output, Target(kubeconfig, context, namespace)))


@images.command()
@click.argument("image")
@_SLICES
@_GROUP
@OUTPUT
@target_options
def remove(
    image: str, slices: tuple[str, ...], group: str, output: str,
    namespace: str | None, kubeconfig: str | None, context: str | None,
) -> None:  # fmt: skip
    """Remove IMAGE from the nodes. Where a Task stands on it, it stays, and that is an error."""
    run_async(_remove(image, slices, group, output, Target(kubeconfig, context, namespace)))


async def _list(slices: Sequence[str], group: str, output: str, target: Target) -> None:
    async def ask(found: Session, node: NodeTarget) -> Result:
        path = slice_stream(found.namespace, node.slice_name, "images")
        async with found.api.open("GET", path, params={"rank": str(node.rank)}) as response:
            return {"images": json.loads(await response.read())}

    async with session(target) as found:
        nodes = await nodes_of(found, slices, group)
        results = await on_each(found, nodes, ask)
    rows = [
        {**node.data(), **image}
        for node, result in zip(nodes, results, strict=True)
        for image in result.get("images", [])
    ]
    if output != "table":
        print_data(rows, output)
    elif rows:
        shown = [
            [f"{one['slice']}/{one['rank']}", one["node"], size_text(one["sizeBytes"]), one["lastUsed"][:19].replace("T", " "),
             "yes" if one["inUse"] else "", one["image"]]
            for one in rows
        ]  # fmt: skip
        console().print(table(_COLUMNS, shown))
    elif nodes and not _faults(nodes, results):
        click.echo("No images on these nodes yet")
    _end(nodes, results)


async def _pull(
    image: str, slices: Sequence[str], group: str, secrets: Sequence[str], output: str, target: Target
) -> None:
    with _progress() as bars:

        async def fetch(found: Session, node: NodeTarget) -> Result:
            bar = bars.add_task(node.key, total=None)
            params = [("rank", str(node.rank)), ("image", image), *(("secret", one) for one in secrets)]
            path = slice_stream(found.namespace, node.slice_name, "images")
            # Only the connection has a time limit: a big image takes its time.
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
            while True:
                began = asyncio.get_running_loop().time()
                try:
                    async with found.api.open("POST", path, params=params, timeout=timeout) as response:
                        result = await follow(_lines(response), bars, bar)
                except UnavailableError as error:
                    result = {"error": explain(error)}
                # The API server ends a request after a minute; the pull goes on, and is asked for again.
                told = "digest" in result or "reason" in result
                if told or asyncio.get_running_loop().time() - began < _CUT_SECONDS:
                    return result

        async with session(target) as found:
            nodes = await nodes_of(found, slices, group)
            results = await on_each(found, nodes, fetch)
    _tell(nodes, results, output, lambda result: f"has {result['image']} ({result['digest'][:19]})")


async def _remove(image: str, slices: Sequence[str], group: str, output: str, target: Target) -> None:
    async def drop(found: Session, node: NodeTarget) -> Result:
        path = slice_stream(found.namespace, node.slice_name, "images")
        return await found.api.request("DELETE", path, params={"rank": str(node.rank), "image": image})

    async with session(target) as found:
        nodes = await nodes_of(found, slices, group)
        results = await on_each(found, nodes, drop)
    _tell(nodes, results, output, lambda result: f"no longer has {result['removed']}")


async def on_each(found: Session, nodes: Sequence[NodeTarget], do: Do) -> list[Result]:
    """Side by side; what a node refuses is its result, with `error`."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(node: NodeTarget) -> Result:
        async with slots:
            try:
                return await do(found, node)
            except ApiError as error:
                return {"error": explain(error)}

    return await asyncio.gather(*map(one, nodes))


async def follow(lines: AsyncIterator[bytes], bars: Progress, bar: TaskID) -> Result:
    """A pull's lines of JSON, to the last, which says how it ended."""
    entry: Result = {}
    async for line in lines:
        entry = json.loads(line)
        if "totalBytes" in entry:
            bars.update(bar, completed=entry["doneBytes"], total=entry["totalBytes"] or None)
    if "digest" not in entry and "error" not in entry:
        return {"error": "the connection to the node broke off; the pull goes on: ask again"}
    return entry


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in response.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line


def _progress() -> Progress:
    """Bars on a terminal, nothing elsewhere."""
    shown = console()
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True)
    return Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal)


def _tell(nodes: Sequence[NodeTarget], results: Sequence[Result], output: str, words: Callable[[Result], str]) -> None:
    if output != "table":
        print_data([{**node.data(), **result} for node, result in zip(nodes, results, strict=True)], output)
    else:
        for node, result in zip(nodes, results, strict=True):
            if "error" not in result:
                click.echo(f"{node.key} {node.node} {words(result)}")
    _end(nodes, results)


def _faults(nodes: Sequence[NodeTarget], results: Sequence[Result]) -> list[str]:
    return [f"{node.key}: {one['error']}" for node, one in zip(nodes, results, strict=True) if "error" in one]


def _end(nodes: Sequence[NodeTarget], results: Sequence[Result]) -> None:
    if not nodes:
        raise click.ClickException("no node is here yet (see: iris slice list)")
    faults = _faults(nodes, results)
    if faults:
        raise click.ClickException("\n".join(faults))
