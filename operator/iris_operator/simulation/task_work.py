"""Carries out what is planned for one Task, and lets worker Pods go, as controller/handlers/{tasks,workers}.py do."""

from __future__ import annotations

from iris_operator.api.base import Resource
from iris_operator.api.core import Node, Pod
from iris_operator.api.names import FINALIZER_TASK, FINALIZER_WORKER
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.plan.slices.worker_fence import may_leave
from iris_operator.plan.tasks.lifecycle import plan_task
from iris_operator.ports.errors import NotFoundError
from iris_operator.simulation.process import Key, Operator
from iris_operator.simulation.routing import TASK

_LOOK_AGAIN_SECONDS = 5.0


def task_work(operator: Operator, name: str) -> None:
    """Plan; one status write; then the binding or the finalizer."""
    memory = operator.memory
    task = memory.get(Task, name)
    if task is None:
        return
    plan = plan_task(task, memory.worker_exists(task), operator.now, spot=_on_spot(operator, task))
    if plan.recheck_seconds is not None:
        operator.add(Key(TASK, name), plan.recheck_seconds)
    if plan.lost and _worker_stands(operator, task):
        operator.add(Key(TASK, name), _LOOK_AGAIN_SECONDS)
        return
    if plan.status is not None:
        operator.status(task, task.status, plan.status)
    if plan.unbind:
        try:
            spec = task.spec.model_copy(update={"binding": None})
            operator.change(task, metadata={"finalizers": _without(task, FINALIZER_TASK)}, spec=spec)
        except NotFoundError:
            return
    if plan.release:
        _release(operator, memory.get(Task, name) or task, FINALIZER_TASK)


def worker_work(operator: Operator, name: str) -> None:
    """Take the finalizer off a worker Pod below which nothing runs any more."""
    pod = operator.memory.get(Pod, name)
    if pod is None or not pod.deleting:
        return
    stands = bool(pod.spec.node_name) and operator.store.get(Node, f"/{pod.spec.node_name}") is not None
    if may_leave(pod, stands):
        _release(operator, pod, FINALIZER_WORKER)


def _on_spot(operator: Operator, task: Task) -> bool:
    binding = task.spec.binding
    found = operator.memory.get(Slice, f"{task.metadata.namespace}/{binding.slice_name}") if binding else None
    return found is not None and found.spec.compute_class == "spot"


def _worker_stands(operator: Operator, task: Task) -> bool:
    """Asked of the API, not of the memory."""
    binding = task.spec.binding
    assert binding is not None
    pod = operator.store.get(Pod, f"{task.metadata.namespace}/{binding.worker_pod}")
    return pod is not None and pod.metadata.uid == binding.worker_uid


def _release(operator: Operator, target: Resource, finalizer: str) -> None:
    try:
        operator.change(target, metadata={"finalizers": _without(target, finalizer)})
    except NotFoundError:
        return


def _without(target: Resource, finalizer: str) -> list[str]:
    return [one for one in target.metadata.finalizers if one != finalizer]
