"""The NodePool of a Slice."""

from __future__ import annotations

from typing import Any

from iris_operator.api.names import (
    ANNOTATION_SLICE,
    ANNOTATION_SLICE_UID,
    LABEL_MANAGED,
    LABEL_SCALE_GROUP,
    LABEL_SLICE_ID,
    slice_id,
)
from iris_operator.api.nodepool import NODEPOOL_API_VERSION
from iris_operator.api.slice import Slice


def slice_labels(owner: Slice) -> dict[str, str]:
    """Labels on the slice's NodePool, nodes and worker Pods."""
    return {
        LABEL_MANAGED: "true",
        LABEL_SCALE_GROUP: owner.spec.scale_group_name,
        LABEL_SLICE_ID: slice_id(owner.metadata.namespace, owner.metadata.name),
    }


def node_pool(owner: Slice) -> dict[str, Any]:
    """One NodePool per Slice; Iris does all scaling, so the vendor's autoscaler is off (document 001, decision 1)."""
    spec = owner.spec
    labels = slice_labels(owner)
    gpu_class = {"iris.dev/gpu-class": spec.gpu_class} if spec.gpu_class else {}
    body: dict[str, Any] = {
        "apiVersion": NODEPOOL_API_VERSION,
        "kind": "NodePool",
        "metadata": {
            "name": slice_id(owner.metadata.namespace, owner.metadata.name),
            "labels": labels,
            "annotations": {
                ANNOTATION_SLICE: owner.key,
                ANNOTATION_SLICE_UID: owner.metadata.uid,
            },
        },
        "spec": {
            "computeClass": spec.compute_class,
            "instanceType": spec.instance_type,
            # exactly one of the two; a rack has 18 nodes, and nodeCount says how many that makes
            **({"targetRacks": spec.racks} if spec.racks else {"targetNodes": spec.node_count}),
            "autoscaling": False,
            "nodeLabels": {**spec.node_labels, **gpu_class, **labels},
        },
    }
    if spec.node_taints:
        body["spec"]["nodeTaints"] = [taint.wire() for taint in spec.node_taints]
    return body
