"""Whether the members of a Task enter a container that runs already, make it, or can't: by what all their nodes have.

Each agent tells what it finds (status.container) and waits; what is decided here is written in each binding. It runs
everywhere: attach. Nowhere: launch. In part: nobody knows what state the others would meet, so all fail. What would run must be
one and the same image on all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from iris_operator.api.member import ContainerSeen, ContainerVerdict
from iris_operator.api.task import Task
from iris_operator.plan.tasks.gang import Gang, Standing
from iris_operator.plan.text import names_text


class _Seen(NamedTuple):
    node: str
    found: ContainerSeen


def container_verdicts(gang: Gang) -> list[tuple[Task, ContainerVerdict]]:
    """Members to be told, and what; none as long as not all have said what their nodes have."""
    lifetime = gang.parent.spec.container_lifetime
    live = gang.of(Standing.LIVE)
    if lifetime.policy == "PerRun" or len(live) != len(gang.members):
        return []
    told = [one.spec.binding.member.container for one in live if one.spec.binding and one.spec.binding.member]
    untold = [one for one, verdict in zip(live, told, strict=True) if verdict is None]
    before = next((one for one in told if one is not None), None)
    if before is None:
        seen = [
            _Seen(one.spec.binding.node_name, one.status.container)
            for one in live
            if one.spec.binding and one.status.container is not None and one.status.attempt == gang.attempt
        ]
        if len(seen) < len(live):
            return []
        before = judge(gang.parent, seen)
    return [(one, before) for one in untold]


def judge(parent: Task, seen: Sequence[_Seen]) -> ContainerVerdict:
    """`seen`: of each member its node, and what is there."""
    name, policy = parent.spec.container_lifetime.name, parent.spec.container_lifetime.policy
    with_it = [one.node for one in seen if one.found.running]
    if with_it and len(with_it) < len(seen):
        without = [one.node for one in seen if not one.found.running]
        words = (
            f"container {name} runs on {_nodes(with_it)} and not on {_nodes(without)}: delete the slice or name another "
            "container to begin afresh on all"
        )
        return _refuse("ContainerPartlyRunning", words)
    if not with_it and policy == "NoLaunch":
        words = f"container {name} runs on none of {_nodes([one.node for one in seen])}"
        return _refuse("ContainerNotRunning", f"{words}, and containerLifetime.policy NoLaunch starts none")
    if with_it:
        others = [one for one in seen if one.found.image != parent.spec.image]
        if others:
            words = f"container {name} on node {others[0].node} runs image {others[0].found.image}"
            return _refuse("ContainerImageMismatch", f"{words}, the Task names {parent.spec.image}")
        return _one_digest(f"container {name}", seen, lambda found: found.image_digest) or ContainerVerdict(
            action="Attach"
        )
    return _one_digest(f"image {parent.spec.image}", seen, lambda found: found.tag_digest) or ContainerVerdict(
        action="Launch"
    )


def _one_digest(what: str, seen: Sequence[_Seen], digest: Callable[[ContainerSeen], str]) -> ContainerVerdict | None:
    """None: it is one and the same on all nodes."""
    unknown = [one.node for one in seen if not digest(one.found)]
    if unknown:
        words = f"{what}: its digest can't be told on {_nodes(unknown)}, so nobody knows what would run"
        return _refuse("ContainerImageUnknown", words)
    found: dict[str, list[str]] = {}
    for one in seen:
        found.setdefault(digest(one.found), []).append(one.node)
    if len(found) == 1:
        return None
    said = "; ".join(f"{value} on {_nodes(nodes)}" for value, nodes in found.items())
    return _refuse("ContainerImageMismatch", f"{what} is not the same on all nodes: {said}")


def _nodes(names: list[str]) -> str:
    return f"node{'' if len(names) == 1 else 's'} {names_text(names)}"


def _refuse(reason: str, message: str) -> ContainerVerdict:
    return ContainerVerdict(action="Refuse", reason=reason, message=message)
