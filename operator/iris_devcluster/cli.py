"""`iris-devcluster`: a real Kubernetes cluster on this machine, in seconds, without a container engine."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import ClassVar, ParamSpec

import click
import yaml

from iris_devcluster import lifecycle, node_commands
from iris_devcluster.binaries.locate import binaries_folder, ensure_binaries
from iris_devcluster.cluster import Cluster
from iris_devcluster.errors import DevclusterError
from iris_devcluster.packages import ensure_packages
from iris_devcluster.progress import Progress
from iris_devcluster.status import cluster_status
from iris_devcluster.tables import print_status

P = ParamSpec("P")


@dataclass(frozen=True)
class Place:
    """Which cluster a command is about."""

    root: Path
    name: str


def default_root() -> Path:
    """`.iris` beside the nearest .git above the working directory, else in the working directory."""
    here = Path.cwd()
    top = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    return top / ".iris"


def main() -> None:
    """Entry point; an expected error is one message and exit code 1, never a traceback."""
    try:
        cli(standalone_mode=False)
    except DevclusterError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; iris-devcluster up goes on from here, down cleans up", err=True)
        sys.exit(130)


class LazyGroup(click.Group):
    """A group with commands that are imported when they are used: they bring libraries that the rest lives without."""

    lazy: ClassVar[dict[str, str]] = {
        "cloud": "iris_devcluster.coreweave.cli:cloud",
        "images": "iris_devcluster.images.cli:images",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.lazy])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.lazy[cmd_name].partition(":")
        found = getattr(importlib.import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found


_ROOT_HELP = "Directory of all its state, kubeconfig among it.  [default: .iris at the repository's top]"
_NAME_HELP = "Name of the cluster; each needs a root of its own."


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--name", default="iris", show_default=True, help=_NAME_HELP)
@click.option("--root", type=click.Path(file_okay=False, path_type=Path), default=default_root, help=_ROOT_HELP)
@click.pass_context
def cli(context: click.Context, name: str, root: Path) -> None:
    """A real Kubernetes cluster on this machine: upstream's programs, several nodes, no container engine.

    Every node is a set of namespaces with its own containerd, kubelet and kube-proxy. Needs Linux and root.

    \b
    iris-devcluster up                      start it, or repair what died
    iris-devcluster kubectl get nodes       use it
    iris-devcluster status                  see every process
    iris-devcluster down                    remove every trace
    """
    context.obj = Place(root.resolve(), name)


def place_options(command: Callable[P, None]) -> Callable[P, None]:
    """--name and --root after the command's name, too; handed on as `place`."""

    @click.option("--name", help=_NAME_HELP)
    @click.option("--root", type=click.Path(file_okay=False, path_type=Path), help=_ROOT_HELP)
    @click.pass_obj
    @wraps(command)
    def wrapped(place: Place, /, *args: P.args, **kwargs: P.kwargs) -> None:
        root, name = kwargs.pop("root"), kwargs.pop("name")
        kwargs["place"] = Place(Path(str(root)).resolve() if root else place.root, str(name or place.name))
        command(*args, **kwargs)

    return wrapped


@cli.command()
def setup() -> None:
    """Install the packages and programs the cluster needs; instant when all is there.

    Programs with a published checksum are downloaded, the others built from Go modules: about ten minutes on two
    cores the first time. They are kept in ~/.cache/iris/bin, and an interrupted run goes on where it stopped.
    """
    progress = Progress()
    ensure_packages(progress)
    ensure_binaries(progress)


@cli.command()
@place_options
def up(place: Place) -> None:
    """Start the cluster and wait until it can run Pods; started already, repair what died."""
    progress = Progress()
    ensure_packages(progress)
    ensure_binaries(progress)
    cluster = lifecycle.up(place.root, place.name, progress)
    here = "" if place.root == default_root() else f" --root {place.root}"
    click.echo(
        f"\nThe cluster {place.name} is up.\n"
        f"  use it   export KUBECONFIG={cluster.kubeconfig}\n"
        f"           iris-devcluster kubectl{here} get nodes\n"
        f"  look     iris-devcluster status{here}\n"
        f"  stop it  iris-devcluster down{here}"
    )


@cli.command()
@place_options
def down(place: Place) -> None:
    """Stop the cluster and remove every trace: processes, mounts, networks, cgroups, files.

    Looks at the kernel rather than at files, so it also cleans up after a crash or a kill -9 of any part.
    """
    lifecycle.down(place.root, place.name, Progress())


@cli.command()
@place_options
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def status(place: Place, output: str) -> None:
    """Every machine and process with its health; exit code 1 when something needs `up`."""
    found = cluster_status(Cluster.open(place.root))
    if output == "table":
        print_status(found)
    else:
        data = {**asdict(found), "ok": found.ok}
        click.echo(json.dumps(data, indent=2) if output == "json" else yaml.safe_dump(data, sort_keys=False).rstrip())
    if not found.ok:
        sys.exit(1)


@cli.command()
@place_options
def kubeconfig(place: Place) -> None:
    """Print the path of the kubeconfig: export KUBECONFIG=$(iris-devcluster kubeconfig)."""
    click.echo(Cluster.open(place.root).kubeconfig)


@cli.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    add_help_option=False,
)
@place_options
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def kubectl(place: Place, arguments: tuple[str, ...]) -> None:
    """Run the cluster's own kubectl on it, as administrator."""
    cluster = Cluster.open(place.root)
    program = str(binaries_folder() / "kubectl")
    done = subprocess.run([program, *arguments], env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}, check=False)
    sys.exit(done.returncode)


@cli.group()
def node() -> None:
    """Add, remove and list the cluster's nodes by hand."""


@node.command("add")
@place_options
@click.argument("node_name", metavar="NODE")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of the Node; may be repeated.")
@click.option("--annotation", "annotations", multiple=True, metavar="KEY=VALUE", help="May be repeated.")
@click.option("--taint", "taints", multiple=True, metavar="KEY=VALUE:EFFECT", help="May be repeated.")
@click.option("--reserve", "reserved", multiple=True, metavar="RESOURCE=QUANTITY", help="Capacity to withhold.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the node is Ready.")
def node_add(
    place: Place,
    node_name: str,
    labels: tuple[str, ...],
    annotations: tuple[str, ...],
    taints: tuple[str, ...],
    reserved: tuple[str, ...],
    wait: bool,
) -> None:
    """Boot a node, or power it on again."""
    spec = node_commands.parse_spec(node_name, labels, annotations, taints, reserved)
    node_commands.add(Cluster.open(place.root), spec, Progress(), wait)


@node.command("remove")
@place_options
@click.argument("node_names", metavar="NODE...", nargs=-1, required=True)
def node_remove(place: Place, node_names: tuple[str, ...]) -> None:
    """Power nodes off and delete every trace of them, with their Node objects."""
    cluster = Cluster.open(place.root)
    for name in node_names:
        cluster.node_record(name)
        with Progress().step(f"Remove {name}"):
            cluster.remove_node(name)


@node.command("list")
@place_options
def node_list(place: Place) -> None:
    """Every node with its address and health."""
    for machine in cluster_status(Cluster.open(place.root)).machines[1:]:
        click.echo(f"{machine.name:24} {machine.address:16} {machine.health:10} {machine.why}".rstrip())
