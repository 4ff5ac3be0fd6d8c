"""An Event on the Task for what was left out of its environment: it starts all the same, so its status has no room for it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from iris_operator.api.names import API_VERSION
from iris_operator.api.task import Task
from iris_operator.ports.errors import ApiError, ConflictError
from iris_operator.ports.kube import EVENTS, Body, KubeApi

log = logging.getLogger(__name__)

_LONGEST_NOTE = 1024  # the API's
_LONGEST_NAME = 253


def skipped_event(task: Task, skipped: Sequence[str], now: datetime) -> Body:
    """One for each attempt: its name says so."""
    binding = task.spec.binding
    assert binding is not None
    meta = task.metadata
    end = f".{meta.uid[:8]}.{binding.attempt}.env"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": meta.name[: _LONGEST_NAME - len(end)] + end, "namespace": meta.namespace},
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": "iris.dev/agent",
        "reportingInstance": binding.worker_pod,
        "action": "Start",
        "reason": "InvalidEnvironmentVariableNames",
        "type": "Warning",
        "note": f"left out of envFrom: {'; '.join(skipped)}"[:_LONGEST_NOTE],
        "regarding": {
            "apiVersion": API_VERSION, "kind": "Task", "name": meta.name, "namespace": meta.namespace, "uid": meta.uid,
        },
    }  # fmt: skip


async def tell_skipped(api: KubeApi, task: Task, skipped: Sequence[str], now: datetime) -> None:
    """Once; that it can't be told is no reason not to start."""
    log.info("Task %s: left out of envFrom: %s", task.key, "; ".join(skipped))
    try:
        await api.create(EVENTS, skipped_event(task, skipped, now), task.metadata.namespace)
    except ConflictError:
        pass
    except ApiError as error:
        log.warning("telling it by an Event: %s", error)
