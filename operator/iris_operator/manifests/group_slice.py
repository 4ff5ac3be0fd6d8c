"""A Slice of a ScaleGroup."""

from __future__ import annotations

from typing import Any

from iris_operator.api.names import API_VERSION, LABEL_SCALE_GROUP, LABEL_TEMPLATE_HASH
from iris_operator.api.scalegroup import ScaleGroup


def group_slice(group: ScaleGroup, name: str) -> dict[str, Any]:
    """The Slice `name` of the group, made from its template and owned by it."""
    template = group.spec.template.spec
    return {
        "apiVersion": API_VERSION,
        "kind": "Slice",
        "metadata": {
            "name": name,
            "namespace": group.metadata.namespace,
            "labels": {LABEL_SCALE_GROUP: group.metadata.name, LABEL_TEMPLATE_HASH: template.template_hash()},
            "ownerReferences": [group.owner_reference()],
        },
        "spec": {
            **template.wire(),
            "clusterName": group.spec.cluster_name,
            "scaleGroupName": group.metadata.name,
        },
    }
