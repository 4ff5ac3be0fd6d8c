"""The containerd driver.

All facts about a sandbox are on its labels, so that a new agent finds all it needs in containerd.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from google.protobuf.empty_pb2 import Empty

from iris_runtimes import rpc
from iris_runtimes.containerd.cdi import CDI_FOLDERS, CdiRegistry
from iris_runtimes.containerd.cdi_edits import apply_edits
from iris_runtimes.containerd.channel import call_options, in_namespace, is_not_found, open_channel, translated
from iris_runtimes.containerd.devices import look_at_device
from iris_runtimes.containerd.events import exits
from iris_runtimes.containerd.executor import EXEC_FOLDER, Executor
from iris_runtimes.containerd.exits import memory_facts
from iris_runtimes.containerd.gpus import KINDS, GpuRoad, cdi_names, gpu_road
from iris_runtimes.containerd.image_config import Accounts, ImageConfig, User, needs_accounts, resolve_user
from iris_runtimes.containerd.images import HOSTS_DIR, Images
from iris_runtimes.containerd.inside import INSIDE_LABEL, Insides
from iris_runtimes.containerd.keepers import Keepers
from iris_runtimes.containerd.maker import Maker, Stands
from iris_runtimes.containerd.nvidia import NvidiaRuntime
from iris_runtimes.containerd.observe import Observer
from iris_runtimes.containerd.oci_security import EVERY_CAPABILITY
from iris_runtimes.containerd.oci_spec import build_spec, process_args
from iris_runtimes.containerd.pod_context import read_pod_context
from iris_runtimes.containerd.proto import containers_pb2, tasks_pb2, version_pb2
from iris_runtimes.containerd.shims import PER_SHIM, SPARE_SECONDS, Shims
from iris_runtimes.containerd.start_errors import start_error
from iris_runtimes.containerd.stats import stats_of
from iris_runtimes.containerd.transfer import STALL_SECONDS
from iris_runtimes.errors import NodeFault, RuntimeFault, RuntimeUnavailable, SandboxNotFound, SandboxNotRunning
from iris_runtimes.execution import ExecRequest, ExecSession, Stats
from iris_runtimes.keyed import KeyedOperations
from iris_runtimes.protocol import (
    Credentials,
    Device,
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
    StoredImage,
)

DEFAULT_SOCKET = "/run/containerd/containerd.sock"
NAMESPACE = "iris"
_KILLED = 137


class ContainerdRuntime:
    """Satisfies protocol.Runtime."""

    def __init__(
        self,
        socket: str = DEFAULT_SOCKET,
        namespace: str = NAMESPACE,
        default_registry: str = "",
        hosts_dir: str = HOSTS_DIR,
        pull_stall_seconds: float = STALL_SECONDS,
        exec_folder: Path = EXEC_FOLDER,
        cdi_folders: Sequence[Path] = CDI_FOLDERS,
        node_dev: Path = Path("/dev"),
        nvidia_runtime: str = "",
        node_capabilities: int = EVERY_CAPABILITY,
        sandboxes_per_shim: int = PER_SHIM,
        busybox: Path | None = None,
        spare_shim_seconds: float = SPARE_SECONDS,
    ) -> None:
        """`exec_folder`: for pipes, the same path here and for containerd. `node_dev`: where the node's /dev is seen from here,
        for what CDI files name. `nvidia_runtime`: NVIDIA's program in runc's place, as containerd finds it; empty: whichever
        containerd is set up with for the kubelet. `node_capabilities`: what containerd itself may grant, as CapBnd in
        /proc/PID/status; a node hardly ever has fewer than all. `sandboxes_per_shim`: how many share one; 1: each has its own.
        `busybox`: a static one on this machine, with which a start in a shared shim costs less. `spare_shim_seconds`: so long
        an empty shim beside another one stays."""
        self._channel = open_channel(socket)
        self._namespace = namespace
        self._call = call_options(namespace)
        self._images = Images(self._channel, namespace, default_registry, hosts_dir, pull_stall_seconds)
        self._operations = KeyedOperations()
        keepers = Keepers(self._channel, namespace, exec_folder.parent / "keeper", busybox)
        self._shims = Shims(keepers, sandboxes_per_shim, spare_shim_seconds)
        self._maker = Maker(self._channel, namespace, self._shims)
        self._observer = Observer(self._channel, namespace, self._operations.running)
        self._executor = Executor(self._channel, namespace, exec_folder)
        self._insides = Insides(self._channel, namespace, self._executor)
        self._made: dict[str, dict[str, str]] = {}  # labels of the sandboxes of this process
        self._cdi = CdiRegistry(cdi_folders)
        self._node_dev = node_dev
        self._nvidia = NvidiaRuntime(self._channel, nvidia_runtime)
        self._node_capabilities = node_capabilities
        self._containers = rpc.Service(self._channel, containers_pb2, "Containers")
        self._tasks = rpc.Service(self._channel, tasks_pb2, "Tasks")
        self._version = rpc.Service(self._channel, version_pb2, "Version")
        self._cgroup_v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()

    async def close(self) -> None:
        """Sandboxes go on."""
        await self._operations.finish()
        await self.release()
        await self._channel.close()

    async def release(self) -> None:
        """End the shims that no sandbox is in. The next start makes one again."""
        await self._shims.release()

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

    async def gpu_way(self, gpus: Sequence[str], devices: Sequence[Device]) -> str:
        return (await self._gpu_road(gpus, devices)).words

    async def pull(
        self,
        reference: str,
        policy: PullPolicy = "IfNotPresent",
        credentials: Sequence[Credentials] = (),
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> Image:
        return await self._images.pull(reference, policy, credentials, on_progress)

    async def present(self, reference: str) -> Image | None:
        return await self._images.present(reference)

    async def images(self) -> list[StoredImage]:
        return await self._images.all()

    async def remove_image(self, reference: str, unused_since: datetime | None = None) -> None:
        await self._images.remove(reference, unused_since)

    async def start(self, spec: SandboxSpec) -> Sandbox:
        return await self._operations.run(spec.id, self._start(spec))

    async def list(self) -> list[Sandbox]:
        async with translated():
            await self._shims.load()
            found = await self._observer.all()
        for one in found:
            self._insides.note(one.id, one.labels)
        return found

    async def get(self, sandbox_id: str) -> Sandbox:
        async with translated():
            found = await self._observer.one(sandbox_id, self._made.get(sandbox_id))
        if found is None:
            raise SandboxNotFound(f"no sandbox {sandbox_id}")
        if found.exit is None or found.exit.exit_code == 0 or found.exit.lost:
            return found
        if outer := found.labels.get(INSIDE_LABEL):
            killed = found.exit.exit_code == _KILLED and await self._insides.killed_for_memory(outer, found.labels)
            return replace(found, exit=replace(found.exit, oom_killed=killed))
        kills, peak = await self._memory(sandbox_id)
        return replace(found, exit=replace(found.exit, oom_killed=kills > 0, memory_peak_bytes=peak))

    async def wait(self, sandbox_id: str) -> Exit:
        async with translated():
            if outer := await self._insides.outer_of(sandbox_id):
                await self._insides.wait(outer, sandbox_id)
            else:
                await self._maker.wait(sandbox_id)
        found = await self.get(sandbox_id)
        if found.exit is None:
            raise SandboxNotFound(f"sandbox {sandbox_id} was never started")
        return found.exit

    async def signal(self, sandbox_id: str, signal: int, *, everyone: bool = False) -> None:
        async with translated():
            if outer := await self._insides.outer_of(sandbox_id):
                await self._insides.signal(outer, sandbox_id, signal, everyone)
            else:
                await self._maker.signal(sandbox_id, signal, everyone)

    async def execute(self, sandbox_id: str, request: ExecRequest) -> ExecSession:
        async with translated():
            return await self._executor.execute(sandbox_id, request, await self._insides.outer_of(sandbox_id))

    async def stats(self, sandbox_id: str) -> Stats:
        found, sandbox = None, await self.get(sandbox_id)
        if sandbox.state is SandboxState.RUNNING:
            async with translated():
                request = tasks_pb2.MetricsRequest(filters=[f"id=={sandbox.labels.get(INSIDE_LABEL) or sandbox_id}"])
                answer = await self._tasks.Metrics(request, **self._call)
            found = stats_of(answer.metrics[0]) if answer.metrics else None
        if found is None:
            raise SandboxNotRunning(f"sandbox {sandbox_id} does not run: it uses nothing")
        return found

    async def remove(self, sandbox_id: str) -> None:
        await self._operations.run(sandbox_id, self._remove(sandbox_id, of_unknown_past=True))

    async def events(self) -> AsyncGenerator[Exited, None]:
        async with aclosing(exits(self._channel, self._namespace)) as ids:
            async for one in ids:
                if one is not None:
                    for ended in self._ended_with(one):
                        yield Exited(ended)
                    continue
                for sandbox in await self.list():
                    if sandbox.exit is not None:
                        yield Exited(sandbox.id)

    def _ended_with(self, container_id: str) -> Sequence[str]:
        """The sandboxes that have ended when this container has: of those inside a lost one nobody else tells."""
        if self._shims.keeps(container_id):
            self._shims.ended(container_id)
            return ()
        return [container_id, *self._insides.inside(container_id)]

    async def _start(self, spec: SandboxSpec) -> Sandbox:
        if not spec.inside:
            async with self._images.being_started_from(spec.image):
                return await self._make(spec)
        return await self._standing(spec.id) or await self._make_inside(spec)

    async def _standing(self, sandbox_id: str) -> Sandbox | None:
        """What an earlier start has brought so far that its command runs, or ran."""
        async with translated():
            found = await self._observer.one(sandbox_id, by_changer=True)
        return found if found is not None and found.state is not SandboxState.CREATED else None

    async def _make_inside(self, spec: SandboxSpec) -> Sandbox:
        args = [*spec.before, *spec.command, *spec.args]
        if not spec.command:
            args = process_args(spec, await self._images.config(spec.image))
        await _make_folder(spec.log_path.parent)
        try:
            async with translated():
                pid = await self._insides.make(spec, args)
        except RuntimeUnavailable:
            raise
        except RuntimeFault:
            with suppress(RuntimeFault):  # why the start failed matters more; the caller removes it again
                await self._remove(spec.id, of_unknown_past=False)
            raise
        return Sandbox(spec.id, {**spec.labels, INSIDE_LABEL: spec.inside}, SandboxState.RUNNING, pid)

    async def _make(self, spec: SandboxSpec) -> Sandbox:
        try:
            config, body, binary = await self._prepared(spec)
        except RuntimeFault:
            if standing := await self._standing(spec.id):  # it needs none of this any more
                return standing
            raise
        self._insides.note(spec.id, {})
        try:
            try:
                pid = await self._maker.make(spec, body, config.chain_id, binary, anew=True)
            except Stands:
                if standing := await self._standing(spec.id):
                    return standing
                pid = await self._maker.make(spec, body, config.chain_id, binary, anew=False)
        except rpc.RpcError as error:
            if is_not_found(error):
                self._images.forget_unpacked(config)
            failure = start_error(error, body["process"]["args"][0], spec.image)
            if not isinstance(failure, RuntimeUnavailable):
                with suppress(RuntimeFault):  # why the start failed matters more; the caller removes it again
                    await self._remove(spec.id, of_unknown_past=False)
            raise failure from error
        self._made[spec.id] = dict(spec.labels)
        return Sandbox(spec.id, dict(spec.labels), SandboxState.RUNNING, pid)

    async def _prepared(self, spec: SandboxSpec) -> tuple[ImageConfig, dict[str, Any], str]:
        """The image's configuration, the OCI spec, the program in runc's place."""
        config = await self._images.config(spec.image)
        user = await self._user(spec, config)
        if spec.gpus or spec.cdi_devices:  # the vendors' files may be large
            road = await self._gpu_road(spec.gpus, spec.gpu_devices)
            body = await asyncio.to_thread(self._body, spec, config, user, road)
        else:
            road = GpuRoad()
            body = self._body(spec, config, user, road)
        await _make_folder(spec.log_path.parent)
        return config, body, road.runtime_binary

    async def _gpu_road(self, gpus: Sequence[str], devices: Sequence[Device]) -> GpuRoad:
        """How these GPUs are given; NodeFault when they can't be."""
        if not gpus:
            return GpuRoad()
        named = await asyncio.to_thread(self._cdi_names, gpus, devices)
        return gpu_road(gpus, devices, named, "" if named else await self._nvidia.program())

    def _cdi_names(self, gpus: Sequence[str], devices: Sequence[Device]) -> tuple[str, ...]:
        for kind in KINDS:
            if found := cdi_names(gpus, devices, self._cdi.of_kind(kind)):
                return found
        return ()

    def _body(self, spec: SandboxSpec, config: ImageConfig, user: User, road: GpuRoad) -> dict[str, Any]:
        """The OCI spec. Looks at devices and at CDI files, so it blocks."""
        devices = [look_at_device(device) for device in (*spec.devices, *road.devices)]
        with_gpus = replace(spec, env=[*spec.env, *road.env]) if road.env else spec
        body = build_spec(
            with_gpus,
            config,
            user,
            devices,
            cgroup_v2=self._cgroup_v2,
            node_capabilities=self._node_capabilities,
        )
        edits = self._cdi.edits([*spec.cdi_devices, *road.cdi_devices])
        apply_edits(body, edits, lambda device: look_at_device(device, self._node_dev))
        return body

    async def _remove(self, sandbox_id: str, *, of_unknown_past: bool) -> None:
        self._made.pop(sandbox_id, None)
        async with translated():
            if outer := await self._insides.outer_of(sandbox_id):
                await self._insides.remove(outer, sandbox_id)
                return
            await self._maker.remove(sandbox_id, of_unknown_past=of_unknown_past)
            await self._insides.remove_all_of(sandbox_id)

    async def _user(self, spec: SandboxSpec, config: ImageConfig) -> User:
        if spec.user is not None:
            return User(spec.user, spec.group or 0)
        accounts = await self._images.accounts(config) if needs_accounts(config.user) else Accounts()
        user = resolve_user(config.user, accounts)
        return user if spec.group is None else replace(user, gid=spec.group)

    async def _memory(self, sandbox_id: str) -> tuple[int, int | None]:
        """OOM kills and peak; (0, None) when the cgroup is gone already."""
        request = tasks_pb2.MetricsRequest(filters=[f"id=={sandbox_id}"])
        try:
            answer = await self._tasks.Metrics(request, **self._call)
        except rpc.RpcError:
            return 0, None
        return memory_facts(answer.metrics[0].data) if answer.metrics else (0, None)


async def _make_folder(folder: Path) -> None:
    try:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    except OSError as error:
        raise NodeFault(f"the log's folder {folder} can't be made: {error.strerror}") from error
