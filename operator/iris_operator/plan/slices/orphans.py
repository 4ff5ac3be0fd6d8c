"""NodePools that Iris made and whose Slice is no more: marked, given a grace, deleted. Strangers' are never looked at.

Such a one comes about when an operator that lost the Lease finished its last write, when a Slice's finalizer was taken
off by hand, or when a namespace was forced away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from iris_operator.api.names import (
    ANNOTATION_ORPHANED_SINCE,
    ANNOTATION_SLICE,
    ANNOTATION_SLICE_UID,
    LABEL_MANAGED,
)
from iris_operator.api.nodepool import NodePool


@dataclass(frozen=True)
class OrphanView:
    """All NodePools; the UIDs of the Slices that exist in each namespace that we watch; the grace there in seconds."""

    node_pools: tuple[NodePool, ...]
    slice_uids: Mapping[str, frozenset[str]]
    grace_seconds: Mapping[str, int]


@dataclass(frozen=True)
class MarkOrphan:
    """Write on the NodePool since when its Slice is missing."""

    node_pool: NodePool
    since: datetime


@dataclass(frozen=True)
class UnmarkOrphan:
    """Its Slice is there after all."""

    node_pool: NodePool


@dataclass(frozen=True)
class DeleteOrphan:
    """Its grace is over: give its nodes back."""

    node_pool: NodePool
    reason: str


OrphanAction = MarkOrphan | UnmarkOrphan | DeleteOrphan


@dataclass(frozen=True)
class OrphanPlan:
    """What to do, and when to look again though nothing changes."""

    actions: tuple[OrphanAction, ...]
    recheck_seconds: float | None = None


def plan_orphans(view: OrphanView, now: datetime) -> OrphanPlan:
    """Each NodePool by itself."""
    actions: list[OrphanAction] = []
    waits: list[float] = []
    for node_pool in sorted(view.node_pools, key=lambda one: one.metadata.name):
        owner = owner_of(node_pool)
        if owner is None or owner.namespace not in view.slice_uids or node_pool.deleting:
            continue
        orphaned = owner.uid not in view.slice_uids[owner.namespace]
        since = orphaned_since(node_pool)
        if not orphaned:
            actions += [UnmarkOrphan(node_pool)] if _marked(node_pool) else []
            continue
        grace = view.grace_seconds[owner.namespace]
        # A time that is not ours to read, or lies ahead of us, counts from now on.
        left = grace if since is None or since > now else (since + timedelta(seconds=grace) - now).total_seconds()
        if since is None or since > now:
            actions.append(MarkOrphan(node_pool, now.replace(microsecond=0)))
        if left <= 0:
            actions.append(DeleteOrphan(node_pool, f"its Slice {owner.key} is gone for more than {grace}s"))
        else:
            waits.append(left + 1)
    return OrphanPlan(tuple(actions), min(waits, default=None))


@dataclass(frozen=True)
class Owner:
    """The Slice that a NodePool was made for."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def owner_of(node_pool: NodePool) -> Owner | None:
    """By our label and both our annotations; None: it is not ours."""
    meta = node_pool.metadata
    namespace, slash, name = meta.annotations.get(ANNOTATION_SLICE, "").partition("/")
    uid = meta.annotations.get(ANNOTATION_SLICE_UID, "")
    if meta.labels.get(LABEL_MANAGED) != "true" or not (namespace and slash and name and uid):
        return None
    return Owner(namespace, name, uid)


def orphaned_since(node_pool: NodePool) -> datetime | None:
    """Since when it is marked; None when it isn't, or when the mark can't be read."""
    try:
        found = datetime.fromisoformat(node_pool.metadata.annotations.get(ANNOTATION_ORPHANED_SINCE, ""))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _marked(node_pool: NodePool) -> bool:
    return ANNOTATION_ORPHANED_SINCE in node_pool.metadata.annotations
