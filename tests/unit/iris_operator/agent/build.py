"""Builders: a Task bound to the worker of the tests, and sandboxes of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from iris_operator.agent.sandbox import labels
from iris_operator.api.names import FINALIZER_TASK, container_id
from iris_operator.api.task import Task
from iris_runtimes.protocol import Exit, Sandbox, SandboxState

NODE, POD, POD_UID = "node-1", "s-worker-0", "11111111-1111-4111-8111-111111111111"
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
BOUND_AT = "2026-11-21T11:59:59Z"


def binding(**changes: Any) -> dict[str, Any]:
    """spec.binding to this worker."""
    return {
        "sliceName": "s", "nodeName": NODE, "workerPod": POD, "workerUid": POD_UID, "rank": 0, "attempt": 1,
        "boundAt": BOUND_AT, **changes,
    }  # fmt: skip


def task_body(name: str = "t", command: tuple[str, ...] = ("true",), **spec: Any) -> dict[str, Any]:
    """A Task as the API has it right after it was bound."""
    return {
        "apiVersion": "iris.dev/v1alpha1",
        "kind": "Task",
        "metadata": {"name": name, "finalizers": [FINALIZER_TASK]},
        "spec": {"image": "registry.test/task:1", "command": list(command), "binding": binding(), **spec},
    }


def task(status: dict[str, Any] | None = None, *, deleting: bool = False, bound: Any = None, **spec: Any) -> Task:
    """A Task in memory, uid `uid-t`."""
    body = task_body(**spec)
    body["metadata"] |= {"namespace": "default", "uid": "uid-t", "resourceVersion": "10", "generation": 2}
    if deleting:
        body["metadata"]["deletionTimestamp"] = "2026-11-21T11:59:59Z"
    if bound is not None:
        body["spec"]["binding"] = bound
    body["status"] = status or {}
    return Task.parse(body)


def sandbox(state: str = "running", code: int | None = None, **changes: Any) -> Sandbox:
    """A sandbox of attempt 1 of that Task. `changes`: attempt, worker, uid, oom, gpus, peak."""
    uid, attempt = changes.get("uid", "uid-t"), changes.get("attempt", 1)
    ended = None
    if code is not None:
        state = "exited"
        ended = Exit(code, NOW, changes.get("oom", False), changes.get("peak"))
    return Sandbox(
        container_id(uid, attempt),
        {
            labels.TASK_UID: uid,
            labels.ATTEMPT: str(attempt),
            labels.WORKER_UID: changes.get("worker", POD_UID),
            labels.IMAGE_DIGEST: "sha256:1",
            labels.GPUS: changes.get("gpus", ""),
            labels.STARTED_AT: labels.format_time(NOW),
            labels.LOG_PATH: f"/logs/{uid}/{attempt}/output.log",
        },
        SandboxState(state),
        exit=ended,
    )
