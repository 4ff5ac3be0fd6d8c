"""Which nodes a scale-down must spare: those with Pods of the customer's own that may not be interrupted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iris_devcluster.coreweave.kube import KubeClient

INTERRUPTIBLE = "qos.coreweave.cloud/interruptable"
"""The vendor's label on Pods, in the vendor's spelling; "true" lets the node go."""
_MIRROR = "kubernetes.io/config.mirror"


async def nodes_in_use(kube: KubeClient) -> frozenset[str]:
    """Names of nodes, from all Pods there are now."""
    page = await kube.request("GET", "/api/v1/pods")
    pods = page.get("items") or []
    return frozenset(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName") and holds_node(pod))


def holds_node(pod: Mapping[str, Any]) -> bool:
    """Whether the Pod makes its node active, as the vendor counts it."""
    meta = pod["metadata"]
    finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    daemon = any(owner["kind"] == "DaemonSet" for owner in meta.get("ownerReferences") or [])
    static = _MIRROR in (meta.get("annotations") or {})
    interruptible = (meta.get("labels") or {}).get(INTERRUPTIBLE) == "true"
    return not (finished or daemon or static or interruptible)
