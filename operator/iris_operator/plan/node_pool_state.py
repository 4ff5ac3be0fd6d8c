"""What a NodePool's conditions mean for its slice (docs/coreweave-nodepool.md): acts on types, shows reasons."""

from __future__ import annotations

from dataclasses import dataclass

from iris_operator.api.core import CoreCondition
from iris_operator.api.names import ANNOTATION_SLICE_UID
from iris_operator.api.nodepool import NodePool
from iris_operator.api.slice import Slice
from iris_operator.plan.conditions import ConditionStatus

# The vendor renamed Valid to Validated in January 2026.
_VALIDATED = ("Validated", "Valid")


@dataclass(frozen=True)
class PoolState:
    """Whether the vendor will boot nodes for it. `rejected`: never, as it stands."""

    accepted: ConditionStatus
    reason: str
    message: str
    rejected: bool = False


def is_ours(node_pool: NodePool, owner: Slice) -> bool:
    """Whether this NodePool was made for this very Slice."""
    return node_pool.metadata.annotations.get(ANNOTATION_SLICE_UID) == owner.metadata.uid


def pool_state(node_pool: NodePool | None) -> PoolState:
    """The worst that the conditions say: invalid, then quota, then capacity."""
    if node_pool is None:
        return PoolState("Unknown", "CreatingNodePool", "its NodePool is being made")
    conditions = {one.type: one for one in node_pool.status.conditions}
    name = node_pool.metadata.name
    for kind in _VALIDATED:
        if _is(conditions.get(kind), "False"):
            return PoolState(
                "False", "InvalidNodePool", f"NodePool {name} is invalid: {_words(conditions[kind])}", True
            )
    if _is(conditions.get("Quota"), "False"):
        return PoolState("False", "OverQuota", f"NodePool {name} is over quota: {_words(conditions['Quota'])}")
    if _is(conditions.get("Capacity"), "False"):
        return PoolState("False", "NoCapacity", f"NodePool {name} waits for capacity: {_words(conditions['Capacity'])}")
    if not any(_is(conditions.get(kind), "True") for kind in _VALIDATED):
        return PoolState("Unknown", "WaitingForCoreWeave", f"NodePool {name} has not been looked at by CoreWeave yet")
    status = node_pool.status
    return PoolState(
        "True",
        "Accepted",
        f"NodePool {name}: {status.current_nodes} registered, {status.in_progress} booting, "
        f"{status.queued_nodes} queued",
    )


def _is(condition: CoreCondition | None, status: str) -> bool:
    return condition is not None and condition.status == status


def _words(condition: CoreCondition) -> str:
    return f"{condition.reason}: {condition.message}".strip(": ")
