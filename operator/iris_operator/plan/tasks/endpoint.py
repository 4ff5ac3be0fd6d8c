"""Whether a Task's ports are an endpoint of its Service, and whether anything may be sent there."""

from __future__ import annotations

from iris_operator.api.core import EndpointConditions
from iris_operator.api.task import Task, TaskPhase
from iris_operator.plan.conditions import is_true

_STARTED, _READY = "Started", "Ready"


def endpoint_conditions(task: Task) -> EndpointConditions | None:
    """While its present attempt runs; None: there is to be no endpoint."""
    binding, status, spec = task.spec.binding, task.status, task.spec
    if not spec.service_name or binding is None or status.phase is not TaskPhase.RUNNING:
        return None
    if status.attempt != binding.attempt or not status.host_ip or not status.ports:
        return None
    leaving = task.deleting or bool(binding.stop_reason)
    well = _is_well(task)
    return EndpointConditions(ready=well and not leaving, serving=well, terminating=leaving)


def _is_well(task: Task) -> bool:
    """By its readiness probe; without one it is from when it has started up, as its startup probe has it."""
    if task.spec.readiness_probe is not None:
        return is_true(task.status.conditions, _READY)
    return task.spec.startup_probe is None or is_true(task.status.conditions, _STARTED)
