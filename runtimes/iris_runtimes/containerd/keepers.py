"""Makes and removes the containers that keep shared shims, in containerd and on the node's disk."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

from google.protobuf.any_pb2 import Any as AnyMessage

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import call_options, settled, unless_gone
from iris_runtimes.containerd.keeper import PROGRAM, keeper_program, keeper_spec
from iris_runtimes.containerd.oci_spec import SPEC_TYPE
from iris_runtimes.containerd.proto import containers_pb2, runc_pb2, tasks_pb2
from iris_runtimes.containerd.shim_helper import ShimHelper, write_executable
from iris_runtimes.protocol import CgroupParent

RUNTIME = "io.containerd.runc.v2"
# containerd-shim-runc-v2 reads it in the OCI spec; on the record it tells the next agent who is in which shim
GROUP_ANNOTATION = "io.containerd.runc.v2.group"
# On a keeper: the cgroup that its sandboxes lie in
KEEPER_LABEL = "iris.dev/keeps-shim-of"
_KILL_SECONDS = 10.0


class Keepers:
    """The keepers of one containerd namespace. Calls raise rpc.RpcError."""

    def __init__(self, channel: rpc.Channel, namespace: str, folder: Path, busybox: Path | None) -> None:
        """`folder`: for their program, the same path here and for containerd. `busybox`: as ShimHelper's."""
        self._call = call_options(namespace)
        self._containers = rpc.Service(channel, containers_pb2, "Containers")
        self._tasks = rpc.Service(channel, tasks_pb2, "Tasks")
        self._folder = folder
        self._helper = ShimHelper(folder.with_name("shims"), busybox)
        self._cgroup_v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()

    async def possible(self) -> bool:
        """Whether there can be keepers on this machine; OSError when their program can't be written."""
        return await asyncio.to_thread(_write_program, self._folder)

    async def records(self) -> list[containers_pb2.Container]:
        """Every container of the namespace, keepers and others."""
        answer = await self._containers.List(containers_pb2.ListContainersRequest(), **self._call)
        return list(answer.containers)

    async def runs(self, keeper: str) -> bool:
        """Whether it does."""
        found = await unless_gone(self._tasks.Get(tasks_pb2.GetRequest(container_id=keeper), **self._call))
        return found is not None and bool(found.process.pid)

    async def start(self, keeper: str, cgroup: CgroupParent) -> str:
        """Make it; the runtime's name for what joins its shim. OSError."""
        runtime = await asyncio.to_thread(self._helper.install, keeper) or RUNTIME
        group = {GROUP_ANNOTATION: keeper}
        body = keeper_spec(keeper, str(self._folder), cgroup, group, cgroup_v2=self._cgroup_v2)
        options = runc_pb2.Options(systemd_cgroup=cgroup.systemd)
        container = containers_pb2.Container(
            id=keeper,
            labels={KEEPER_LABEL: cgroup.path},
            runtime=containers_pb2.Container.Runtime(
                name=runtime,
                options=AnyMessage(type_url=options.DESCRIPTOR.full_name, value=options.SerializeToString()),
            ),
            spec=AnyMessage(type_url=SPEC_TYPE, value=json.dumps(body).encode()),
        )
        await self._containers.Create(containers_pb2.CreateContainerRequest(container=container), **self._call)
        await self._tasks.Create(tasks_pb2.CreateTaskRequest(container_id=keeper), **self._call)
        await self._tasks.Start(tasks_pb2.StartRequest(container_id=keeper), **self._call)
        return runtime

    async def remove(self, keeper: str) -> None:
        """Remove it, whatever of it there is."""
        kill = tasks_pb2.KillRequest(container_id=keeper, signal=9, all=True)
        with suppress(rpc.RpcError):  # it has ended
            await self._tasks.Kill(kill, **self._call)
            wait = tasks_pb2.WaitRequest(container_id=keeper)
            await self._tasks.Wait(wait, **{**self._call, "timeout": _KILL_SECONDS})
        task = tasks_pb2.DeleteTaskRequest(container_id=keeper)
        await settled(lambda: unless_gone(self._tasks.Delete(task, **self._call)))
        record = containers_pb2.DeleteContainerRequest(id=keeper)
        await unless_gone(self._containers.Delete(record, **self._call))
        self._helper.remove(keeper)


def _write_program(folder: Path) -> bool:
    """The keepers' root file system; False where there is no program for this processor."""
    program = keeper_program()
    if program is None:
        return False
    (folder / "proc").mkdir(parents=True, exist_ok=True)
    write_executable(folder / PROGRAM, program)
    return True
