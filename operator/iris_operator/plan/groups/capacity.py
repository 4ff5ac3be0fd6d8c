"""What one node of a ScaleGroup's next slice offers to Tasks: as stated, as learned, and for GPUs as ordered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iris_operator.api.names import GPU_RESOURCE, RDMA_RESOURCE
from iris_operator.api.quantity import Amounts, amounts
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import SliceTemplateSpec
from iris_operator.plan.placement.occupants import Port

PLENTY = 2**62
"""Of a resource that nobody knows about yet: whatever is asked for is taken to fit."""


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """`known`: amounts in own units. `complete`: what isn't among them isn't there, rather than unknown.

    `tasks`: how many it takes at most, whatever their size. `ports`: those that are taken.
    """

    known: Amounts
    complete: bool
    tasks: int = PLENTY
    ports: frozenset[Port] = frozenset()

    def of(self, name: str) -> int:
        """How much there is of a resource; PLENTY when unknown."""
        return self.known.get(name, 0 if self.complete else PLENTY)


def ordered_capacity(template: SliceTemplateSpec) -> NodeCapacity:
    """What is known of a node before one was seen: its GPUs, and that it has no InfiniBand unless ordered."""
    known = {GPU_RESOURCE: template.gpus_per_node}
    if not template.infiniband:
        known[RDMA_RESOURCE] = 0
    return NodeCapacity(known, False)


def group_capacity(group: ScaleGroup, learned: Amounts, max_tasks: int = PLENTY) -> NodeCapacity:
    """spec.nodeResources over what was learned over what was ordered."""
    ordered = ordered_capacity(group.spec.template.spec).known
    return NodeCapacity({**ordered, **learned, **amounts(group.spec.node_resources)}, bool(learned), max_tasks)


def learn(before: Amounts, kinds: Sequence[Amounts], *, forget: bool) -> dict[str, int]:
    """The least of each resource over `kinds`, the capacities of ready nodes of the present template.

    Without any: what was learned before, unless that may be another template's (`forget`).
    """
    if not kinds:
        return {} if forget else dict(before)
    names = sorted({name for kind in kinds for name in kind})
    return {name: min(kind.get(name, 0) for kind in kinds) for name in names}
