"""Telling an attempt of a Task to stop: the one way, whoever wants it."""

from __future__ import annotations

import logging

from iris_operator.controller.writer import Writer
from iris_operator.plan.actions import StopTask
from iris_operator.ports.errors import ConflictError, NotFoundError
from iris_operator.ports.kube import TASKS

log = logging.getLogger(__name__)


async def stop_task(writer: Writer, action: StopTask) -> bool:
    """Whether it was told. No: it changed meanwhile, so whoever wants it decides anew. Raises ports.errors.ApiError."""
    try:
        await write_stop(writer, action)
    except (ConflictError, NotFoundError):
        log.debug("task %s changed meanwhile; told to stop in the next round", action.task.key)
        return False
    if action.note is not None:
        await writer.event(TASKS, action.task, action.note)
    return True


async def write_stop(writer: Writer, action: StopTask) -> None:
    """The one write of it, without its Event. Raises ports.errors.ApiError, ConflictError when the Task changed meanwhile."""
    told = {"stopReason": action.reason}
    if action.stop_for:
        told["stopFor"] = action.stop_for
    await writer.metadata(TASKS, action.task, {}, {"binding": told})
