"""The worker Pod: the agent's place on a node, and the cgroup that bounds its Tasks."""

from __future__ import annotations

import posixpath
from typing import Any

from iris_operator.api.cluster import IrisClusterSpec
from iris_operator.api.core import Node
from iris_operator.api.names import (
    AGENT_CLAIMS_DIR,
    AGENT_DEV_DIR,
    AGENT_HOST_DIR,
    AGENT_SECRETS_DIR,
    CACHE_DIR,
    FINALIZER_WORKER,
    GPU_RESOURCE,
    LABEL_RANK,
    LABEL_SLICE,
    LABEL_SLICE_ID,
    worker_pod_name,
)
from iris_operator.api.quantity import Amounts, to_quantities
from iris_operator.api.slice import Slice
from iris_operator.manifests.nodepool import slice_labels

# What the agent needs of the node to reach the runtime. Enroot is a program, which no Pod of ours has: the agent says so.
# With docker, containerd's folder is there for the kubelet's own containers: they tell the Pod's cgroup and devices.
_RUNTIMES = {
    "containerd": [("containerd", "/run/containerd", "Directory")],
    "docker": [("docker", "/var/run/docker.sock", "Socket"), ("containerd", "/run/containerd", "DirectoryOrCreate")],
}
# Where CDI files describe a node's GPUs, and the devices that these name.
_GPUS = (
    ("cdi-etc", "/etc/cdi", "/etc/cdi", "DirectoryOrCreate"),
    ("cdi-run", "/var/run/cdi", "/var/run/cdi", "DirectoryOrCreate"),
    ("dev", "/dev", AGENT_DEV_DIR, "Directory"),
)
# Longer than a Task's usual grace period: the agent stops its Tasks when the Pod is deleted.
_GRACE_SECONDS = 60
# Files of Secrets that Tasks mount; it counts as the agent's memory.
_SECRETS_SIZE = "64Mi"


def worker_pod(owner: Slice, rank: int, node: Node, size: Amounts, settings: IrisClusterSpec) -> dict[str, Any]:
    """Worker Pod of one rank on one node. `size`: requests = limits, in own units (Guaranteed QoS)."""
    labels = {**slice_labels(owner), LABEL_SLICE: owner.metadata.name, LABEL_RANK: str(rank)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": worker_pod_name(owner.metadata.name, rank),
            "namespace": owner.metadata.namespace,
            "labels": labels,
            "finalizers": [FINALIZER_WORKER],  # it is not gone before its Tasks are: plan/slices/worker_fence
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": {
            "serviceAccountName": settings.worker.service_account_name,
            "hostNetwork": settings.worker.host_network,
            "dnsPolicy": "ClusterFirstWithHostNet" if settings.worker.host_network else "ClusterFirst",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "priorityClassName": "system-node-critical",
            "imagePullSecrets": [secret.wire() for secret in settings.worker.image_pull_secrets],
            "nodeSelector": {LABEL_SLICE_ID: labels[LABEL_SLICE_ID]},
            "affinity": _only_on(node.metadata.name),
            "tolerations": _tolerations(owner),
            "enableServiceLinks": False,
            "containers": [_agent(owner, rank, size, settings)],
            "volumes": [
                *(volume for volume, _ in (*_runtime(settings), *_gpus(size, settings))),
                {"name": "cache", "hostPath": {"path": CACHE_DIR, "type": "DirectoryOrCreate"}},
                {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
                {"name": "secrets", "emptyDir": {"medium": "Memory", "sizeLimit": _SECRETS_SIZE}},
                *(volume for volume, _ in _given(settings)),
            ],
        },
    }


def _agent(owner: Slice, rank: int, size: Amounts, settings: IrisClusterSpec) -> dict[str, Any]:
    resources = to_quantities(size)
    port, stream_port = settings.worker.port, settings.worker.stream_port
    return {
        "name": "agent",
        "image": settings.images.agent,
        "imagePullPolicy": settings.images.pull_policy,
        "command": ["iris-agent"],
        "env": [
            _downward("NODE_NAME", "spec.nodeName"),
            _downward("POD_NAME", "metadata.name"),
            _downward("POD_NAMESPACE", "metadata.namespace"),
            _downward("POD_UID", "metadata.uid"),
            _downward("HOST_IP", "status.hostIP" if settings.worker.host_network else "status.podIP"),
            {"name": "IRIS_SLICE", "value": owner.metadata.name},
            {"name": "IRIS_RANK", "value": str(rank)},
            {"name": "IRIS_CLUSTER", "value": owner.spec.cluster_name},
            {"name": "IRIS_RUNTIME", "value": settings.worker.runtime},
            {"name": "IRIS_HOST_NETWORK", "value": "true" if settings.worker.host_network else ""},
            {"name": "IRIS_PORT", "value": str(port)},
            {"name": "IRIS_STREAM_PORT", "value": str(stream_port)},
            {"name": "IRIS_DEFAULT_REGISTRY", "value": settings.defaults.image_registry},
        ],
        "ports": [_port("agent", port, settings), _port("stream", stream_port, settings)],
        "resources": {"requests": resources, "limits": resources},
        "readinessProbe": {"httpGet": {"path": "/health", "port": port}, "periodSeconds": 2, "failureThreshold": 3},
        "livenessProbe": {
            "httpGet": {"path": "/live", "port": port},
            "initialDelaySeconds": 10,
            "periodSeconds": 30,
            "timeoutSeconds": 5,
            "failureThreshold": 4,
        },
        "securityContext": {
            "runAsUser": 0,
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            # Files of Tasks belong to whom they run as: to hand them over, to measure them, to remove them.
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            *(mount for _, mount in (*_runtime(settings), *_gpus(size, settings))),
            {"name": "cache", "mountPath": CACHE_DIR},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "secrets", "mountPath": AGENT_SECRETS_DIR},
            *(mount for _, mount in _given(settings)),
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _runtime(settings: IrisClusterSpec) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [
        ({"name": name, "hostPath": {"path": path, "type": kind}}, {"name": name, "mountPath": path})
        for name, path, kind in _RUNTIMES.get(settings.worker.runtime, [])
    ]


def _gpus(size: Amounts, settings: IrisClusterSpec) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    if not size.get(GPU_RESOURCE) or settings.worker.runtime != "containerd":
        return []
    return [
        (
            {"name": name, "hostPath": {"path": path, "type": kind}},
            {"name": name, "mountPath": place, "readOnly": True},
        )
        for name, path, place, kind in _GPUS
    ]


def _given(settings: IrisClusterSpec) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Volumes and mounts of what Tasks may be given of the node: the agent looks at paths, and sees just these."""
    claims = [
        (
            {
                "name": f"claim-{number}",
                "persistentVolumeClaim": {"claimName": claim.claim_name, "readOnly": claim.read_only},
            },
            {
                "name": f"claim-{number}",
                "mountPath": f"{AGENT_CLAIMS_DIR}/{claim.claim_name}",
                "readOnly": claim.read_only,
            },
        )
        for number, claim in enumerate(settings.worker.volume_claims)
    ]
    hosts = [
        (
            {"name": f"host-{number}", "hostPath": {"path": path}},
            {"name": f"host-{number}", "mountPath": (AGENT_HOST_DIR + path).rstrip("/")},
        )
        for number, path in enumerate(_outermost(settings.policy.allowed_host_paths))
    ]
    return claims + hosts


def _outermost(paths: list[str]) -> list[str]:
    """Without those that lie in others, which the others bring along."""
    plain = sorted({posixpath.normpath(f"/{path.lstrip('/')}") for path in paths})
    return [path for path in plain if not any(_inside(path, other) for other in plain)]


def _inside(path: str, other: str) -> bool:
    return path != other and path.startswith(f"{other.rstrip('/')}/")


def _port(name: str, number: int, settings: IrisClusterSpec) -> dict[str, Any]:
    host = {"hostPort": number} if settings.worker.host_network else {}
    return {"name": name, "containerPort": number, **host}


def _downward(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _only_on(node_name: str) -> dict[str, Any]:
    """The one node, through the scheduler: it counts the Pod and honours taints, as for a DaemonSet."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def _tolerations(owner: Slice) -> list[dict[str, Any]]:
    pool = [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        for taint in owner.spec.node_taints
    ]
    devices = [{"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in ("nvidia.com/gpu", "is_gpu")]
    # A node that is unreachable for a while is the operator's business, not the eviction controller's: evicting
    # the worker would end every Task on it, which may be running well.
    waits = [
        {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute"}
        for name in ("not-ready", "unreachable")
    ]
    return [*pool, *devices, *waits]
