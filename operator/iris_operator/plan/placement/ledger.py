"""Who uses what in one namespace: kept from pass to pass, so that a pass costs what changed, not what exists.

Only a cache: a Ledger that was handed in gives the same plan as a new one. Objects are told apart by identity (they are
frozen; whoever changes one makes another) and are held on to, so that an identity is never used twice.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import NamedTuple

from iris_operator.api.cluster import Defaults, IrisCluster
from iris_operator.api.member import MemberBinding
from iris_operator.api.quantity import Amounts, amounts, minus
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Availability, Slice, SliceNode, SlicePhase, SliceTemplateSpec
from iris_operator.api.task import Binding, Task
from iris_operator.plan.groups.members import Member, make_member
from iris_operator.plan.groups.roster import Roster, make_roster
from iris_operator.plan.placement.occupants import Bound, Occupants, ports_of
from iris_operator.plan.placement.shapes import Shape, Shapes
from iris_operator.plan.placement.squad import Squad, squad_of
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.tasks.policy import denial
from iris_operator.plan.tasks.requests import task_requests

# A degraded slice's healthy nodes still take Tasks: each Task runs on one node.
_TAKES_TASKS = (SlicePhase.READY, SlicePhase.DEGRADED)


Entry = tuple[int, int, int, str, int, str]
"""Free devices, cpu, memory, then slice, rank, worker UID: sorts the fullest first."""

Scope = tuple[str, str, str]
"""Cluster, slice, group that a Task may use; empty: any."""

_SCOPES = 64


@dataclass(slots=True)
class Slot:
    """One ready node of a slice that takes Tasks: what they may use of it and what is free now.

    `tasks` of at most `max_tasks` are bound to it. `refuses`: why it takes no more though it is ready; empty: it does.
    """

    slice_name: str
    scale_group_name: str
    cluster: str
    node_name: str
    rank: int
    worker_pod: str
    worker_uid: str
    capacity: Amounts
    free: dict[str, int]
    tasks: int
    max_tasks: int
    refuses: str
    address: str = ""

    scopes: tuple[Scope, ...] = field(init=False)
    """All that it belongs to."""

    def __post_init__(self) -> None:
        self.scopes = ((self.cluster, "", ""), (self.cluster, self.slice_name, ""))
        group = self.scale_group_name
        if group:
            self.scopes += ((self.cluster, "", group), (self.cluster, self.slice_name, group))

    @property
    def room(self) -> int:
        """Tasks that it may still take, by their number."""
        return 0 if self.refuses else max(0, self.max_tasks - self.tasks)

    def binding(self, attempt: int, now: datetime, member: MemberBinding | None = None) -> Binding:
        """Of a Task that goes here."""
        return Binding(
            slice_name=self.slice_name,
            node_name=self.node_name,
            worker_pod=self.worker_pod,
            worker_uid=self.worker_uid,
            rank=self.rank,
            attempt=attempt,
            bound_at=now,
            member=member,
        )

    def place(self, free: Amounts) -> Entry:
        """Its entry, were so much free."""
        cpu, memory = free.get("cpu", 0), free.get("memory", 0)
        # Nearly always the other resources are one or two: a loop beats sum().
        devices = 0
        for name, value in free.items():
            if name != "cpu" and name != "memory":
                devices += value
        return (devices, cpu, memory, self.slice_name, self.rank, self.worker_uid)


class Waiting(NamedTuple):
    """A Task without a binding. `since`: its creation, seconds since 1970. `shape`: its needs, or why no settings apply.

    `denied`: why it must not be placed at all (task_policy); empty: it may be. `squad`: of a Task of several replicas,
    which is never placed itself, the members to place.
    """

    since: float
    name: str
    task: Task
    shape: Shape | NoCluster
    denied: str = ""
    squad: Squad | None = None


class Ledger:
    """One namespace's Tasks and slots. `sync` first, then read; nothing that it hands out may be changed.

    `lowest`: the lowest priority among Tasks that have not ended; None while all have the same.
    """

    def __init__(self) -> None:
        self._reset(Shapes("", ()))

    def _reset(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.slots: dict[str, Slot] = {}  # by worker UID
        self._places: dict[str, Entry] = {}  # the slots' entries with what is free now
        self._sorted: dict[Scope, list[Entry]] = {}  # of the scopes that were asked for
        self.busy: dict[str, int] = {}  # slice name -> Tasks bound to it
        self._waiting: dict[int, Waiting] = {}
        self._tasks: dict[int, Task] = {}
        self._parents: dict[str, Waiting] = {}  # Tasks of several replicas, by UID
        self._crowds: dict[str, dict[int, Task]] = {}  # their members that have not ended, by the parent's UID
        self._bound: dict[int, Bound] = {}
        self.occupants = Occupants()
        self._priorities: dict[int, int] = {}  # of open Tasks whose priority isn't 0
        self.lowest: int | None = None
        self._used: dict[str, dict[str, int]] = {}
        self._numbers: dict[str, int] = {}  # worker UID -> Tasks bound to it
        self._capacities: dict[tuple[tuple[str, str], ...], Amounts] = {}
        self._slices: dict[int, tuple[Slice, tuple[str, ...]]] = {}
        self._members: dict[int, Member] = {}
        self._owned: dict[str, dict[int, Member]] = {}
        # By group: its template, that one's hash, and the roster by it. Gone when one of its slices changes.
        self._rosters: dict[str, tuple[SliceTemplateSpec, str, Roster]] = {}

    def sync(
        self, namespace: str, clusters: Iterable[IrisCluster], slices: Sequence[Slice], tasks: Sequence[Task]
    ) -> None:
        """Take over what there is now."""
        here = tuple(one for one in clusters if one.metadata.namespace == namespace)
        if namespace != self.shapes.namespace or _settings(here) != _settings(self.shapes.clusters):
            self._reset(Shapes(namespace, here))
        else:
            self.shapes.renew(here)
        changed = self._sync_tasks(tasks)
        self.lowest = self._lowest()
        self._sync_slices(slices)
        for worker in changed:
            slot = self.slots.get(worker)
            if slot is not None:
                slot.free = minus(slot.capacity, self._used.get(worker, {}))
                slot.tasks = self._numbers.get(worker, 0)
                self._put(slot)

    def knows(self, task: Task) -> bool:
        """Whether this is the Task as it is now: nothing happened to it since."""
        return id(task) in self._tasks

    def waiting(self) -> list[Waiting]:
        """Tasks to place: by priority, then the oldest first."""
        found = sorted([*self._waiting.values(), *self._squads()], key=itemgetter(0, 1))
        if self._priorities:
            found.sort(key=lambda one: -one.task.spec.priority)
        return found

    def _squads(self) -> Iterator[Waiting]:
        for uid, one in self._parents.items():
            if one.denied:
                yield one
                continue
            crowd = self._crowds.get(uid, {}).values()
            if any(member.spec.binding is None for member in crowd):  # most run
                squad = squad_of(one.task, crowd)
                if squad is not None:
                    yield one._replace(squad=squad)

    def waiting_names(self) -> set[str]:
        """Of all that have no place yet, members by the name of their Task."""
        return {one.name for one in (*self._waiting.values(), *self._parents.values())}

    def entries(self, scope: Scope) -> list[Entry]:
        """The slots of a scope that may take one more Task, the fullest first."""
        if scope not in self._sorted:
            if len(self._sorted) >= _SCOPES:
                self._sorted.clear()
            rows = [entry for worker, entry in self._places.items() if scope in self.slots[worker].scopes]
            self._sorted[scope] = sorted(rows)
        return self._sorted[scope]

    def owned(self, uid: str) -> list[Member]:
        """The slices of the ScaleGroup with that UID; "": those made by hand."""
        return list(self._owned.get(uid, {}).values())

    def roster(self, group: ScaleGroup) -> tuple[str, Roster]:
        """The hash of the group's template, and its slices sorted out by it."""
        uid, template = group.metadata.uid, group.spec.template.spec
        kept = self._rosters.get(uid)
        if kept is None or kept[0] is not template:
            digest = template.template_hash()
            if kept is None or kept[1] != digest:
                kept = (template, digest, make_roster(self.owned(uid), digest))
            self._rosters[uid] = kept = (template, digest, kept[2])
        return kept[1], kept[2]

    def members(self) -> list[Member]:
        """All slices of the namespace."""
        return list(self._members.values())

    def slice_names(self) -> set[str]:
        """All of the namespace."""
        return {one.name for one in self._members.values()}

    def _sync_tasks(self, tasks: Sequence[Task]) -> set[str]:
        """Workers whose use changed."""
        now = dict(zip(map(id, tasks), tasks, strict=True))
        changed: set[str] = set()
        for gone in self._tasks.keys() - now.keys():
            self._waiting.pop(gone, None)
            if self._parents or self._crowds:
                self._leave(gone)
            self._priorities.pop(gone, None)
            bound = self._bound.pop(gone, None)
            if bound is not None:
                self._count(bound, -1)
                changed.add(bound.worker_uid)
        for new in now.keys() - self._tasks.keys():
            bound = self._take(new, now[new])
            if bound is not None:
                self._count(bound, 1)
                changed.add(bound.worker_uid)
        self._tasks = now
        return changed

    def _lowest(self) -> int | None:
        """The lowest priority of open Tasks; None: all have the same, so nobody goes before anybody for it."""
        if not self._priorities:
            return None
        found = set(self._priorities.values())
        if len(self._priorities) < len(self._tasks):
            found.add(0)
        return min(found) if len(found) > 1 else None

    def _take(self, key: int, task: Task) -> Bound | None:
        status, binding = task.status, task.spec.binding
        if task.ended:
            return None
        if task.spec.priority:
            self._priorities[key] = task.spec.priority
        owner = task.owner_uid if task.metadata.owner_references else ""
        if owner:
            self._crowds.setdefault(owner, {})[key] = task
        if binding is None:
            if task.spec.replicas > 1:
                self._parents[task.metadata.uid] = self._wait(task)
            elif not owner and not task.deleting:
                self._waiting[key] = self._wait(task)
            return None
        if (status.ended_attempt or 0) >= binding.attempt:  # its sandbox is gone; its binding goes next
            return None
        shape = self.shapes.of(task)
        wanted = task_requests(task, Defaults()) if isinstance(shape, NoCluster) else shape.wanted
        found = self._bound[key] = Bound(task, binding.slice_name, binding.worker_uid, wanted, ports_of(task))
        return found

    def _wait(self, task: Task) -> Waiting:
        created = task.metadata.creation_timestamp
        since = created.timestamp() if created else math.inf
        return Waiting(since, task.metadata.name, task, self.shapes.of(task), self._denied(task))

    def _leave(self, gone: int) -> None:
        """Of a parent or a member; the newer version of it is taken after this."""
        task = self._tasks[gone]
        self._parents.pop(task.metadata.uid, None)
        crowd = self._crowds.get(task.owner_uid)
        if crowd is not None:
            crowd.pop(gone, None)
            if not crowd:
                del self._crowds[task.owner_uid]

    def _denied(self, task: Task) -> str:
        cluster = self.shapes.cluster(task.spec.cluster_name)
        return "" if isinstance(cluster, NoCluster) else denial(task, cluster)

    def _count(self, bound: Bound, sign: int) -> None:
        if sign > 0:
            self.occupants.add(bound)
        else:
            self.occupants.remove(bound)
        used = self._used.setdefault(bound.worker_uid, {})
        for name, value in bound.wanted.items():
            used[name] = used.get(name, 0) + sign * value
        if not any(used.values()):
            del self._used[bound.worker_uid]
        _add(self._numbers, bound.worker_uid, sign)
        _add(self.busy, bound.slice_name, sign)

    def _sync_slices(self, slices: Sequence[Slice]) -> None:
        now = dict(zip(map(id, slices), slices, strict=True))
        for gone in self._slices.keys() - now.keys():
            for worker in self._slices.pop(gone)[1]:
                self._move(self.slots.pop(worker), None)
            member = self._members.pop(gone)
            del self._owned[member.owner_uid][gone]
            self._rosters.pop(member.owner_uid, None)
        for new in now.keys() - self._slices.keys():
            made = {slot.worker_uid: slot for slot in self._slots(now[new])}
            self.slots.update(made)
            for slot in made.values():
                self._put(slot)
            self._slices[new] = (now[new], tuple(made))
            kinds = {id(kind): kind for kind in self._capacities_of(now[new])}
            member = self._members[new] = make_member(now[new], tuple(kinds.values()))
            self._owned.setdefault(member.owner_uid, {})[new] = member
            self._rosters.pop(member.owner_uid, None)

    def _put(self, slot: Slot) -> None:
        self._move(slot, slot.place(slot.free) if slot.room else None)

    def _move(self, slot: Slot, entry: Entry | None) -> None:
        """Put the slot in its place among the others; None: take it out."""
        before = self._places.pop(slot.worker_uid, None)
        if entry is not None:
            self._places[slot.worker_uid] = entry
        for row in [self._sorted[scope] for scope in slot.scopes if scope in self._sorted]:
            if before is not None:
                del row[bisect_left(row, before)]
            if entry is not None:
                insort(row, entry)

    def _slots(self, owner: Slice) -> Iterable[Slot]:
        if owner.deleting or owner.status.phase not in _TAKES_TASKS:
            return
        if owner.spec.availability is not Availability.SCHEDULABLE:
            return
        cluster = self.shapes.cluster(owner.spec.cluster_name)
        if isinstance(cluster, NoCluster):
            return
        for node in owner.status.nodes:
            if node.ready:
                capacity = self._capacity(node)
                yield Slot(
                    slice_name=owner.metadata.name,
                    scale_group_name=owner.spec.scale_group_name,
                    cluster=cluster.metadata.name,
                    node_name=node.name,
                    rank=node.rank,
                    worker_pod=node.worker_pod,
                    worker_uid=node.worker_uid,
                    capacity=capacity,
                    free=minus(capacity, self._used.get(node.worker_uid, {})),
                    tasks=self._numbers.get(node.worker_uid, 0),
                    max_tasks=cluster.spec.worker.max_tasks,
                    refuses=node.refuses,
                    address=node.address,
                )

    def _capacities_of(self, owner: Slice) -> Iterable[Amounts]:
        return (self._capacity(node) for node in owner.status.nodes if node.ready)

    def _capacity(self, node: SliceNode) -> Amounts:
        """One object for all nodes alike."""
        text = tuple(node.allocatable.items())
        if text not in self._capacities:
            self._capacities[text] = amounts(node.allocatable)
        return self._capacities[text]


def _settings(clusters: tuple[IrisCluster, ...]) -> list[tuple[object, ...]]:
    """What shapes, slots and denials depend on."""
    return [
        (
            one.metadata.name,
            one.spec.defaults,
            one.spec.policy,
            one.spec.worker.max_tasks,
            one.spec.worker.runtime,
            one.spec.worker.volume_claims,
        )
        for one in clusters
    ]


def _add(numbers: dict[str, int], key: str, more: int) -> None:
    number = numbers.get(key, 0) + more
    if number:
        numbers[key] = number
    else:
        del numbers[key]
