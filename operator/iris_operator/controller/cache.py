"""Every object the operator watches, as last seen: parsed once, never older than what was seen before."""

from __future__ import annotations

import logging
from collections import OrderedDict, defaultdict
from collections.abc import Iterable

from pydantic import ValidationError

from iris_operator.api.base import Resource
from iris_operator.api.cluster import IrisCluster
from iris_operator.api.core import CertificateSigningRequest, EndpointSlice, Lease, Node, Pod
from iris_operator.api.machine import is_machine, machine_node, machine_of, machine_pod
from iris_operator.api.names import LABEL_SLICE, LABEL_SLICE_ID, slice_id, worker_pod_name
from iris_operator.api.nodepool import NodePool
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.plan.groups.fleet import FleetView
from iris_operator.plan.placement.placement import PlacementView
from iris_operator.plan.settings import NoCluster, cluster_for
from iris_operator.plan.slices.snapshot import SliceView
from iris_operator.ports.kube import (
    ENDPOINT_SLICES,
    IRIS_CLUSTERS,
    LEASES,
    NODEPOOLS,
    NODES,
    PODS,
    REQUESTS,
    SCALE_GROUPS,
    SLICES,
    TASKS,
    Body,
    Kind,
)

log = logging.getLogger(__name__)

_REMEMBERED_GONE = 10_000

MODELS: dict[Kind, type[Resource]] = {
    IRIS_CLUSTERS: IrisCluster,
    SCALE_GROUPS: ScaleGroup,
    SLICES: Slice,
    TASKS: Task,
    NODEPOOLS: NodePool,
    NODES: Node,
    PODS: Pod,
    LEASES: Lease,
    ENDPOINT_SLICES: EndpointSlice,
    REQUESTS: CertificateSigningRequest,
}


class Cache:
    """Objects by kind and `namespace/name`. Answers with models or frozen views; never with its own dicts."""

    def __init__(self) -> None:
        self.clusters: dict[str, IrisCluster] = {}
        self.groups: dict[str, ScaleGroup] = {}
        self.slices: dict[str, Slice] = {}
        self.tasks: dict[str, Task] = {}
        self.node_pools: dict[str, NodePool] = {}
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.leases: dict[str, Lease] = {}
        self.endpoint_slices: dict[str, EndpointSlice] = {}
        self.requests: dict[str, CertificateSigningRequest] = {}
        # Indices that keep a pass from walking all Tasks ever run.
        self._open_tasks: defaultdict[str, dict[str, Task]] = defaultdict(dict)
        self._tasks_of: defaultdict[str, dict[str, Task]] = defaultdict(dict)  # open ones, by the slice bound to
        self._bound_to: dict[str, str] = {}  # open Task -> the key in _tasks_of
        self._slice_of: dict[str, str] = {}  # slice id -> key
        self._nodes_of: defaultdict[str, set[str]] = defaultdict(set)
        self._workers_of: defaultdict[str, set[str]] = defaultdict(set)
        self._machines_of: defaultdict[str, set[str]] = defaultdict(set)  # keys of Leases, by Slice
        self._endpoints_of: defaultdict[str, dict[str, EndpointSlice]] = defaultdict(dict)  # by the Task that owns them
        # The answer to our own write may come after the watch told of the object's end: it must not bring it back.
        self._gone: OrderedDict[str, None] = OrderedDict()

    def store(self, kind: Kind) -> dict[str, Resource]:
        """The objects of a kind by key."""
        stores: dict[Kind, object] = {
            IRIS_CLUSTERS: self.clusters,
            SCALE_GROUPS: self.groups,
            SLICES: self.slices,
            TASKS: self.tasks,
            NODEPOOLS: self.node_pools,
            NODES: self.nodes,
            PODS: self.pods,
            LEASES: self.leases,
            ENDPOINT_SLICES: self.endpoint_slices,
            REQUESTS: self.requests,
        }
        return stores[kind]  # type: ignore[return-value]

    def put(self, kind: Kind, body: Body) -> Resource | None:
        """Take over an object; None when it is no news. What breaks its schema is logged and left out."""
        try:
            found = MODELS[kind].parse(body)
        except ValidationError as error:
            log.warning("%s %s can't be read: %s", kind.plural, body.get("metadata", {}).get("name"), error)
            return None
        if found.metadata.uid in self._gone:
            return None
        store = self.store(kind)
        before = store.get(found.key)
        if before is not None and int(before.metadata.resource_version) >= int(found.metadata.resource_version):
            return None
        store[found.key] = found
        self._index(found)
        return found

    def drop(self, kind: Kind, key: str, uid: str = "") -> Resource | None:
        """Forget an object (only that uid, when given)."""
        if uid:
            self._gone[uid] = None
            if len(self._gone) > _REMEMBERED_GONE:
                self._gone.popitem(last=False)
        store = self.store(kind)
        found = store.get(key)
        if found is None or (uid and found.metadata.uid != uid):
            return None
        del store[key]
        self._unindex(found)
        return found

    def slice_view(self, owner: Slice) -> SliceView:
        """All that belongs to one Slice."""
        namespace, name = owner.metadata.namespace, owner.metadata.name
        cluster = self.cluster_of(namespace, owner.spec.cluster_name)
        if owner.spec.external is not None:
            return self._machines_view(owner, cluster)
        identity = slice_id(namespace, name)
        workers = self._workers_of[owner.key]
        return SliceView(
            slice=owner,
            settings=cluster if isinstance(cluster, NoCluster) else cluster.spec,
            node_pool=self.node_pools.get(f"/{identity}"),
            nodes=tuple(self.nodes[key] for key in sorted(self._nodes_of[identity])),
            pods={self.pods[key].metadata.name: self.pods[key] for key in sorted(workers)},
            leases={self.leases[key].metadata.name: self.leases[key] for key in sorted(workers) if key in self.leases},
            tasks=tuple(self.tasks_on(namespace, name)),
            boots=self._boots(owner),
        )

    def _machines_view(self, owner: Slice, cluster: IrisCluster | NoCluster) -> SliceView:
        """Of a Slice of machines: their Leases, and the Nodes and Pods that these stand for."""
        leases = (self.leases[key] for key in sorted(self._machines_of[owner.key]))
        names = {worker_pod_name(owner.metadata.name, rank) for rank in range(owner.spec.node_count)}
        known = [(one, machine_of(one)) for one in leases if one.metadata.name in names]
        found = [(lease, machine) for lease, machine in known if machine is not None and lease.spec.holder_identity]
        return SliceView(
            slice=owner,
            settings=cluster if isinstance(cluster, NoCluster) else cluster.spec,
            node_pool=None,
            nodes=tuple(machine_node(lease, machine) for lease, machine in found),
            pods={lease.metadata.name: machine_pod(lease, machine) for lease, machine in found},
            leases={lease.metadata.name: lease for lease, _ in found},
            tasks=tuple(self.tasks_on(owner.metadata.namespace, owner.metadata.name)),
        )

    def slice_by_id(self, identity: str) -> str:
        """Key of the Slice that a label iris-slice-id names; empty when there is none."""
        return self._slice_of.get(identity, "")

    def _boots(self, owner: Slice) -> tuple[int, ...]:
        group = self.groups.get(f"{owner.metadata.namespace}/{owner.spec.scale_group_name}")
        return tuple(boot.seconds for boot in group.status.recent_boots) if group else ()

    def placement_view(self, namespace: str) -> PlacementView:
        """What placement looks at."""
        return PlacementView(
            namespace=namespace,
            clusters=tuple(self.clusters.values()),
            slices=tuple(one for one in self.slices.values() if one.metadata.namespace == namespace),
            tasks=tuple(self._open_tasks[namespace].values()),
        )

    def fleet_view(self, namespace: str) -> FleetView:
        """What the fleet pass looks at."""
        seen = self.placement_view(namespace)
        groups = tuple(one for one in self.groups.values() if one.metadata.namespace == namespace)
        return FleetView(namespace, seen.clusters, groups, seen.slices, seen.tasks)

    def open_tasks(self, namespace: str) -> Iterable[Task]:
        """Tasks that have not ended."""
        return self._open_tasks[namespace].values()

    def tasks_on(self, namespace: str, slice_name: str) -> Iterable[Task]:
        """Tasks bound to a slice that have not ended."""
        return self._tasks_of[f"{namespace}/{slice_name}"].values()

    def endpoints_of(self, task_key: str) -> list[EndpointSlice]:
        """EndpointSlices that a Task of that key owns, or owned."""
        return list(self._endpoints_of[task_key].values()) if task_key in self._endpoints_of else []

    def cluster_of(self, namespace: str, name: str) -> IrisCluster | NoCluster:
        """The IrisCluster whose settings apply."""
        return cluster_for(namespace, name, self.clusters.values())

    def worker_exists(self, task: Task) -> bool:
        """Whether the very worker that a Task is bound to stands: its Pod, or a machine's Lease."""
        binding = task.spec.binding
        if binding is None:
            return False
        key = f"{task.metadata.namespace}/{binding.worker_pod}"
        pod, lease = self.pods.get(key), self.leases.get(key)
        if pod is not None and pod.metadata.uid == binding.worker_uid:
            return True
        return lease is not None and is_machine(lease) and lease.spec.holder_identity == binding.worker_uid

    def _index(self, found: Resource) -> None:
        if isinstance(found, Task):
            if found.ended:
                self._open_tasks[found.metadata.namespace].pop(found.key, None)
            else:
                self._open_tasks[found.metadata.namespace][found.key] = found
            self._index_binding(found, found.ended)
        elif isinstance(found, Slice):
            self._slice_of[slice_id(found.metadata.namespace, found.metadata.name)] = found.key
        elif isinstance(found, Node) and LABEL_SLICE_ID in found.metadata.labels:
            self._nodes_of[found.metadata.labels[LABEL_SLICE_ID]].add(found.key)
        elif isinstance(found, Pod) and LABEL_SLICE in found.metadata.labels:
            self._workers_of[f"{found.metadata.namespace}/{found.metadata.labels[LABEL_SLICE]}"].add(found.key)
        elif isinstance(found, Lease) and is_machine(found):
            self._machines_of[f"{found.metadata.namespace}/{found.metadata.labels.get(LABEL_SLICE, '')}"].add(found.key)
        elif isinstance(found, EndpointSlice):
            self._endpoints_of[owner_task(found)][found.key] = found

    def _index_binding(self, task: Task, ended: bool) -> None:
        binding = task.spec.binding
        slice_key = f"{task.metadata.namespace}/{binding.slice_name}" if binding and not ended else ""
        before = self._bound_to.pop(task.key, "")
        if before and before != slice_key:
            self._tasks_of[before].pop(task.key, None)
        if slice_key:
            self._bound_to[task.key] = slice_key
            self._tasks_of[slice_key][task.key] = task

    def _unindex(self, found: Resource) -> None:
        if isinstance(found, Task):
            self._open_tasks[found.metadata.namespace].pop(found.key, None)
            self._index_binding(found, ended=True)
        elif isinstance(found, Slice):
            self._slice_of.pop(slice_id(found.metadata.namespace, found.metadata.name), None)
        elif isinstance(found, Node):
            self._nodes_of[found.metadata.labels.get(LABEL_SLICE_ID, "")].discard(found.key)
        elif isinstance(found, Pod):
            owner = f"{found.metadata.namespace}/{found.metadata.labels.get(LABEL_SLICE, '')}"
            self._workers_of[owner].discard(found.key)
        elif isinstance(found, Lease):
            owner = f"{found.metadata.namespace}/{found.metadata.labels.get(LABEL_SLICE, '')}"
            self._machines_of[owner].discard(found.key)
        elif isinstance(found, EndpointSlice):
            left = self._endpoints_of[owner_task(found)]
            left.pop(found.key, None)
            if not left:
                del self._endpoints_of[owner_task(found)]


def owner_task(found: EndpointSlice) -> str:
    """Key of the Task that owns it; empty when none does."""
    names = [one.name for one in found.metadata.owner_references if one.kind == Task.KIND]
    return f"{found.metadata.namespace}/{names[0]}" if names else ""
