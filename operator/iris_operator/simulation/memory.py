"""What the simulated operator remembers: the objects it was told of, as controller/cache.py keeps them."""

from __future__ import annotations

from collections import defaultdict
from typing import TypeVar, cast

from iris_operator.api.base import Resource
from iris_operator.api.cluster import IrisCluster
from iris_operator.api.core import Lease, Node, Pod
from iris_operator.api.names import LABEL_SLICE, LABEL_SLICE_ID, slice_id
from iris_operator.api.nodepool import NodePool
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.plan.groups.fleet import FleetView
from iris_operator.plan.placement.placement import PlacementView
from iris_operator.plan.settings import NoCluster, cluster_for

R = TypeVar("R", bound=Resource)
WATCHED: tuple[type[Resource], ...] = (IrisCluster, ScaleGroup, Slice, Task, NodePool, Node, Pod, Lease)


class Memory:
    """Objects by model and key; a crash loses all of it."""

    def __init__(self) -> None:
        self._objects: dict[type[Resource], dict[str, Resource]] = {model: {} for model in WATCHED}
        self._open: dict[str, Task] = {}
        self._on: defaultdict[str, dict[str, Task]] = defaultdict(dict)  # slice -> open Tasks bound to it, by key
        self._nodes_of: defaultdict[str, set[str]] = defaultdict(set)
        self._workers_of: defaultdict[str, set[str]] = defaultdict(set)
        self._slice_by_id: dict[str, Slice] = {}
        self._gone: set[str] = set()

    def all(self, model: type[R]) -> dict[str, R]:
        """The objects of a model by key; not to be changed."""
        return cast("dict[str, R]", self._objects[model])

    def get(self, model: type[R], key: str) -> R | None:
        """One object as last heard of."""
        return cast("R | None", self._objects[model].get(key))

    def put(self, found: Resource) -> Resource | None:
        """Take it over; answers what was known before. An older version than the known one is no news: KeyError."""
        known = self._objects[type(found)].get(found.key)
        older = known is not None and int(known.metadata.resource_version) >= int(found.metadata.resource_version)
        if older or found.metadata.uid in self._gone:
            raise KeyError(found.key)
        if known is not None:
            self._unindex(known)
        self._objects[type(found)][found.key] = found
        self._index(found)
        return known

    def drop(self, gone: Resource) -> Resource | None:
        """Forget that very object; None when it was not known."""
        self._gone.add(gone.metadata.uid)
        known = self._objects[type(gone)].get(gone.key)
        if known is None or known.metadata.uid != gone.metadata.uid:
            return None
        del self._objects[type(gone)][gone.key]
        self._unindex(known)
        return known

    def owner_of(self, node: Node) -> Slice | None:
        """The Slice whose label a node carries."""
        return self._slice_by_id.get(node.metadata.labels.get(LABEL_SLICE_ID, ""))

    def nodes_of(self, owner: Slice) -> tuple[Node, ...]:
        """Nodes that carry the slice's label, by name."""
        names = sorted(self._nodes_of[slice_id(owner.metadata.namespace, owner.metadata.name)])
        return tuple(self.all(Node)[key] for key in names)

    def workers_of(self, owner: Slice) -> dict[str, Pod]:
        """The slice's worker Pods by name."""
        return {self.all(Pod)[key].metadata.name: self.all(Pod)[key] for key in sorted(self._workers_of[owner.key])}

    def tasks_on(self, owner: Slice) -> tuple[Task, ...]:
        """Open Tasks bound to the slice."""
        return tuple(self._on[owner.key].values())

    def open_tasks(self) -> tuple[Task, ...]:
        """All Tasks that have not ended."""
        return tuple(self._open.values())

    def cluster_of(self, namespace: str, name: str) -> IrisCluster | NoCluster:
        """The IrisCluster whose settings apply."""
        return cluster_for(namespace, name, self.all(IrisCluster).values())

    def placement_view(self, namespace: str) -> PlacementView:
        """What placement looks at."""
        return PlacementView(
            namespace=namespace,
            clusters=tuple(self.all(IrisCluster).values()),
            slices=tuple(self.all(Slice).values()),
            tasks=self.open_tasks(),
        )

    def fleet_view(self, namespace: str, gangs: dict[str, str]) -> FleetView:
        """What the fleet pass looks at."""
        return FleetView(
            namespace=namespace,
            clusters=tuple(self.all(IrisCluster).values()),
            groups=tuple(self.all(ScaleGroup).values()),
            slices=tuple(self.all(Slice).values()),
            tasks=self.open_tasks(),
            gangs=gangs,
        )

    def worker_exists(self, task: Task) -> bool:
        """Whether the very worker Pod that a Task is bound to stands."""
        binding = task.spec.binding
        pod = self.get(Pod, f"{task.metadata.namespace}/{binding.worker_pod}") if binding else None
        return pod is not None and binding is not None and pod.metadata.uid == binding.worker_uid

    def _index(self, found: Resource) -> None:
        if isinstance(found, Task):
            if found.status.phase is None or not found.status.phase.ended:
                self._open[found.key] = found
                if found.spec.binding is not None:
                    self._on[f"{found.metadata.namespace}/{found.spec.binding.slice_name}"][found.key] = found
        elif isinstance(found, Slice):
            self._slice_by_id[slice_id(found.metadata.namespace, found.metadata.name)] = found
        elif isinstance(found, Node):
            self._nodes_of[found.metadata.labels.get(LABEL_SLICE_ID, "")].add(found.key)
        elif isinstance(found, Pod):
            self._workers_of[f"{found.metadata.namespace}/{found.metadata.labels.get(LABEL_SLICE, '')}"].add(found.key)

    def _unindex(self, known: Resource) -> None:
        if isinstance(known, Task):
            self._open.pop(known.key, None)
            if known.spec.binding is not None:
                self._on[f"{known.metadata.namespace}/{known.spec.binding.slice_name}"].pop(known.key, None)
        elif isinstance(known, Slice):
            self._slice_by_id.pop(slice_id(known.metadata.namespace, known.metadata.name), None)
        elif isinstance(known, Node):
            self._nodes_of[known.metadata.labels.get(LABEL_SLICE_ID, "")].discard(known.key)
        elif isinstance(known, Pod):
            owner = f"{known.metadata.namespace}/{known.metadata.labels.get(LABEL_SLICE, '')}"
            self._workers_of[owner].discard(known.key)
