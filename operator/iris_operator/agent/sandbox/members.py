"""What a command is told of its rank, and of the other members of its Task. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from iris_operator.api.task import Binding


def member_variables(binding: Binding) -> Iterator[tuple[str, str]]:
    """IRIS_RANK: the member's, or the node's in its slice where there are no members. Of members also how many there are,
    the address of each by rank, and that of the first."""
    member = binding.member
    if member is None:
        yield "IRIS_RANK", str(binding.rank)
        return
    addresses = [one.address for one in member.peers]
    yield "IRIS_RANK", str(member.rank)
    yield "IRIS_NODE_RANK", str(binding.rank)
    yield "IRIS_REPLICAS", str(len(member.peers))
    yield "IRIS_PEERS", ",".join(addresses)
    yield "IRIS_LEADER", addresses[0] if addresses else ""
