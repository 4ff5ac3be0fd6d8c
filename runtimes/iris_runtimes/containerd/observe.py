"""Sandboxes as containerd has them: its container records joined with its tasks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import grpc

from iris_runtimes.containerd.channel import call_options, unless_gone
from iris_runtimes.containerd.oci_spec import LOG_PATH_ANNOTATION
from iris_runtimes.containerd.proto import (
    containers_pb2,
    containers_pb2_grpc,
    process_pb2,
    tasks_pb2,
    tasks_pb2_grpc,
)
from iris_runtimes.protocol import Exit, Sandbox, SandboxState

_LOST_CODE = 255


class Observer:
    """Reads the sandboxes of one containerd namespace. Calls raise grpc.aio.AioRpcError."""

    def __init__(self, channel: grpc.aio.Channel, namespace: str) -> None:
        self._call = call_options(namespace)
        self._containers = containers_pb2_grpc.ContainersStub(channel)
        self._tasks = tasks_pb2_grpc.TasksStub(channel)

        self._busy: Counter[str] = Counter()

    @contextmanager
    def busy(self, sandbox_id: str) -> Iterator[None]:
        """While a sandbox is being made or removed, that it has no task says nothing."""
        self._busy[sandbox_id] += 1
        try:
            yield
        finally:
            self._busy[sandbox_id] -= 1
            self._busy += Counter()  # drops zeros

    async def all(self) -> list[Sandbox]:
        """Every sandbox; exits without the memory's facts."""
        containers = await self._containers.List(containers_pb2.ListContainersRequest(), **self._call)
        tasks = await self._tasks.List(tasks_pb2.ListTasksRequest(), **self._call)
        processes = {process.id: process for process in tasks.tasks}
        looks = [
            as_sandbox(one, processes[one.id]) if one.id in processes else await self._look_again(one)
            for one in containers.containers
        ]
        return [one for one in looks if one is not None]

    async def one(self, sandbox_id: str) -> Sandbox | None:
        """One sandbox, None when there is none."""
        container = await self._container(sandbox_id)
        return None if container is None else await self._look_again(container)

    async def _look_again(self, container: containers_pb2.Container) -> Sandbox | None:
        """With its task; one without is looked at twice, for it may have been removed between the looks."""
        making = container.id in self._busy
        task = await unless_gone(self._tasks.Get(tasks_pb2.GetRequest(container_id=container.id), **self._call))
        if task is not None:
            return as_sandbox(container, task.process)
        still = await self._container(container.id)
        if still is None:
            return None
        if making or container.id in self._busy:
            return Sandbox(still.id, dict(still.labels), SandboxState.CREATED)
        return without_task(still)

    async def _container(self, sandbox_id: str) -> containers_pb2.Container | None:
        request = containers_pb2.GetContainerRequest(id=sandbox_id)
        found = await unless_gone(self._containers.Get(request, **self._call))
        return None if found is None else found.container


def as_sandbox(container: containers_pb2.Container, process: process_pb2.Process) -> Sandbox:
    """The sandbox of a container record and its task's process."""
    labels = dict(container.labels)
    if process.status == process_pb2.CREATED:
        return Sandbox(container.id, labels, SandboxState.CREATED)
    if process.status == process_pb2.STOPPED:
        ended = Exit(process.exit_status, process.exited_at.ToDatetime(tzinfo=UTC))
        return Sandbox(container.id, labels, SandboxState.EXITED, process.pid, ended)
    # UNKNOWN too: its shim did not answer in time, as on a busy node. A shim that died loses its task instead.
    return Sandbox(container.id, labels, SandboxState.RUNNING, process.pid)


def without_task(container: containers_pb2.Container) -> Sandbox:
    """Never started, or lost with its shim, its node's reboot, or an exit while containerd was away.

    The shim makes the log when it makes the task: a log without a task means that the command may have run.
    """
    labels = dict(container.labels)
    annotations = json.loads(container.spec.value or b"{}").get("annotations") or {}
    log = annotations.get(LOG_PATH_ANNOTATION)
    try:
        last_sign_of_life = Path(log).stat().st_mtime if log else None
    except FileNotFoundError:
        last_sign_of_life = None
    if last_sign_of_life is None:
        return Sandbox(container.id, labels, SandboxState.CREATED)
    lost = Exit(_LOST_CODE, datetime.fromtimestamp(last_sign_of_life, UTC), lost=True)
    return Sandbox(container.id, labels, SandboxState.EXITED, 0, lost)
