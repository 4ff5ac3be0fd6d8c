"""What a Task is counted with."""

from __future__ import annotations

from iris_operator.api.cluster import Defaults
from iris_operator.api.quantity import amounts
from iris_operator.api.task import Task


def task_requests(task: Task, defaults: Defaults) -> dict[str, int]:
    """Requests; for what they leave out, limits; for what both leave out, the cluster's defaults. Zeros are dropped."""
    wanted = {
        **amounts(defaults.task_requests),
        **amounts(task.spec.resources.limits),
        **amounts(task.spec.resources.requests),
    }
    return {name: value for name, value in wanted.items() if value > 0}
