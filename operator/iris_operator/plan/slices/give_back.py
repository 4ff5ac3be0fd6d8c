"""Giving a slice's nodes back, step by step: stop its Tasks, end its workers, delete its NodePool. Also of failed ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from iris_operator.api.core import Pod
from iris_operator.api.nodepool import NodePool
from iris_operator.plan.actions import DeleteNodePool, DeleteWorker, SliceAction
from iris_operator.plan.slices.drain import stopping
from iris_operator.plan.slices.node_pool_state import is_ours
from iris_operator.plan.slices.snapshot import SliceView
from iris_operator.plan.slices.worker_health import end_by_force
from iris_operator.plan.text import clock, count, names_text

# Beyond its own grace period, how long a Pod may take to be gone before we stop waiting for it.
_SLACK_SECONDS = 30
# A NodePool that is still there so long after its deletion hangs: bare metal is given back in minutes.
HANG_SECONDS = 900
_ASK_AGAIN_SECONDS = (60.0, 600.0)


@dataclass(frozen=True)
class Step:
    """What to do now, why, and when to look again. `pool`: the NodePool is what it waits for; `gone`: nothing is left."""

    actions: tuple[SliceAction, ...]
    reason: str
    message: str
    recheck_seconds: float | None = None
    pool: bool = False
    gone: bool = False


def give_back(view: SliceView, since: datetime, stop_reason: str, now: datetime) -> Step:
    """The next step of what began at `since`; Tasks are told `stop_reason`."""
    tasks = stopping(view, since, stop_reason, now)
    if tasks is not None:
        return Step(tasks.tell, "StoppingTasks", tasks.message, tasks.left_seconds)
    if view.external:
        return Step((), "Deleted", "none of its Tasks is left; its machines stay as they are", gone=True)
    pool = view.node_pool if view.node_pool is not None and is_ours(view.node_pool, view.slice) else None
    if view.pods:
        ending = _end_workers(view, now, pool_gone=pool is None)
        if ending is not None:
            return ending
    if pool is not None:
        return _delete_pool(view, pool, now)
    return Step((), "Deleted", "nothing is left of it", gone=True)


def _delete_pool(view: SliceView, pool: NodePool, now: datetime) -> Step:
    name, left = pool.metadata.name, count(pool.status.current_nodes, "node")
    if view.obstacle is not None and view.obstacle.call == "delete":
        return Step(
            (), view.obstacle.reason, f"{view.obstacle.message} ({left} left, asked again and again)", pool=True
        )
    asked = pool.metadata.deletion_timestamp
    if asked is None:
        waits = f"waits until NodePool {name} is gone ({left} left)"
        return Step((DeleteNodePool(pool),), "DeletingNodePool", waits, pool=True)
    hung = (now - asked).total_seconds() - HANG_SECONDS
    if hung < 0:
        return Step((), "DeletingNodePool", f"waits until NodePool {name} is gone ({left} left)", 1.0 - hung, pool=True)
    words = _vendor_words(pool)
    message = f"NodePool {name} was deleted at {clock(asked)} and is still there ({left} left): {words}"
    again = min(_ASK_AGAIN_SECONDS[1], max(_ASK_AGAIN_SECONDS[0], hung / 2))
    return Step((DeleteNodePool(pool),), "DeletionHangs", message, again, pool=True)


def _vendor_words(pool: NodePool) -> str:
    for one in pool.status.conditions:
        if one.type == "NodesRemoved" and one.message:
            return one.message
    return (
        f"held by {names_text(pool.metadata.finalizers)}" if pool.metadata.finalizers else "CoreWeave does not say why"
    )


def _end_workers(view: SliceView, now: datetime, *, pool_gone: bool) -> Step | None:
    """End the worker Pods. None: what is left of them hangs on a dead node, and goes with the NodePool."""
    actions: list[SliceAction] = []
    hanging = 0
    for pod in view.pods.values():
        on_dead_node = bool(pod.spec.node_name) and pod.spec.node_name not in view.node_names
        if on_dead_node and pool_gone:
            forced = end_by_force(pod)
            actions += [forced] if forced else []
        elif not pod.deleting:
            actions.append(DeleteWorker(pod))
        elif _hangs(pod, now):
            hanging += 1
    if hanging == len(view.pods) and not pool_gone:
        return None
    message = f"waits until {count(len(view.pods), 'worker Pod')} are gone: {names_text(sorted(view.pods))}"
    return Step(tuple(actions), "EndingWorkers", message, 5.0)


def _hangs(pod: Pod, now: datetime) -> bool:
    # deletionTimestamp already includes the grace period
    deleted = pod.metadata.deletion_timestamp
    return deleted is not None and now > deleted + timedelta(seconds=_SLACK_SECONDS)
