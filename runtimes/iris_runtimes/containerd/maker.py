"""Makes and removes sandboxes: container record, snapshot, task, in this order and back.

The record names the snapshot's key, so that the garbage collector spares the snapshot from the moment it exists, without
a lease. Every step may find its work done already, by a start or removal that was cut off.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.field_mask_pb2 import FieldMask

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import call_options, settled, translate, unless_gone
from iris_runtimes.containerd.keepers import GROUP_ANNOTATION
from iris_runtimes.containerd.oci_spec import SPEC_TYPE
from iris_runtimes.containerd.proto import containers_pb2, runc_pb2, snapshots_pb2, tasks_pb2, types_pb2
from iris_runtimes.containerd.shims import GROUP_LABEL, Room, Shims
from iris_runtimes.errors import NodeFault, RuntimeUnavailable
from iris_runtimes.protocol import SandboxSpec

SNAPSHOTTER = "overlayfs"
# Written just before a command starts: a sandbox with it and without a task may have run, and must not run again.
STARTED_LABEL = "iris.dev/start-begun"
_KILL_SECONDS = 10.0

T = TypeVar("T")


class Stands(Exception):
    """There is a record of that sandbox already, of an earlier start."""


class Maker:
    """Writes the sandboxes of one containerd namespace. Calls raise rpc.RpcError."""

    def __init__(self, channel: rpc.Channel, namespace: str, shims: Shims) -> None:
        self._namespace = namespace
        self._shims = shims
        self._call = call_options(namespace)
        self._containers = rpc.Service(channel, containers_pb2, "Containers")
        self._snapshots = rpc.Service(channel, snapshots_pb2, "Snapshots")
        self._tasks = rpc.Service(channel, tasks_pb2, "Tasks")

    async def make(
        self, spec: SandboxSpec, body: dict[str, Any], parent_snapshot: str, binary: str = "", *, anew: bool
    ) -> int:
        """Make it and start its command; its process id, 0 when an earlier start made it. `binary`: in runc's place. `anew`:
        Stands when there is a record of it."""
        room = await self._shims.room(spec.cgroup, spec.id)
        try:
            pid = await self._create(spec, body, parent_snapshot, binary, room, anew)
        finally:
            self._shims.entered(room)
        begun = containers_pb2.Container(id=spec.id, labels={STARTED_LABEL: "true"})
        mask = FieldMask(paths=[f"labels.{STARTED_LABEL}"])
        update = containers_pb2.UpdateContainerRequest(container=begun, update_mask=mask)
        await self._containers.Update(update, **self._call)
        await self._tasks.Start(tasks_pb2.StartRequest(container_id=spec.id), **self._call)
        return pid

    async def remove(self, sandbox_id: str, *, of_unknown_past: bool) -> None:
        """Kill what runs and remove everything. NodeFault when it can't be killed.

        `of_unknown_past`: another process may have died while it made this one.
        """
        if not await settled(lambda: self._delete_task(sandbox_id)) and of_unknown_past:
            await self._clear_half_made(sandbox_id)
        request = containers_pb2.DeleteContainerRequest(id=sandbox_id)
        await unless_gone(self._containers.Delete(request, **self._call))
        # The collector may have been quicker: gone is success.
        snapshot = snapshots_pb2.RemoveSnapshotRequest(snapshotter=SNAPSHOTTER, key=sandbox_id)
        await unless_gone(self._snapshots.Remove(snapshot, **self._call))
        await self._shims.left(sandbox_id)

    async def signal(self, sandbox_id: str, signal: int, everyone: bool) -> None:
        """Signal it. One that has exited is no error."""
        request = tasks_pb2.KillRequest(container_id=sandbox_id, signal=signal, all=everyone)
        try:
            await unless_gone(self._tasks.Kill(request, **self._call))
        except rpc.RpcError as error:
            if error.code() is not rpc.StatusCode.FAILED_PRECONDITION:
                raise

    async def wait(self, sandbox_id: str, seconds: float | None = None) -> None:
        """Wait until its task has ended, or is gone."""
        request = tasks_pb2.WaitRequest(container_id=sandbox_id)
        options = call_options(self._namespace) | {"timeout": seconds}
        await settled(lambda: unless_gone(self._tasks.Wait(request, **options)))

    async def _create(
        self, spec: SandboxSpec, body: dict[str, Any], parent_snapshot: str, binary: str, room: Room, anew: bool
    ) -> int:
        if not await self._create_container(spec, body, binary, room) and anew:
            raise Stands(spec.id)
        mounts = await self._prepare(spec.id, parent_snapshot)
        log = f"file://{spec.log_path}"
        # Two streams, one file: the shim appends to it, and goes on when the agent is away.
        task = tasks_pb2.CreateTaskRequest(container_id=spec.id, rootfs=mounts, stdout=log, stderr=log)
        return await settled(lambda: self._create_task(task))

    async def _create_container(self, spec: SandboxSpec, body: dict[str, Any], binary: str, room: Room) -> bool:
        """Whether it was not there."""
        if room.group:
            body = {**body, "annotations": {**body["annotations"], GROUP_ANNOTATION: room.group}}
        options = runc_pb2.Options(systemd_cgroup=spec.cgroup.systemd, binary_name=binary)
        container = containers_pb2.Container(
            id=spec.id,
            labels={**spec.labels, **({GROUP_LABEL: room.group} if room.group else {})},
            image=spec.image,
            runtime=containers_pb2.Container.Runtime(
                name=room.runtime,
                options=AnyMessage(type_url=options.DESCRIPTOR.full_name, value=options.SerializeToString()),
            ),
            spec=AnyMessage(type_url=SPEC_TYPE, value=json.dumps(body).encode()),
            snapshotter=SNAPSHOTTER,
            snapshot_key=spec.id,
        )
        request = containers_pb2.CreateContainerRequest(container=container)
        return await unless_there(self._containers.Create(request, **self._call)) is not None

    async def _prepare(self, sandbox_id: str, parent: str) -> Sequence[types_pb2.Mount]:
        request = snapshots_pb2.PrepareSnapshotRequest(snapshotter=SNAPSHOTTER, key=sandbox_id, parent=parent)
        prepared = await unless_there(self._snapshots.Prepare(request, **self._call))
        if prepared is not None:
            return list(prepared.mounts)
        again = snapshots_pb2.MountsRequest(snapshotter=SNAPSHOTTER, key=sandbox_id)
        return list((await self._snapshots.Mounts(again, **self._call)).mounts)

    async def _create_task(self, request: tasks_pb2.CreateTaskRequest) -> int:
        created = await unless_there(self._tasks.Create(request, **self._call))
        return 0 if created is None else int(created.pid)

    async def _delete_task(self, sandbox_id: str) -> bool:
        """Delete the task, killing it first if need be; whether there was one."""
        request = tasks_pb2.DeleteTaskRequest(container_id=sandbox_id)
        try:
            return await unless_gone(self._tasks.Delete(request, **self._call)) is not None
        except rpc.RpcError as error:
            if "running" not in (error.details() or ""):  # the shim's error comes as UNKNOWN, with words only
                raise
        await self.signal(sandbox_id, 9, everyone=True)
        try:
            await self.wait(sandbox_id, _KILL_SECONDS)
        except rpc.RpcError as error:
            if error.code() is rpc.StatusCode.DEADLINE_EXCEEDED:
                words = (
                    f"sandbox {sandbox_id} still runs {_KILL_SECONDS:.0f} s after SIGKILL: the node's kernel holds it"
                )
                raise NodeFault(words) from error
            raise
        await unless_gone(self._tasks.Delete(request, **self._call))
        return True

    async def _clear_half_made(self, sandbox_id: str) -> None:
        """What a client that died while its task was being made has left behind is cleared by making the task again."""
        found = await unless_gone(self._containers.Get(containers_pb2.GetContainerRequest(id=sandbox_id), **self._call))
        if found is None or STARTED_LABEL in found.container.labels:
            return
        snapshot = snapshots_pb2.MountsRequest(snapshotter=SNAPSHOTTER, key=sandbox_id)
        prepared = await unless_gone(self._snapshots.Mounts(snapshot, **self._call))
        if prepared is None:
            return
        task = tasks_pb2.CreateTaskRequest(container_id=sandbox_id, rootfs=prepared.mounts)
        try:
            await settled(lambda: self._create_task(task))
        except rpc.RpcError as error:
            if isinstance(translate(error), RuntimeUnavailable):
                raise
            return  # it can't be made, by whatever is wrong with it: containerd has cleared up after the attempt
        await unless_gone(self._tasks.Delete(tasks_pb2.DeleteTaskRequest(container_id=sandbox_id), **self._call))


async def unless_there(call: Awaitable[T]) -> T | None:
    """The call's answer, None when what it makes is there already."""
    try:
        return await call
    except rpc.RpcError as error:
        if error.code() is rpc.StatusCode.ALREADY_EXISTS:
            return None
        raise
