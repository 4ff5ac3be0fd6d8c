"""Nodes that a person means: of Slices by name, of a ScaleGroup, or all of the namespace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from iris_operator.api.slice import Slice
from iris_operator.cli.session import Session
from iris_operator.ports.kube import SLICES


@dataclass(frozen=True)
class NodeTarget:
    """One node of a Slice."""

    slice_name: str
    rank: int
    node: str
    ready: bool
    allocatable: dict[str, str]

    @property
    def key(self) -> str:
        """`slice/rank`."""
        return f"{self.slice_name}/{self.rank}"

    def data(self) -> dict[str, object]:
        """For JSON and YAML."""
        return {"slice": self.slice_name, "rank": self.rank, "node": self.node}


async def nodes_of(session: Session, names: Sequence[str], group: str = "") -> list[NodeTarget]:
    """By slice and rank; those that have registered. ClickException when a slice or the whole group is not there."""
    plain = [name.removeprefix("slice/") for name in names]
    listing = await session.api.list(SLICES, session.namespace)
    found = {one.metadata.name: one for one in map(Slice.parse, listing.items)}
    for name in plain:
        if name not in found:
            raise click.ClickException(f"no Slice {name} in namespace {session.namespace} (another one: -n NAMESPACE)")
    wanted = [found[name] for name in plain] if plain else list(found.values())
    if group:
        wanted = [one for one in wanted if one.spec.scale_group_name == group]
        if not wanted:
            raise click.ClickException(f"ScaleGroup {group} has no Slice in namespace {session.namespace}")
    return [target for one in sorted(wanted, key=lambda one: one.metadata.name) for target in _nodes(one)]


def _nodes(one: Slice) -> list[NodeTarget]:
    return [
        NodeTarget(
            one.metadata.name,
            node.rank,
            node.name,
            node.ready,
            {name: str(amount) for name, amount in node.allocatable.items()},
        )
        for node in sorted(one.status.nodes, key=lambda node: node.rank)
        if node.worker_pod
    ]
