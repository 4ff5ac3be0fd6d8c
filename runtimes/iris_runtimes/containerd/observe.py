"""Sandboxes as containerd has them: its container records joined with its tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import call_options, settled, unless_gone
from iris_runtimes.containerd.inside import INSIDE_LABEL
from iris_runtimes.containerd.keepers import KEEPER_LABEL
from iris_runtimes.containerd.maker import STARTED_LABEL
from iris_runtimes.containerd.oci_spec import LOG_PATH_ANNOTATION
from iris_runtimes.containerd.proto import containers_pb2, process_pb2, tasks_pb2
from iris_runtimes.protocol import Exit, Sandbox, SandboxState

_LOST_CODE = 255


class Observer:
    """Reads the sandboxes of one containerd namespace. Calls raise rpc.RpcError."""

    def __init__(self, channel: rpc.Channel, namespace: str, changing: Callable[[str], bool]) -> None:
        """`changing`: whether a sandbox is just being made or removed, so that it says nothing when it has no task."""
        self._call = call_options(namespace)
        self._containers = rpc.Service(channel, containers_pb2, "Containers")
        self._tasks = rpc.Service(channel, tasks_pb2, "Tasks")

        self._changing = changing

    async def all(self) -> list[Sandbox]:
        """Every sandbox; exits without the memory's facts."""
        containers = await self._containers.List(containers_pb2.ListContainersRequest(), **self._call)
        tasks = await self._tasks.List(tasks_pb2.ListTasksRequest(), **self._call)
        processes = {process.id: process for process in tasks.tasks}
        looks = [
            as_sandbox(one, processes[one.id]) if one.id in processes else await self._look_again(one)
            for one in containers.containers
            if KEEPER_LABEL not in one.labels
        ]
        return [one for one in looks if one is not None]

    async def one(
        self, sandbox_id: str, labels: Mapping[str, str] | None = None, *, by_changer: bool = False
    ) -> Sandbox | None:
        """One sandbox, None when there is none. `labels`: those it was made with, if the asker knows: that saves a look.
        `by_changer`: the one who is changing it asks, before doing so."""
        if labels is not None and INSIDE_LABEL not in labels:
            process = await self._process(sandbox_id)
            if process is not None:
                return as_sandbox(containers_pb2.Container(id=sandbox_id, labels=labels), process)
        container = await self._container(sandbox_id)
        return None if container is None else await self._look_again(container, by_changer=by_changer)

    async def _look_again(self, container: containers_pb2.Container, *, by_changer: bool = False) -> Sandbox | None:
        """With its task; one without is looked at twice, for it may have been removed between the looks."""
        changing = self._changing(container.id)
        outer = container.labels.get(INSIDE_LABEL, "")
        process = await self._process(outer or container.id, container.id if outer else "")
        if process is not None:
            return as_sandbox(container, process)
        still = await self._container(container.id)
        if still is None:
            return None
        if not by_changer and (changing or self._changing(container.id)):
            return Sandbox(still.id, dict(still.labels), SandboxState.CREATED)
        return without_task(still)

    async def _process(self, container_id: str, exec_id: str = "") -> process_pb2.Process | None:
        request = tasks_pb2.GetRequest(container_id=container_id, exec_id=exec_id)
        task = await settled(lambda: unless_gone(self._tasks.Get(request, **self._call)))
        return None if task is None else task.process

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
    """Never started; or lost with its shim, at the node's reboot, or by an exit while containerd was away."""
    labels = dict(container.labels)
    if STARTED_LABEL not in labels:
        return Sandbox(container.id, labels, SandboxState.CREATED)
    lost = Exit(_LOST_CODE, _last_sign_of_life(container), lost=True)
    return Sandbox(container.id, labels, SandboxState.EXITED, 0, lost)


def _last_sign_of_life(container: containers_pb2.Container) -> datetime:
    """Its last write to its log, else its start."""
    annotations = json.loads(container.spec.value or b"{}").get("annotations") or {}
    try:
        return datetime.fromtimestamp(Path(annotations[LOG_PATH_ANNOTATION]).stat().st_mtime, UTC)
    except (KeyError, OSError):
        started: datetime = container.updated_at.ToDatetime(tzinfo=UTC)
        return started
