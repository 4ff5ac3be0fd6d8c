"""`iris-devcluster`: a real Kubernetes cluster on this machine, in seconds, without a container engine."""

from __future__ import annotations

from pathlib import Path

import click

from iris_devcluster import lifecycle
from iris_devcluster.progress import Progress


def main() -> None:
    cli()


@click.group()
@click.option("--name", default="iris")
@click.option("--root", type=click.Path(path_type=Path), default=Path(".iris"))
@click.pass_context
def cli(context: click.Context, name: str, root: Path) -> None:
    """x"""
    context.obj = (root, name)


@cli.command()
@click.pass_obj
def up(obj: tuple[Path, str]) -> None:
    lifecycle.up(*obj, Progress())


@cli.command()
@click.pass_obj
def down(obj: tuple[Path, str]) -> None:
    lifecycle.down(*obj, Progress())
