"""`iris-devcluster images`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from iris_devcluster.cli import Place, place_options
from iris_devcluster.cluster import Cluster
from iris_devcluster.errors import ClusterNotFoundError
from iris_devcluster.images import recipe
from iris_devcluster.images.build import NAMES, Built, build_images
from iris_devcluster.images.publish import helm_values, push, references, save
from iris_devcluster.images.wheels import write_lock
from iris_devcluster.progress import Progress
from iris_devcluster.registry import REGISTRY_NAME, Registry, registry_folder


@click.command()
@click.argument("names", nargs=-1, metavar="[operator] [agent] [task]")
@click.option("--push", "registry", metavar="REGISTRY", help="Push to this registry, such as registry.example.com/ml.")
@click.option("--insecure", is_flag=True, help="Talk plain http to REGISTRY.")
@click.option("--tag", "tags", multiple=True, help="Use these tags instead of: content hash, version, dev.")
@click.option(
    "--archive", type=click.Path(path_type=Path), metavar="DIR", help="Write archives for ctr, docker or kind."
)
@click.option(
    "--values", type=click.Path(path_type=Path), metavar="FILE", help="Write Helm values naming these images."
)
@click.option("--source", type=click.Path(path_type=Path, exists=True), default=Path(), help="Checkout to build from.")
@click.option("--lock", is_flag=True, help="Resolve the images' Python packages anew and write their lock files.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@place_options
def images(
    names: tuple[str, ...],
    registry: str | None,
    insecure: bool,
    tags: tuple[str, ...],
    archive: Path | None,
    values: Path | None,
    source: Path,
    lock: bool,
    output: str,
    *,
    place: Place,
) -> None:
    """Build Iris' container images; no container engine is needed.

    \b
    With neither --push nor --archive they go to the registry of the cluster in --root, which is started if needed;
    every node of that cluster pulls from it as registry.iris:5000. Only what changed is built anew.
    \b
    Examples:
      iris-devcluster images
      iris-devcluster images agent --push ghcr.example/acme --tag v1
      iris-devcluster images --archive /tmp/images && kind load image-archive /tmp/images/iris-agent.tar
    """
    checkout = recipe.find_source(source)
    if lock:
        _lock(checkout)
        return
    built = build_images(checkout, names or NAMES)
    shown = _deliver(built, registry, insecure, tags, archive, place.root)
    if values is not None:
        values.parent.mkdir(parents=True, exist_ok=True)
        values.write_text(helm_values(built, shown, tags))
    _report(built, shown, tags, output)


def _deliver(
    built: Sequence[Built], registry: str | None, insecure: bool, tags: Sequence[str], archive: Path | None, root: Path
) -> str:
    """Push or save; returns the registry as nodes name it."""
    shown = registry or REGISTRY_NAME
    progress = Progress()
    if archive is not None:
        for each in built:
            with progress.step(f"archive of {each.repository}") as step:
                step.note = str(save(each, archive, shown, tags))
    if archive is None and registry is None:
        address = _cluster_registry(root)
        if address is None:
            progress.say(f"Built only: no cluster runs in {root}. Give --push or --archive, or: iris-devcluster up")
            return shown
        registry, insecure = address, True
    for each in built if registry else ():
        with progress.step(f"push of {each.repository} to {registry}"):
            push(each, registry or "", tags, insecure)
    return shown


def _cluster_registry(root: Path) -> str | None:
    try:
        cluster = Cluster.open(root)
    except ClusterNotFoundError:
        return None
    Registry(cluster.registry_address, registry_folder(), environment=cluster.environment()).start()
    return cluster.registry_address


def _lock(checkout: Path) -> None:
    plan = recipe.load(checkout)
    progress = Progress()
    for image in plan.images.values():
        with progress.step(f"lock file of {image.name}") as step:
            step.note = str(write_lock(plan, image))


def _report(built: Sequence[Built], shown: str, tags: Sequence[str], output: str) -> None:
    if output == "json":
        rows = [
            {"name": one.name, "digest": one.image.digest, "references": references(one, shown, tags)} for one in built
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    for one in built:
        click.echo(references(one, shown, tags)[0])
