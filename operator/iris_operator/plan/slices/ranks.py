"""Which node of a slice has which rank. A node keeps its rank for life; a new one takes the lowest that is free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iris_operator.api.core import Node


def assign_ranks(nodes: Iterable[Node], before: Mapping[str, int], size: int) -> dict[int, Node]:
    """Rank -> node for at most `size` ranks. `before` is node name -> rank as last known."""
    standing = sorted((node for node in nodes if not node.deleting), key=lambda node: node.metadata.name)
    ranks: dict[int, Node] = {}
    for node in standing:
        rank = before.get(node.metadata.name)
        if rank is not None and rank < size and rank not in ranks:
            ranks[rank] = node
    placed = {node.metadata.name for node in ranks.values()}
    free = [rank for rank in range(size) if rank not in ranks]
    for rank, node in zip(free, (node for node in standing if node.metadata.name not in placed), strict=False):
        ranks[rank] = node
    return ranks
