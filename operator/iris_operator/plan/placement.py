"""Which Task goes on which node: oldest first, on the fullest node that has room, so that idle slices stay idle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from iris_operator.api.cluster import Defaults, IrisCluster
from iris_operator.api.quantity import Amounts, amounts, minus, shortage, to_quantity
from iris_operator.api.slice import Slice, SlicePhase
from iris_operator.api.task import Binding, Task
from iris_operator.plan.actions import BindTask
from iris_operator.plan.settings import NoCluster, cluster_for
from iris_operator.plan.task_requests import task_requests
from iris_operator.plan.text import amounts_text, count, names_text

_SHOWN_SLICES = 8
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass
class Slot:
    """One ready node of a slice: what Tasks may use of it and what is still free. `free` shrinks while placing."""

    slice_name: str
    scale_group_name: str
    cluster: str
    node_name: str
    rank: int
    worker_pod: str
    worker_uid: str
    capacity: Amounts
    free: dict[str, int]


@dataclass(frozen=True)
class Unplaced:
    """A Task that stays pending, and why. `reason` is a condition's reason."""

    task: Task
    reason: str
    message: str


@dataclass(frozen=True)
class PlacementPlan:
    """Bindings to make, and what could not be bound."""

    bindings: tuple[BindTask, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()


@dataclass(frozen=True)
class PlacementView:
    """Everything placement looks at, in one namespace."""

    namespace: str
    clusters: tuple[IrisCluster, ...]
    slices: tuple[Slice, ...]
    tasks: tuple[Task, ...]


@dataclass
class _Pass:
    """What one pass remembers: a shape that did not fit once will not fit later in the same pass."""

    slots: list[Slot]
    slices: tuple[Slice, ...]
    misfits: dict[tuple[object, ...], tuple[str, str]] = field(default_factory=dict)


def plan_placement(view: PlacementView, now: datetime) -> PlacementPlan:
    """Place every Task of the namespace that waits."""
    waiting = [task for task in view.tasks if _waits(task)]
    if not waiting:
        return PlacementPlan()
    run = _Pass(list(_slots(view)), view.slices)
    bindings: list[BindTask] = []
    unplaced: list[Unplaced] = []
    for task in sorted(waiting, key=_age):
        cluster = cluster_for(view.namespace, task.spec.cluster_name, view.clusters)
        if isinstance(cluster, NoCluster):
            unplaced.append(Unplaced(task, cluster.reason, cluster.message))
            continue
        outcome = _place(task, cluster.metadata.name, cluster.spec.defaults, run, now)
        if isinstance(outcome, BindTask):
            bindings.append(outcome)
        else:
            unplaced.append(outcome)
    return PlacementPlan(tuple(bindings), tuple(unplaced))


def free_by_slot(view: PlacementView) -> list[Slot]:
    """The ready nodes of a namespace with what is free on each."""
    return list(_slots(view))


def _waits(task: Task) -> bool:
    ended = task.status.phase is not None and task.status.phase.ended
    return task.spec.binding is None and not task.deleting and not ended


def _age(task: Task) -> tuple[datetime, str]:
    return (task.metadata.creation_timestamp or _NEVER, task.metadata.name)


def _slots(view: PlacementView) -> Iterable[Slot]:
    used: dict[str, dict[str, int]] = {}
    defaults = {one.metadata.name: one.spec.defaults for one in view.clusters}
    for task in view.tasks:
        if task.spec.binding is None or (task.status.phase is not None and task.status.phase.ended):
            continue
        cluster = cluster_for(view.namespace, task.spec.cluster_name, view.clusters)
        wanted = task_requests(task, Defaults() if isinstance(cluster, NoCluster) else cluster.spec.defaults)
        taken = used.setdefault(task.spec.binding.worker_uid, {})
        for name, value in wanted.items():
            taken[name] = taken.get(name, 0) + value
    for owner in view.slices:
        cluster = cluster_for(view.namespace, owner.spec.cluster_name, view.clusters)
        if isinstance(cluster, NoCluster) or owner.deleting or owner.status.phase not in _TAKES_TASKS:
            continue
        assert cluster.metadata.name in defaults
        for node in owner.status.nodes:
            if node.ready:
                capacity = amounts(node.allocatable)
                yield Slot(
                    slice_name=owner.metadata.name,
                    scale_group_name=owner.spec.scale_group_name,
                    cluster=cluster.metadata.name,
                    node_name=node.name,
                    rank=node.rank,
                    worker_pod=node.worker_pod,
                    worker_uid=node.worker_uid,
                    capacity=capacity,
                    free=minus(capacity, used.get(node.worker_uid, {})),
                )


# A degraded slice's healthy nodes still take Tasks: each Task runs on one node.
_TAKES_TASKS = (SlicePhase.READY, SlicePhase.DEGRADED)


def _place(task: Task, cluster: str, defaults: Defaults, run: _Pass, now: datetime) -> BindTask | Unplaced:
    wanted = task_requests(task, defaults)
    where = task.spec.placement
    shape = (cluster, where, tuple(sorted(wanted.items())))
    if shape in run.misfits:
        return Unplaced(task, *run.misfits[shape])
    allowed = [
        slot
        for slot in run.slots
        if slot.cluster == cluster
        and where.slice_name in ("", slot.slice_name)
        and where.scale_group_name in ("", slot.scale_group_name)
    ]
    fitting = [slot for slot in allowed if not shortage(wanted, slot.free)]
    if not fitting:
        run.misfits[shape] = _why_not(wanted, allowed, task, run.slices)
        return Unplaced(task, *run.misfits[shape])
    slot = min(fitting, key=_preference)
    slot.free = minus(slot.free, wanted)
    attempt = (task.status.attempt or 0) + 1
    return BindTask(
        task,
        Binding(
            slice_name=slot.slice_name,
            node_name=slot.node_name,
            worker_pod=slot.worker_pod,
            worker_uid=slot.worker_uid,
            rank=slot.rank,
            attempt=attempt,
            bound_at=now,
        ),
    )


def _preference(slot: Slot) -> tuple[int, int, int, str, int]:
    """Fewest free GPUs, then least free cpu and memory; names last, so that the choice is always the same."""
    gpus = sum(value for name, value in slot.free.items() if name not in ("cpu", "memory"))
    return (gpus, slot.free.get("cpu", 0), slot.free.get("memory", 0), slot.slice_name, slot.rank)


def _why_not(wanted: Amounts, allowed: list[Slot], task: Task, slices: tuple[Slice, ...]) -> tuple[str, str]:
    needs = f"needs {amounts_text(wanted)}"
    where = task.spec.placement
    scope = f" in slice {where.slice_name}" if where.slice_name else ""
    scope += f" in group {where.scale_group_name}" if where.scale_group_name else ""
    if not allowed:
        return "NoSliceReady", f"{needs}; no slice{scope} is Ready: {_slices_text(slices)}"
    largest = {name: max(slot.capacity.get(name, 0) for slot in allowed) for name in wanted}
    over = shortage(wanted, largest)
    if over:
        name = min(over)
        has = to_quantity(name, largest[name])
        return "TooLarge", f"{needs}; the largest node{scope} offers {has} {name}: ask for less, or add a larger slice"
    if not any(not shortage(wanted, slot.capacity) for slot in allowed):
        return "TooLarge", f"{needs}; no single node{scope} offers all of that: ask for less, or add a larger slice"
    return "InsufficientResources", f"{needs}; {_free_text(wanted, allowed)}"


def _free_text(wanted: Amounts, allowed: list[Slot]) -> str:
    """`3 nodes have 4, 2, 0 nvidia.com/gpu free`, for each resource that is short somewhere."""
    parts = []
    for name in sorted(wanted):
        if all(slot.free.get(name, 0) >= wanted[name] for slot in allowed):
            continue
        frees = sorted((slot.free.get(name, 0) for slot in allowed), reverse=True)
        shown = ", ".join(to_quantity(name, value) for value in frees[:_SHOWN_SLICES])
        more = f" and {len(frees) - _SHOWN_SLICES} more less" if len(frees) > _SHOWN_SLICES else ""
        have = "has" if len(frees) == 1 else "have"
        parts.append(f"{count(len(frees), 'node')} {have} {shown}{more} {name} free")
    return "; ".join(parts)


def _slices_text(slices: tuple[Slice, ...]) -> str:
    if not slices:
        return "there is none: apply a Slice or a ScaleGroup"
    phases: dict[str, list[str]] = {}
    for one in slices:
        phases.setdefault(str(one.status.phase or SlicePhase.PENDING), []).append(one.metadata.name)
    return "; ".join(
        f"{len(names)} {phase} ({names_text(sorted(names), 3)})" for phase, names in sorted(phases.items())
    )
