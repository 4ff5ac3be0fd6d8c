"""`iris-devcluster cloud`: run the simulated CoreWeave, and make it fail as the real one does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import yaml
from rich.console import Console

from iris_devcluster.cli import Place, place_options
from iris_devcluster.coreweave import catalogue, report, service, store
from iris_devcluster.coreweave.controller.apply import POOLS
from iris_devcluster.coreweave.inventory import PATH as MACHINES
from iris_devcluster.coreweave.kube import KubeClient, read_kubeconfig
from iris_devcluster.coreweave.settings import BOOT_MODES, POWER_STATES
from iris_devcluster.nodes import Cluster

T = TypeVar("T")

_LEAST_WIDTH = 150  # a line that wraps is better than a column cut short


@click.group()
def cloud() -> None:
    """The simulated CoreWeave: NodePools, instance types, limits and faults."""


@cloud.command()
@place_options
def start(place: Place) -> None:
    """Install the NodePool kind and serve NodePools in the background."""
    found = service.start(place.root, Cluster.open(place.root).environment())
    click.echo(f"the simulated CoreWeave serves NodePools (pid {found.controller}, log {found.log})")


@cloud.command()
@place_options
def stop(place: Place) -> None:
    """Stop serving NodePools; nodes run on."""
    click.echo("stopped" if service.stop(place.root) else "it did not run")


@cloud.command()
@place_options
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def status(place: Place, output: str) -> None:
    """Show NodePools, machines and the settings in force."""
    data = _with_kube(place, lambda kube: report.gather(kube, place.root))
    if output == "json":
        click.echo(json.dumps(data, indent=2))
    elif output == "yaml":
        click.echo(yaml.safe_dump(data, sort_keys=False), nl=False)
    else:
        report.show(data, Console(width=max(_LEAST_WIDTH, Console().width)))


@cloud.command()
def types() -> None:
    """List the instance types on offer."""
    for kind in catalogue.load().values():
        gpus = f"{kind.gpus} x {kind.gpu_model}" if kind.gpus else "no GPUs"
        extras = ", InfiniBand" * bool(kind.rdma) + f", racks of {kind.nodes_per_rack}" * kind.has_racks
        click.echo(f"{kind.name:22} {kind.cpu:4.0f} vCPU {kind.memory / 2**30:6.0f} GiB  {gpus}{extras}")


def _limit(text: str) -> int | None:
    return None if text == "none" else int(text)


@cloud.command("set")
@place_options
@click.option("--instance-type", default="", help="For this type only; otherwise for all types.")
@click.option("--boot-seconds", type=click.FloatRange(min=0), help="From assignment to power on; 1500 as in real life.")
@click.option(
    "--boot", "--boot-failure", type=click.Choice(BOOT_MODES), help="slow: ten times as long; never: stays in progress."
)
@click.option("--quota", help="Nodes of a type that may be held: a number (0: none at all), or none for no limit.")
@click.option("--capacity", help="Machines of a type in the zone: a number, or none for no limit.")
@click.option("--node-cpu", help="What a node offers at most, for example 2.")
@click.option("--node-memory", help="What a node offers at most, for example 4Gi.")
@click.option("--nodes-per-rack", type=click.IntRange(min=1), help="Instead of the vendor's 18.")
@click.option("--replace-seconds", type=click.FloatRange(min=0), help="Exchange a machine that had no power so long.")
@click.option("--zone", help="Name of the availability zone.")
def set_(
    place: Place,
    instance_type: str,
    boot_seconds: float | None,
    boot: str | None,
    quota: str | None,
    capacity: str | None,
    **zone: Any,
) -> None:
    """Set delays and limits; what is not named stays as it is.

    Quota and capacity count nodes of each instance type, over all NodePools. They take nothing away from a NodePool
    that already has it.
    """
    if instance_type and instance_type not in catalogue.load():
        raise click.BadParameter(f"no instance type {instance_type}; see: iris-devcluster cloud types")
    values = {"bootSeconds": boot_seconds, "boot": boot}
    limits = {"quota": quota, "capacity": capacity}

    def edit(document: store.Document) -> None:
        row = document.layer("instanceTypes", instance_type) if instance_type else document.layer("defaults")
        row |= {key: value for key, value in values.items() if value is not None}
        row |= {key: _parse_limit(key, text) for key, text in limits.items() if text is not None}
        document.settings |= {_camel(key): value for key, value in zone.items() if value is not None}

    _change(place, edit)


def _parse_limit(key: str, text: str) -> int | None:
    try:
        return _limit(text)
    except ValueError:
        raise click.BadParameter(f"--{key} {text}: give a number or none") from None


@cloud.command()
@place_options
@click.argument("target", metavar="NAME")
@click.option("--power", type=click.Choice(POWER_STATES), help="off: a power cut; frozen: the kubelet stops.")
@click.option("--power-cut", "power", flag_value="off", help="The same as --power off: the node dies.")
@click.option("--not-ready", "power", flag_value="frozen", help="The same as --power frozen: the node goes NotReady.")
@click.option("--gpus", type=click.IntRange(min=0), help="The node has only so many GPUs; 0: it comes without.")
@click.option("--sick-gpus", type=click.IntRange(min=0), help="So many of its GPUs report Unhealthy.")
@click.option("--boot", type=click.Choice(BOOT_MODES), help="For nodes that have not registered yet.")
@click.option("--boot-seconds", type=click.FloatRange(min=0))
@click.option(
    "--refuse",
    type=click.Choice(store.OPERATIONS),
    multiple=True,
    help="The API answers 403 to this on the NodePool; NAME may be '*'.",
)
def fault(place: Place, target: str, refuse: tuple[str, ...], **values: Any) -> None:
    """Break the NodePool or the node NAME; a NodePool need not exist yet.

    \b
    iris-devcluster cloud fault g1a2b3c --power-cut       a node dies
    iris-devcluster cloud fault g1a2b3c --gpus 7          it lost a GPU
    iris-devcluster cloud fault my-pool --boot never      its nodes never come up
    iris-devcluster cloud fault my-pool --refuse delete   the API refuses to delete it
    """
    found = {_camel(key): value for key, value in values.items() if value is not None}
    if not found and not refuse:
        raise click.UsageError("say what should go wrong; see --help")
    is_node = target in _with_kube(place, _machine_names)
    if is_node and refuse:
        raise click.BadParameter(f"{target} is a node; --refuse is for NodePools")

    def edit(document: store.Document) -> None:
        if found:
            document.layer("nodes" if is_node else "nodePools", target).update(found)
        for operation in refuse:
            document.refusals.setdefault(operation, set()).add(target)

    _change(place, edit)
    if not is_node and target != "*" and not _with_kube(place, lambda kube: kube.get(f"{POOLS}/{target}")):
        click.echo(f"there is no NodePool {target} yet; the fault waits for it", err=True)


@cloud.command()
@place_options
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Delays and limits of `cloud set` too.")
def clear(place: Place, names: tuple[str, ...], everything: bool) -> None:
    """Mend the NodePools or nodes NAMES, or everything when none is named."""

    def edit(document: store.Document) -> None:
        for name in names or ("",):
            document.drop_faults(name)
        if everything:
            document.settings.clear()

    _change(place, edit)


async def _machine_names(kube: KubeClient) -> set[str]:
    body = await kube.get(MACHINES)
    return set((body or {}).get("data") or {})


def _change(place: Place, edit: Callable[[store.Document], None]) -> None:
    document = _with_kube(place, lambda kube: store.change(kube, edit))
    data = document.settings | {f"refuse {key}": sorted(names) for key, names in document.refusals.items() if names}
    click.echo(yaml.safe_dump(data, sort_keys=False).strip() if data else "all as usual")


def _with_kube(place: Place, call: Callable[[KubeClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with KubeClient(read_kubeconfig(Cluster.open(place.root).kubeconfig)) as kube:
            return await call(kube)

    return asyncio.run(run())


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)
