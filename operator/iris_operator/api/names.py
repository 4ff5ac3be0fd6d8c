"""The names Iris writes into the cluster: group, labels, annotations, finalizers, ports. One place for each.

Label names without a prefix (`iris-managed` ...) are those of the original CoreWeave integration (document 001, section 6).
"""

from __future__ import annotations

import hashlib

GROUP = "iris.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

LABEL_MANAGED = "iris-managed"
LABEL_SCALE_GROUP = "iris-scale-group"
LABEL_SLICE_ID = "iris-slice-id"
LABEL_SLICE = "iris.dev/slice"
LABEL_RANK = "iris.dev/rank"
LABEL_TASK = "iris.dev/task"  # on a member: the name of the Task of several replicas that it belongs to
LABEL_MACHINE = "iris.dev/machine"  # "true" on the Lease of an agent outside of Pods, which then is its worker
LABEL_TEMPLATE_HASH = "iris.dev/template-hash"
MANAGED_SELECTOR = f"{LABEL_MANAGED}=true"

ANNOTATION_SLICE = "iris.dev/slice"
ANNOTATION_SLICE_UID = "iris.dev/slice-uid"
ANNOTATION_AGENT_VERSION = "iris.dev/agent-version"
ANNOTATION_AGENT_PROBLEM = "iris.dev/agent-problem"
ANNOTATION_MACHINE = "iris.dev/machine"  # on such a Lease: an api.machine.Machine as JSON
ANNOTATION_DISK_PRESSURE = "iris.dev/disk-pressure"  # on an agent's Lease: why it wants no more Tasks

ANNOTATION_FORCE_DELETE = "iris.dev/force-delete"  # on a Slice: delete it in spite of its deletionProtection
ANNOTATION_RETIRING = "iris.dev/retiring"  # on a Slice: why its ScaleGroup cordoned it, to delete it next
ANNOTATION_RETIRING_SINCE = "iris.dev/retiring-since"  # on a Slice: when it was cordoned for that, RFC 3339
ANNOTATION_RETIRING_FROM = "iris.dev/retiring-from"  # on a Slice: the availability that a person had given it before
ANNOTATION_ORPHANED_SINCE = "iris.dev/orphaned-since"  # on a NodePool: since when its Slice is missing, RFC 3339

FINALIZER_SLICE = "iris.dev/slice"
FINALIZER_TASK = "iris.dev/task"
FINALIZER_CLUSTER = "iris.dev/cluster"
FINALIZER_WORKER = "iris.dev/worker"  # on worker Pods: see plan/slices/worker_fence

LABEL_SERVICE = "kubernetes.io/service-name"  # Kubernetes': the Service that an EndpointSlice belongs to
LABEL_ENDPOINTS_BY = "endpointslice.kubernetes.io/managed-by"  # Kubernetes': who keeps an EndpointSlice
ENDPOINTS_MANAGER = "iris.dev"

FIELD_MANAGER = "iris-operator"
AGENT_FIELD_MANAGER = "iris-agent"

CONTROLLER_PORT = 10000
WORKER_PORT = 10001
STREAM_PORT = 10002

GPU_RESOURCE = "nvidia.com/gpu"
RDMA_RESOURCE = "rdma/ib"

CONTAINERD_NAMESPACE = "iris"
CACHE_DIR = "/var/cache/iris"
# Where the worker Pod mounts what Tasks may be given of the node; the agent asks the runtime for the node's own paths.
AGENT_SECRETS_DIR = "/run/iris/secrets"
AGENT_CLAIMS_DIR = "/var/lib/iris/claims"
AGENT_HOST_DIR = "/var/lib/iris/host"
AGENT_DEV_DIR = (
    "/var/lib/iris/dev"  # the node's /dev, to look at what CDI files name; the Pod's cgroup lets nobody open it
)

_MAX_NAME = 63
_MAX_OBJECT_NAME = 253


def bounded_name(name: str, limit: int = _MAX_NAME) -> str:
    """`name`, or its head and a hash of the whole when longer than `limit` characters (a label value's bound)."""
    if len(name) <= limit:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: limit - 9].rstrip('-.')}-{digest}"


def slice_id(namespace: str, name: str) -> str:
    """The slice's identity outside its namespace: its NodePool's name and the `iris-slice-id` label."""
    return bounded_name(f"{namespace}-{name}")


def worker_pod_name(slice_name: str, rank: int) -> str:
    """Name of the worker Pod (and of its agent's Lease) of one rank, counted from 0."""
    return bounded_name(f"{slice_name}-worker-{rank}")


def member_name(task_name: str, rank: int) -> str:
    """Name of one member of a Task of several replicas, counted from 0."""
    return f"{bounded_name(task_name, _MAX_OBJECT_NAME - 4)}-{rank}"


def endpoint_name(task_name: str, task_uid: str) -> str:
    """Name of the EndpointSlice of one Task: another Task of that name made later has another."""
    return f"{bounded_name(task_name, _MAX_NAME - 9)}-{task_uid[:8]}"


def container_id(task_uid: str, attempt: int) -> str:
    """Containerd container id of one attempt of a Task, counted from 1."""
    return f"task-{task_uid}-{attempt}"


def task_log_path(task_uid: str, attempt: int) -> str:
    """Path on the node of one attempt's log, stdout and stderr as written."""
    return f"{CACHE_DIR}/logs/{task_uid}/{attempt}/output.log"
