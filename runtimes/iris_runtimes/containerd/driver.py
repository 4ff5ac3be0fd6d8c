"""The containerd driver.

The container record is made first: it names the snapshot's key, so that the garbage collector spares the snapshot from the
moment it exists, without a lease. All facts about a sandbox are on its labels.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty

from iris_runtimes.containerd.channel import (
    call_options,
    in_namespace,
    is_not_found,
    open_channel,
    translated,
    unless_gone,
)
from iris_runtimes.containerd.events import exits
from iris_runtimes.containerd.exits import memory_facts
from iris_runtimes.containerd.image_config import Accounts, ImageConfig, User, needs_accounts, resolve_user
from iris_runtimes.containerd.images import HOSTS_DIR, SNAPSHOTTER, Images
from iris_runtimes.containerd.observe import Observer
from iris_runtimes.containerd.oci_spec import SPEC_TYPE, build_spec, look_at_device
from iris_runtimes.containerd.pod_context import read_pod_context
from iris_runtimes.containerd.proto import (
    containers_pb2,
    containers_pb2_grpc,
    runc_pb2,
    snapshots_pb2,
    snapshots_pb2_grpc,
    tasks_pb2,
    tasks_pb2_grpc,
    types_pb2,
    version_pb2_grpc,
)
from iris_runtimes.containerd.start_errors import start_error
from iris_runtimes.containerd.transfer import STALL_SECONDS
from iris_runtimes.errors import NodeFault, RuntimeFault, RuntimeUnavailable, SandboxNotFound
from iris_runtimes.protocol import (
    Credentials,
    Exit,
    Exited,
    Image,
    PodContext,
    PullPolicy,
    PullProgress,
    RuntimeVersion,
    Sandbox,
    SandboxSpec,
    SandboxState,
)

DEFAULT_SOCKET = "/run/containerd/containerd.sock"
NAMESPACE = "iris"
_RUNTIME = "io.containerd.runc.v2"
_KILL_SECONDS = 10.0


class ContainerdRuntime:
    """Satisfies protocol.Runtime."""

    def __init__(
        self,
        socket: str = DEFAULT_SOCKET,
        namespace: str = NAMESPACE,
        default_registry: str = "",
        hosts_dir: str = HOSTS_DIR,
        pull_stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._channel = open_channel(socket)
        self._namespace = namespace
        self._call = call_options(namespace)
        self._images = Images(self._channel, namespace, default_registry, hosts_dir, pull_stall_seconds)
        self._observer = Observer(self._channel, namespace)
        self._containers = containers_pb2_grpc.ContainersStub(self._channel)
        self._tasks = tasks_pb2_grpc.TasksStub(self._channel)
        self._snapshots = snapshots_pb2_grpc.SnapshotsStub(self._channel)
        self._version = version_pb2_grpc.VersionStub(self._channel)
        self._cgroup_v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()

    async def close(self) -> None:
        await self._channel.close()

    async def version(self) -> RuntimeVersion:
        async with translated():
            answer = await self._version.Version(Empty(), metadata=in_namespace(self._namespace), timeout=5)
        return RuntimeVersion("containerd", answer.version)

    async def pod_context(self, pod_uid: str) -> PodContext:
        async with translated():
            context = await read_pod_context(self._containers, pod_uid)
        # Images that name no registry come from where our own came from, unless the cluster says otherwise.
        self._images.default_registry = self._images.default_registry or context.image_registry
        return context

    async def pull(
        self,
        reference: str,
        policy: PullPolicy = "IfNotPresent",
        credentials: Sequence[Credentials] = (),
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> Image:
        return await self._images.pull(reference, policy, credentials, on_progress)

    async def start(self, spec: SandboxSpec) -> Sandbox:
        async with translated():
            existing = await self._observer.one(spec.id)
        if existing is not None and existing.state is not SandboxState.CREATED:
            return existing
        config = await self._images.config(spec.image)
        user = await self._user(spec, config)
        devices = [look_at_device(device) for device in spec.devices]
        body = build_spec(spec, config, user, devices, cgroup_v2=self._cgroup_v2)
        await asyncio.to_thread(spec.log_path.parent.mkdir, parents=True, exist_ok=True)
        with self._observer.busy(spec.id):
            try:
                await self._create_container(spec, body)
                mounts = await self._prepare(spec.id, config)
                return await self._run(spec, mounts)
            except grpc.aio.AioRpcError as error:
                failure = start_error(error, body["process"]["args"][0], spec.image)
                if not isinstance(failure, RuntimeUnavailable):
                    with suppress(RuntimeFault):  # why the start failed matters more; the caller removes it again
                        await self.remove(spec.id)
                raise failure from error

    async def list(self) -> list[Sandbox]:
        async with translated():
            return await self._observer.all()

    async def get(self, sandbox_id: str) -> Sandbox:
        async with translated():
            found = await self._observer.one(sandbox_id)
        if found is None:
            raise SandboxNotFound(f"no sandbox {sandbox_id}")
        if found.exit is None or found.exit.exit_code == 0 or found.exit.lost:
            return found
        kills, peak = await self._memory(sandbox_id)
        return replace(found, exit=replace(found.exit, oom_killed=kills > 0, memory_peak_bytes=peak))

    async def wait(self, sandbox_id: str) -> Exit:
        while True:
            found = await self.get(sandbox_id)
            if found.exit is not None:
                return found.exit
            if found.state is SandboxState.CREATED:
                raise SandboxNotFound(f"sandbox {sandbox_id} was never started")
            request = tasks_pb2.WaitRequest(container_id=sandbox_id)
            async with translated():
                await unless_gone(self._tasks.Wait(request, metadata=in_namespace(self._namespace)))

    async def signal(self, sandbox_id: str, signal: int, *, everyone: bool = False) -> None:
        request = tasks_pb2.KillRequest(container_id=sandbox_id, signal=signal, all=everyone)
        async with translated():
            try:
                await unless_gone(self._tasks.Kill(request, **self._call))
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:  # it has exited meanwhile
                    raise

    async def remove(self, sandbox_id: str) -> None:
        with self._observer.busy(sandbox_id):
            async with translated():
                await self._delete_task(sandbox_id)
                request = containers_pb2.DeleteContainerRequest(id=sandbox_id)
                await unless_gone(self._containers.Delete(request, **self._call))
                # The collector may have been quicker: gone is success.
                snapshot = snapshots_pb2.RemoveSnapshotRequest(snapshotter=SNAPSHOTTER, key=sandbox_id)
                await unless_gone(self._snapshots.Remove(snapshot, **self._call))

    async def events(self) -> AsyncGenerator[Exited, None]:
        async with aclosing(exits(self._channel, self._namespace)) as ids:
            async for one in ids:
                if one is not None:
                    yield Exited(one)
                    continue
                for sandbox in await self.list():
                    if sandbox.exit is not None:
                        yield Exited(sandbox.id)

    async def _user(self, spec: SandboxSpec, config: ImageConfig) -> User:
        if spec.user is not None:
            return User(spec.user, spec.group or 0)
        accounts = await self._images.accounts(config) if needs_accounts(config.user) else Accounts()
        user = resolve_user(config.user, accounts)
        return user if spec.group is None else replace(user, gid=spec.group)

    async def _create_container(self, spec: SandboxSpec, body: dict[str, object]) -> None:
        options = runc_pb2.Options(systemd_cgroup=spec.cgroup.systemd)
        container = containers_pb2.Container(
            id=spec.id,
            labels=dict(spec.labels),
            image=spec.image,
            runtime=containers_pb2.Container.Runtime(
                name=_RUNTIME,
                options=AnyMessage(type_url=options.DESCRIPTOR.full_name, value=options.SerializeToString()),
            ),
            spec=AnyMessage(type_url=SPEC_TYPE, value=json.dumps(body).encode()),
            snapshotter=SNAPSHOTTER,
            snapshot_key=spec.id,
        )
        try:
            await self._containers.Create(containers_pb2.CreateContainerRequest(container=container), **self._call)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise

    async def _prepare(self, sandbox_id: str, config: ImageConfig) -> Sequence[types_pb2.Mount]:
        request = snapshots_pb2.PrepareSnapshotRequest(snapshotter=SNAPSHOTTER, key=sandbox_id, parent=config.chain_id)
        try:
            return list((await self._snapshots.Prepare(request, **self._call)).mounts)
        except grpc.aio.AioRpcError as error:
            if is_not_found(error):
                self._images.forget_unpacked(config)
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
        again = snapshots_pb2.MountsRequest(snapshotter=SNAPSHOTTER, key=sandbox_id)
        return list((await self._snapshots.Mounts(again, **self._call)).mounts)

    async def _run(self, spec: SandboxSpec, mounts: Sequence[types_pb2.Mount]) -> Sandbox:
        log = f"file://{spec.log_path}"
        # Two streams, one file: the shim appends to it, and goes on when the agent is away.
        request = tasks_pb2.CreateTaskRequest(container_id=spec.id, rootfs=mounts, stdout=log, stderr=log)
        try:
            created = await self._tasks.Create(request, **self._call)
            pid = created.pid
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            pid = 0
        await self._tasks.Start(tasks_pb2.StartRequest(container_id=spec.id), **self._call)
        return Sandbox(spec.id, dict(spec.labels), SandboxState.RUNNING, pid)

    async def _memory(self, sandbox_id: str) -> tuple[int, int | None]:
        """OOM kills and peak; (0, None) when the cgroup is gone already."""
        request = tasks_pb2.MetricsRequest(filters=[f"id=={sandbox_id}"])
        try:
            answer = await self._tasks.Metrics(request, **self._call)
        except grpc.aio.AioRpcError:
            return 0, None
        return memory_facts(answer.metrics[0].data) if answer.metrics else (0, None)

    async def _delete_task(self, sandbox_id: str) -> None:
        """Delete the task, killing it first if need be."""
        request = tasks_pb2.DeleteTaskRequest(container_id=sandbox_id)
        try:
            await unless_gone(self._tasks.Delete(request, **self._call))
            return
        except grpc.aio.AioRpcError as error:
            if "running" not in (error.details() or ""):  # the shim's error comes as UNKNOWN, with words only
                raise
        await self.signal(sandbox_id, 9, everyone=True)
        wait = tasks_pb2.WaitRequest(container_id=sandbox_id)
        try:
            await unless_gone(self._tasks.Wait(wait, **call_options(self._namespace, _KILL_SECONDS)))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                words = (
                    f"sandbox {sandbox_id} still runs {_KILL_SECONDS:.0f} s after SIGKILL: the node's kernel holds it"
                )
                raise NodeFault(words) from error
            raise
        await unless_gone(self._tasks.Delete(request, **self._call))
