"""NodePools without a Slice, all in one pass, as controller/handlers/orphans.py has it."""

from __future__ import annotations

from iris_operator.api.cluster import Timeouts
from iris_operator.api.names import ANNOTATION_ORPHANED_SINCE
from iris_operator.api.nodepool import NodePool
from iris_operator.api.slice import Slice
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.slices.orphans import (
    DeleteOrphan,
    MarkOrphan,
    OrphanView,
    UnmarkOrphan,
    owner_of,
    plan_orphans,
)
from iris_operator.simulation.process import Key, Operator
from iris_operator.simulation.routing import ORPHANS


def orphan_work(namespace: str, operator: Operator, name: str) -> None:
    """All NodePools, in one pass whatever `name`; `namespace` is the one that is watched."""
    memory = operator.memory
    cluster = memory.cluster_of(namespace, "")
    grace = (Timeouts() if isinstance(cluster, NoCluster) else cluster.spec.timeouts).orphan_seconds
    uids = frozenset(one.metadata.uid for one in memory.all(Slice).values())
    view = OrphanView(tuple(memory.all(NodePool).values()), {namespace: uids}, {namespace: grace})
    plan = plan_orphans(view, operator.now)
    if plan.recheck_seconds is not None:
        operator.add(Key(ORPHANS, name), plan.recheck_seconds)
    for action in plan.actions:
        pool = action.node_pool
        if isinstance(action, UnmarkOrphan):
            _annotate(operator, pool, None)
        elif _slice_exists(operator, pool):
            continue
        elif isinstance(action, MarkOrphan):
            _annotate(operator, pool, action.since.isoformat())
        elif isinstance(action, DeleteOrphan):
            operator.delete(pool)
            operator.counters["iris_orphaned_nodepools_total"] += 1


def _annotate(operator: Operator, pool: NodePool, since: str | None) -> None:
    notes = {name: text for name, text in pool.metadata.annotations.items() if name != ANNOTATION_ORPHANED_SINCE}
    if since is not None:
        notes[ANNOTATION_ORPHANED_SINCE] = since
    operator.change(pool, metadata={"annotations": notes})


def _slice_exists(operator: Operator, pool: NodePool) -> bool:
    """Asked of the API: a memory that lags must not cost a live slice."""
    owner = owner_of(pool)
    if owner is None:
        return True
    found = operator.store.get(Slice, owner.key)
    return found is not None and found.metadata.uid == owner.uid
