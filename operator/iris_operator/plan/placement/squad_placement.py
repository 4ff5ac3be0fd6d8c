"""Where the members of a Task of several replicas go: all on one slice, or none anywhere.

One member to a node as long as the slice has nodes with room for that; else some nodes take several. Member 0 is on the node
of the lowest rank, and so on. Among slices that will do, the fullest is taken, so that idle slices stay idle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from iris_operator.api.member import MemberBinding, Peer
from iris_operator.api.quantity import Amounts
from iris_operator.api.task import Task
from iris_operator.plan.actions import BindTask
from iris_operator.plan.placement.ledger import Slot
from iris_operator.plan.placement.shapes import Shape
from iris_operator.plan.placement.slot_index import SlotIndex, scope_of
from iris_operator.plan.placement.squad import Squad

_PLENTY = 2**31


class NodeRoom(NamedTuple):
    """A node, and how many members more it takes."""

    slot: Slot
    members: int


def rooms(index: SlotIndex, shape: Shape, *, alone: bool) -> dict[str, list[NodeRoom]]:
    """Slice -> its nodes that have room, by rank. `alone`: never two members on one node."""
    found: dict[str, list[NodeRoom]] = {}
    for slot, free in index.free(scope_of(shape)):
        members = min(index.room(slot), fits(free, shape), 1 if alone else _PLENTY)
        if members > 0 and index.ports_free(slot, shape.ports):
            found.setdefault(slot.slice_name, []).append(NodeRoom(slot, members))
    return {name: sorted(nodes, key=lambda one: one.slot.rank) for name, nodes in found.items()}


def fits(free: Amounts, shape: Shape) -> int:
    """How many of the shape so much on one node is enough for. A port of a fixed number is there once."""
    most = min((free.get(name, 0) // value for name, value in shape.wanted.items()), default=_PLENTY)
    return min(most, 1) if shape.ports else most


def stands_alone(task: Task) -> bool:
    """Whether two members can't share a node: a container that outlives them is there once."""
    return task.spec.container_lifetime.policy != "PerRun"


def choose(found: dict[str, list[NodeRoom]], members: int) -> list[Slot] | None:
    """A node for each member, by rank; None: no slice has room for all."""
    able = {name: nodes for name, nodes in found.items() if sum(one.members for one in nodes) >= members}
    if not able:
        return None
    name = min(able, key=lambda name: (len(able[name]) < members, sum(one.members for one in able[name]), name))
    return list(_spread(able[name], members))


def _spread(nodes: Sequence[NodeRoom], members: int) -> Iterator[Slot]:
    """As even as the room allows; nodes that are not needed are those with the most room."""
    given = dict.fromkeys(range(len(nodes)), 0)
    fullest = sorted(given, key=lambda at: (nodes[at].members, at))
    while members:
        for at in fullest:
            if members and given[at] < nodes[at].members:
                given[at] += 1
                members -= 1
    for at, number in given.items():
        yield from [nodes[at].slot] * number


def place_squad(squad: Squad, shape: Shape, index: SlotIndex, now: datetime) -> list[BindTask]:
    """Bindings for all that are free, their room taken; empty: there is none."""
    if squad.placed:
        return _complete(squad, shape, index, now)
    slots = choose(rooms(index, shape, alone=stands_alone(squad.parent)), len(squad.free))
    if slots is None:
        return []
    for slot in slots:
        index.take_from(slot, shape)
    peers = [Peer(node_name=slot.node_name, address=slot.address) for slot in slots]
    return [_bind(task, rank, slots[rank], peers, squad, now) for rank, task in squad.free]


def _complete(squad: Squad, shape: Shape, index: SlotIndex, now: datetime) -> list[BindTask]:
    """To where the members that are placed were told that they go."""
    binding = squad.placed[0].spec.binding
    assert binding is not None and binding.member is not None
    peers = binding.member.peers
    found = rooms(index, shape, alone=False).get(binding.slice_name, [])
    slots = {one.slot.node_name: one.slot for one in found}
    wanted = Counter(peers[rank].node_name for rank, _ in squad.free if rank < len(peers))
    room = {one.slot.node_name: one.members for one in found}
    if len(peers) != squad.parent.spec.replicas or any(room.get(name, 0) < number for name, number in wanted.items()):
        return []
    made = []
    for rank, task in squad.free:
        slot = slots[peers[rank].node_name]
        index.take_from(slot, shape)
        made.append(_bind(task, rank, slot, peers, squad, now))
    return made


def _bind(task: Task, rank: int, slot: Slot, peers: Sequence[Peer], squad: Squad, now: datetime) -> BindTask:
    member = MemberBinding(rank=rank, peers=list(peers), retries=squad.retries)
    return BindTask(task, slot.binding(squad.attempt, now, member))
