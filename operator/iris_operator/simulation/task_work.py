"""Carries out what is planned for one Task, as controller/handlers/tasks.py does."""

from __future__ import annotations

from iris_operator.api.names import FINALIZER_TASK
from iris_operator.api.task import Task
from iris_operator.plan.task_lifecycle import plan_task
from iris_operator.ports.errors import NotFoundError
from iris_operator.simulation.process import Key, Operator
from iris_operator.simulation.routing import TASK


def task_work(operator: Operator, name: str) -> None:
    """Plan, one status write, then the finalizer."""
    memory = operator.memory
    task = memory.get(Task, name)
    if task is None:
        return
    plan = plan_task(task, memory.worker_exists(task), operator.now)
    if plan.recheck_seconds is not None:
        operator.add(Key(TASK, name), plan.recheck_seconds)
    if plan.status is not None:
        operator.status(task, task.status, plan.status)
    if plan.release:
        current = memory.get(Task, name) or task
        left = [one for one in current.metadata.finalizers if one != FINALIZER_TASK]
        try:
            operator.change(current, metadata={"finalizers": left})
        except NotFoundError:
            return
