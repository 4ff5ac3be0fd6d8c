"""What a NodePool's conditions mean for its slice (docs/coreweave-nodepool.md): acts on types, shows reasons."""

from __future__ import annotations

from dataclasses import dataclass

from iris_operator.api.core import CoreCondition
from iris_operator.api.names import ANNOTATION_SLICE_UID
from iris_operator.api.nodepool import NodePool
from iris_operator.api.slice import FailureKind, Slice
from iris_operator.plan.conditions import ConditionStatus
from iris_operator.plan.slices.obstacles import Obstacle

# The vendor renamed Valid to Validated in January 2026.
_VALIDATED = ("Validated", "Valid")
# Kubernetes' own word for a server's fault. No public text shows the vendor use it in a condition.
_INTERNAL = "InternalError"
_EVENTS = {"CWOverQuota": FailureKind.OVER_QUOTA, "CWInsufficientCapacity": FailureKind.NO_CAPACITY}


@dataclass(frozen=True)
class PoolState:
    """Whether the vendor will boot nodes for it. `failure`: what it counts as if it stays so; `rejected`: it will."""

    accepted: ConditionStatus
    reason: str
    message: str
    failure: FailureKind | None = None

    @property
    def rejected(self) -> bool:
        """Nothing will ever be booted for it, as it stands."""
        return self.failure is FailureKind.INVALID_REQUEST


MACHINES = PoolState("True", "External", "its machines are no vendor's: there is no NodePool")
"""Of a Slice without a NodePool, spec.external."""


def is_ours(node_pool: NodePool, owner: Slice) -> bool:
    """Whether this NodePool was made for this very Slice."""
    return node_pool.metadata.annotations.get(ANNOTATION_SLICE_UID) == owner.metadata.uid


def pool_state(node_pool: NodePool | None, obstacle: Obstacle | None = None) -> PoolState:
    """The worst that the conditions say: invalid, then quota, then capacity, then a fault of the vendor's."""
    if node_pool is None:
        return _without_pool(obstacle)
    return _bad(node_pool) or _good(node_pool)


def told_by_events(reasons: tuple[str, ...]) -> FailureKind | None:
    """What the vendor's Events say of a NodePool whose conditions say nothing: quota before capacity."""
    return next((kind for reason, kind in _EVENTS.items() if reason in reasons), None)


def _without_pool(obstacle: Obstacle | None) -> PoolState:
    if obstacle is None or obstacle.call != "launch":
        return PoolState("Unknown", "CreatingNodePool", "its NodePool is being made")
    return PoolState("False" if obstacle.failure else "Unknown", obstacle.reason, obstacle.message, obstacle.failure)


def _bad(node_pool: NodePool) -> PoolState | None:
    conditions = {one.type: one for one in node_pool.status.conditions}
    name = node_pool.metadata.name
    for one in node_pool.status.conditions:
        if one.reason == _INTERNAL and one.status != "True":
            # before validity: a fault while validating says nothing about the spec
            words = f"CoreWeave reports a fault of its own on NodePool {name}: {_words(one)}"
            return PoolState("False", "Internal", words, FailureKind.INTERNAL)
    for kind in _VALIDATED:
        if _is(conditions.get(kind), "False"):
            words = f"NodePool {name} is invalid: {_words(conditions[kind])}"
            return PoolState("False", "InvalidNodePool", words, FailureKind.INVALID_REQUEST)
    if _is(conditions.get("Quota"), "False"):
        words = f"NodePool {name} is over quota: {_words(conditions['Quota'])}"
        return PoolState("False", "OverQuota", words, FailureKind.OVER_QUOTA)
    if _is(conditions.get("Capacity"), "False"):
        words = f"NodePool {name} waits for capacity: {_words(conditions['Capacity'])}"
        return PoolState("False", "NoCapacity", words, FailureKind.NO_CAPACITY)
    return None


def _good(node_pool: NodePool) -> PoolState:
    name, status = node_pool.metadata.name, node_pool.status
    if not any(one.type in _VALIDATED and one.status == "True" for one in status.conditions):
        return PoolState("Unknown", "WaitingForCoreWeave", f"NodePool {name} has not been looked at by CoreWeave yet")
    parts = (status.current_nodes, status.in_progress, status.queued_nodes)
    if sum(parts) < 2:  # of one node the slice says all there is to say; each word more would be a write more
        return PoolState("True", "Accepted", f"NodePool {name} is accepted")
    counts = "{} registered, {} booting, {} queued".format(*parts)
    return PoolState("True", "Accepted", f"NodePool {name}: {counts}")


def _is(condition: CoreCondition | None, status: str) -> bool:
    return condition is not None and condition.status == status


def _words(condition: CoreCondition) -> str:
    return f"{condition.reason}: {condition.message}".strip(": ")
