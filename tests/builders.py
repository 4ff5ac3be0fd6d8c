"""Builders of API objects, for models (`build`) and for the API server (`body`): say what a case is about, no more.

Each call gives a new builder, so a common beginning can be shared. Fields are spelled as in YAML.
"""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Self, TypeVar

from iris_operator.api.base import Resource
from iris_operator.api.cluster import IrisCluster
from iris_operator.api.core import EndpointSlice, Lease, Node, Pod
from iris_operator.api.names import (
    ANNOTATION_AGENT_PROBLEM,
    ANNOTATION_AGENT_VERSION,
    ANNOTATION_DISK_PRESSURE,
    ANNOTATION_SLICE,
    ANNOTATION_SLICE_UID,
    FINALIZER_SLICE,
    FINALIZER_TASK,
    LABEL_MANAGED,
    LABEL_RANK,
    LABEL_SLICE,
    LABEL_SLICE_ID,
    LABEL_TASK,
    member_name,
    slice_id,
    worker_pod_name,
)
from iris_operator.api.nodepool import NODEPOOL_API_VERSION, NodePool
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task

R = TypeVar("R", bound=Resource)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NAMESPACE = "team"
CPU = "cd-gp-i64-erapids"
H100 = "gd-8xh100ib-i128"


def at(seconds_ago: float) -> str:
    """So long before NOW, as the API writes it."""
    return (NOW - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Builder(Generic[R]):
    """Builds one object."""

    def __init__(self, model: type[R], body: dict[str, Any]) -> None:
        self._model, self._body = model, body

    def build(self) -> R:
        """The model."""
        return self._model.parse(self.body())

    def body(self) -> dict[str, Any]:
        """The JSON form."""
        return copy.deepcopy(self._body)

    def meta(self, **fields: Any) -> Self:
        """Set metadata."""
        return self._with("metadata", fields)

    def spec(self, **fields: Any) -> Self:
        """Set members of the spec."""
        return self._with("spec", fields)

    def status(self, **fields: Any) -> Self:
        """Set members of the status."""
        return self._with("status", fields)

    def condition(self, kind: str, status: str, reason: str = "Because", message: str = "", ago: float = 0) -> Self:
        """Add a condition, in force since `ago` seconds before NOW."""
        row = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at(ago)}
        return self.status(conditions=[*self._body.get("status", {}).get("conditions", []), row])

    def made(self, ago: float) -> Self:
        """Created so many seconds before NOW."""
        return self.meta(creationTimestamp=at(ago))

    def labelled(self, **labels: str) -> Self:
        """Add labels."""
        return self.meta(labels={**self._body["metadata"].get("labels", {}), **labels})

    def deleting(self, ago: float = 0) -> Self:
        """Its deletion was asked for so many seconds before NOW."""
        return self.meta(deletionTimestamp=at(ago))

    def _with(self, part: str, fields: dict[str, Any]) -> Self:
        new = copy.copy(self)
        new._body = {**self._body, part: {**self._body.get(part, {}), **copy.deepcopy(fields)}}
        return new


def _metadata(name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    return {
        "name": name, **place, "uid": f"uid-{name}", "resourceVersion": "1", "generation": 1,
        "creationTimestamp": at(3600),
    }  # fmt: skip


def _iris(model: type[R], name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "iris.dev/v1alpha1", "kind": model.KIND, "metadata": _metadata(name), "spec": spec}


class TaskBuilder(Builder[Task]):
    """A Task; pending unless bound."""

    def requests(self, **quantities: Any) -> Self:
        """Set cpu, memory, gpu."""
        return self.spec(resources={"requests": _resources(quantities)})

    def limits(self, **quantities: Any) -> Self:
        """Set cpu, memory, gpu."""
        return self.spec(resources={"limits": _resources(quantities)})

    def bound(self, slice_name: str = "s", rank: int = 0, ago: float = 60, **fields: Any) -> Self:
        """On the worker that `worker(slice_name, rank)` builds, finalizer in place."""
        pod = worker_pod_name(slice_name, rank)
        binding = {
            "sliceName": slice_name, "nodeName": f"{slice_name}-n{rank}", "workerPod": pod, "workerUid": f"uid-{pod}",
            "rank": rank, "attempt": 1, "boundAt": at(ago), **fields,
        }  # fmt: skip
        return self.spec(binding=binding).meta(finalizers=[FINALIZER_TASK])

    def phase(self, phase: str) -> Self:
        """Set the phase."""
        return self.status(phase=phase)


class SliceBuilder(Builder[Slice]):
    """A Slice with our finalizer."""

    def phase(self, phase: str, ago: float = 60) -> Self:
        """Set the phase; one that was Ready says so."""
        ready = {"readySince": at(ago)} if phase in ("Ready", "Degraded") else {}
        return self.status(phase=phase, phaseSince=at(ago), **ready)

    def ready(self, *allocatable: dict[str, Any]) -> Self:
        """Ready, with a ready node for each `{cpu, memory, gpu}`."""
        name = self._body["metadata"]["name"]
        nodes = [_status_node(name, rank, values) for rank, values in enumerate(allocatable)]
        return self.phase("Ready").status(nodes=nodes, nodesReady=f"{len(nodes)}/{len(nodes)}")


class NodePoolBuilder(Builder[NodePool]):
    """A NodePool of a Slice, not yet looked at by the vendor."""

    def validated(self) -> Self:
        """Accepted."""
        return self.condition("Validated", "True", "Valid")


class PodBuilder(Builder[Pod]):
    """A worker Pod on its node, not running yet."""

    def ready(self) -> Self:
        """Its agent's container is ready."""
        return self.status(phase="Running").condition("Ready", "True", "PodReady")


class NodeBuilder(Builder[Node]):
    """A Ready node of a slice."""

    def not_ready(self, reason: str = "KubeletNotReady", message: str = "starting") -> Self:
        """Its kubelet says no."""
        return self.status(conditions=[{"type": "Ready", "status": "False", "reason": reason, "message": message}])


def task(name: str = "t", **spec: Any) -> TaskBuilder:
    """A pending Task."""
    return TaskBuilder(Task, _iris(Task, name, {"image": "iris/task:1", **spec}))


def member(of: str = "t", rank: int = 0, **spec: Any) -> TaskBuilder:
    """A member of `task(of, replicas=...)`."""
    owner = {
        "apiVersion": "iris.dev/v1alpha1", "kind": "Task", "name": of, "uid": f"uid-{of}", "controller": True,
    }  # fmt: skip
    return task(member_name(of, rank), **spec).meta(
        ownerReferences=[owner], labels={LABEL_TASK: of, LABEL_RANK: str(rank)}
    )


def slice_(name: str = "s", **spec: Any) -> SliceBuilder:
    """A Slice of one CPU node."""
    return SliceBuilder(Slice, _iris(Slice, name, {"instanceType": CPU, **spec})).meta(finalizers=[FINALIZER_SLICE])


def cluster(name: str = "default", **spec: Any) -> Builder[IrisCluster]:
    """An IrisCluster that names an agent image."""
    return Builder(IrisCluster, _iris(IrisCluster, name, {"images": {"agent": "iris/agent:1"}, **spec}))


def group(name: str = "g", **spec: Any) -> Builder[ScaleGroup]:
    """A ScaleGroup of CPU slices, minSlices 1 and maxSlices 2."""
    full = {"minSlices": 1, "maxSlices": 2, "template": {"spec": {"instanceType": CPU}}, **spec}
    return Builder(ScaleGroup, _iris(ScaleGroup, name, full))


def group_member(of: str, name: str) -> SliceBuilder:
    """A Slice that a ScaleGroup owns."""
    owner = {"apiVersion": "iris.dev/v1alpha1", "kind": "ScaleGroup", "name": of, "uid": f"uid-{of}"}
    return slice_(name, scaleGroupName=of).meta(ownerReferences=[owner])


def node_pool(slice_name: str = "s", **spec: Any) -> NodePoolBuilder:
    """The NodePool of `slice_(slice_name)`."""
    notes = {ANNOTATION_SLICE: f"{NAMESPACE}/{slice_name}", ANNOTATION_SLICE_UID: f"uid-{slice_name}"}
    metadata = {**_metadata(slice_id(NAMESPACE, slice_name), ""), "annotations": notes}
    full = {"instanceType": CPU, "targetNodes": 1, **spec}
    body = {"apiVersion": NODEPOOL_API_VERSION, "kind": "NodePool", "metadata": metadata, "spec": full}
    return NodePoolBuilder(NodePool, body)


def node(slice_name: str = "s", rank: int = 0, name: str = "", **allocatable: Any) -> NodeBuilder:
    """The node that `worker(slice_name, rank)` is on: Ready, 4 cpus and 8Gi unless said otherwise."""
    metadata = _metadata(name or f"{slice_name}-n{rank}", "")
    labels = {LABEL_MANAGED: "true", LABEL_SLICE_ID: slice_id(NAMESPACE, slice_name)}
    offers = _resources({"cpu": "4", "memory": "8Gi", **allocatable})
    status = {"allocatable": offers, "conditions": [{"type": "Ready", "status": "True"}]}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {**metadata, "labels": labels}, "status": status}
    return NodeBuilder(Node, body)


def worker(slice_name: str = "s", rank: int = 0, node_name: str = "", **limits: Any) -> PodBuilder:
    """A worker Pod of 3 cpus and 6Gi unless said otherwise."""
    labels = {LABEL_MANAGED: "true", LABEL_SLICE: slice_name, LABEL_RANK: str(rank)}
    metadata = {**_metadata(worker_pod_name(slice_name, rank)), "labels": labels}
    size = _resources({"cpu": "3", "memory": "6Gi", **limits})
    containers = [{"name": "agent", "resources": {"requests": size, "limits": size}}]
    spec = {"nodeName": node_name or f"{slice_name}-n{rank}", "containers": containers}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    return PodBuilder(Pod, body)


def lease(slice_name: str = "s", rank: int = 0, ago: float = 2, problem: str = "", disk: str = "") -> Builder[Lease]:
    """The agent of `worker(slice_name, rank)` renewed so many seconds before NOW."""
    name = worker_pod_name(slice_name, rank)
    labels = {LABEL_MANAGED: "true", LABEL_SLICE: slice_name}
    said = {ANNOTATION_AGENT_PROBLEM: problem, ANNOTATION_DISK_PRESSURE: disk}
    notes = {ANNOTATION_AGENT_VERSION: "1", **{name: text for name, text in said.items() if text}}
    metadata = {**_metadata(name), "labels": labels, "annotations": notes}
    spec = {"holderIdentity": f"uid-{name}", "renewTime": at(ago)}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    return Builder(Lease, body)


def endpoint_slice(task_name: str = "t") -> Builder[EndpointSlice]:
    """The EndpointSlice of `task(task_name)`, empty."""
    owner = {"apiVersion": "iris.dev/v1alpha1", "kind": "Task", "name": task_name, "uid": f"uid-{task_name}"}
    metadata = {**_metadata(f"{task_name}-uid"), "ownerReferences": [owner]}
    body = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata, "addressType": "IPv4"}
    return Builder(EndpointSlice, body)


def _resources(values: dict[str, Any]) -> dict[str, str]:
    return {{"gpu": "nvidia.com/gpu", "rdma": "rdma/ib"}.get(name, name): str(value) for name, value in values.items()}


def _status_node(slice_name: str, rank: int, values: dict[str, Any]) -> dict[str, Any]:
    pod = worker_pod_name(slice_name, rank)
    return {
        "rank": rank, "name": f"{slice_name}-n{rank}", "ready": True, "workerPod": pod, "workerUid": f"uid-{pod}",
        "agentVersion": "1", "allocatable": _resources(values),
    }  # fmt: skip
