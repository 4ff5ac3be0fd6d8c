"""One member of a Task of several replicas."""

from __future__ import annotations

from typing import Any

from iris_operator.api.names import API_VERSION, LABEL_RANK, LABEL_TASK, bounded_name, member_name
from iris_operator.api.task import Task

_NOT_THEIRS = ("replicas", "binding")


def member_task(parent: Task, rank: int) -> dict[str, Any]:
    """The body to create: the Task's own spec, for one."""
    meta = parent.metadata
    spec = {name: value for name, value in parent.spec.stated().items() if name not in _NOT_THEIRS}
    return {
        "apiVersion": API_VERSION,
        "kind": Task.KIND,
        "metadata": {
            "name": member_name(meta.name, rank),
            "namespace": meta.namespace,
            "labels": {LABEL_TASK: bounded_name(meta.name), LABEL_RANK: str(rank)},
            "ownerReferences": [parent.owner_reference()],
        },
        "spec": spec,
    }
