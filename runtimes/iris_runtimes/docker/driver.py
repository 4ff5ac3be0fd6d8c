"""The docker driver. All facts about a sandbox are on its container's labels, its name is the sandbox's id."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from iris_runtimes.docker.container import (
    LOG_PATH_LABEL,
    MANAGED_LABEL,
    NAME,
    create_body,
    parse_time,
    sandbox_of,
)
from iris_runtimes.docker.engine import Engine, EngineError, node_fault, translated
from iris_runtimes.docker.images import Images
from iris_runtimes.docker.logs import LogFiles
from iris_runtimes.docker.pod_context import CONTAINER, POD_UID_LABEL, TYPE_LABEL, context_of, parent_for
from iris_runtimes.docker.session import execute
from iris_runtimes.errors import (
    ImageNotFound,
    InvalidSpec,
    NodeFault,
    NotSupported,
    RuntimeFault,
    RuntimeUnavailable,
    SandboxNotFound,
    SandboxNotRunning,
)
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
from iris_runtimes.start_words import meaning_of

DEFAULT_SOCKET = "/var/run/docker.sock"
PodContexts = Callable[[str], Awaitable[PodContext]]
_SIGKILL = 9
_REMOVE_SECONDS = 20.0


class DockerRuntime:
    """Satisfies protocol.Runtime."""

    def __init__(
        self, socket: str = DEFAULT_SOCKET, default_registry: str = "", kubelets: PodContexts | None = None
    ) -> None:
        """`kubelets`: tells what a Pod was given where the kubelet's containers are not the Engine's own."""
        self._kubelets = kubelets
        self._engine = Engine(socket)
        self._images = Images(self._engine, default_registry)
        self._logs = LogFiles(self._engine)
        self._operations = KeyedOperations()

    async def close(self) -> None:
        await self._operations.finish()
        await self._logs.close()
        await self._engine.close()

    async def version(self) -> RuntimeVersion:
        async with translated():
            return RuntimeVersion(NAME, (await self._engine.json("GET", "/version", seconds=5))["Version"])

    async def pod_context(self, pod_uid: str) -> PodContext:
        """By the Engine's own record of our container, else by the kubelet's other runtime. NodeFault when none has it."""
        labels = [f"{POD_UID_LABEL}={pod_uid}", f"{TYPE_LABEL}={CONTAINER}"]
        async with translated():
            listed = await self._engine.json(
                "GET", "/containers/json", params={"filters": json.dumps({"label": labels})}
            )
            found = await self._engine.json("GET", f"/containers/{listed[0]['Id']}/json") if listed else None
        if found is not None:
            context = context_of(found)
        elif self._kubelets is not None:
            context = await self._kubelets(pod_uid)
        else:
            raise NodeFault(
                f"neither the Engine nor the kubelet's runtime on this node knows a container of Pod {pod_uid}"
            )
        # What the Engine starts has the network of the node, or of another of its containers: a path is neither.
        return replace(context, cgroup=parent_for(context.cgroup, await self._cgroup_driver()), network_namespace="")

    async def gpu_way(self, gpus: Sequence[str], devices: Sequence[Device]) -> str:
        if not gpus:
            return ""
        if await self._has_nvidia():
            return "the Engine's NVIDIA driver"
        return without_nvidia(gpus, devices)

    async def pull(
        self,
        reference: str,
        policy: PullPolicy = "IfNotPresent",
        credentials: Sequence[Credentials] = (),
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> Image:
        async with translated():
            return await self._images.pull(reference, policy, credentials, on_progress)

    async def present(self, reference: str) -> Image | None:
        async with translated():
            return await self._images.present(reference)

    async def images(self) -> list[StoredImage]:
        async with translated():
            return await self._images.all()

    async def remove_image(self, reference: str, unused_since: datetime | None = None) -> None:
        async with translated():
            await self._images.remove(reference, unused_since)

    async def start(self, spec: SandboxSpec) -> Sandbox:
        return await self._operations.run(spec.id, self._start(spec))

    async def list(self) -> list[Sandbox]:
        filters = json.dumps({"label": [f"{MANAGED_LABEL}=true"]})
        async with translated():
            listed = await self._engine.json("GET", "/containers/json", params={"all": "1", "filters": filters})
        looks = [await self._inspect(str(one["Names"][0]).lstrip("/")) for one in listed]
        return [sandbox_of(one) for one in looks if one is not None]

    async def get(self, sandbox_id: str) -> Sandbox:
        found = await self._inspect(sandbox_id)
        if found is None:
            raise SandboxNotFound(f"no sandbox {sandbox_id}")
        sandbox = sandbox_of(found)
        if sandbox.exit is not None:
            await self._logs.complete(sandbox_id, _log_path(found))
        return sandbox

    async def wait(self, sandbox_id: str) -> Exit:
        await self._act(sandbox_id, "wait", seconds=None)
        found = await self.get(sandbox_id)
        if found.exit is None:
            raise SandboxNotFound(f"sandbox {sandbox_id} was never started")
        return found.exit

    async def signal(self, sandbox_id: str, signal: int, *, everyone: bool = False) -> None:
        """The Engine signals the command alone; SIGKILL of it ends everyone, for it is the first of its namespace."""
        if everyone and signal != _SIGKILL:
            raise NotSupported(NAME, "signal(everyone)", "the Engine signals the command alone, but for SIGKILL")
        try:
            await self._engine.json("POST", f"/containers/{sandbox_id}/kill", params={"signal": str(signal)})
        except EngineError as error:
            if error.status not in (404, 409):
                raise node_fault(error) from error

    async def execute(self, sandbox_id: str, request: ExecRequest) -> ExecSession:
        return await execute(self._engine, sandbox_id, request)

    async def stats(self, sandbox_id: str) -> Stats:
        if (await self.get(sandbox_id)).state is SandboxState.RUNNING:
            params = {"stream": "false", "one-shot": "true"}
            async with translated():
                found = await self._engine.json("GET", f"/containers/{sandbox_id}/stats", params=params)
            if found.get("memory_stats", {}).get("usage"):
                return stats_of(found)
        raise SandboxNotRunning(f"sandbox {sandbox_id} does not run: it uses nothing")

    async def remove(self, sandbox_id: str) -> None:
        await self._operations.run(sandbox_id, self._remove(sandbox_id))

    async def events(self) -> AsyncGenerator[Exited, None]:
        # The Engine answers before it subscribes; it keeps its last events for those who ask since when
        filters = {"type": ["container"], "event": ["die"], "label": [f"{MANAGED_LABEL}=true"]}
        params = {"since": f"{time.time():.9f}", "filters": json.dumps(filters)}
        async with translated(), self._engine.stream("GET", "/events", params) as reader:
            for sandbox in await self.list():
                if sandbox.exit is not None:
                    yield Exited(sandbox.id)
            while line := await reader.readline():
                if line.strip():
                    yield Exited(str(json.loads(line)["Actor"]["Attributes"]["name"]))
        raise RuntimeUnavailable("the Docker Engine closed its event stream")

    async def _start(self, spec: SandboxSpec) -> Sandbox:
        found = await self._inspect(spec.id)
        if found is not None and sandbox_of(found).state is not SandboxState.CREATED:
            return sandbox_of(found)
        try:
            await asyncio.to_thread(spec.log_path.parent.mkdir, parents=True, exist_ok=True)
        except OSError as error:
            raise NodeFault(f"the log's folder {spec.log_path.parent} can't be made: {error.strerror}") from error
        try:
            if found is None:
                told = await self._in_its_parent(await self._with_gpus(await self._said_in_full(spec)))
                body = create_body(told, self._images.full(spec.image))
                await self._engine.json("POST", "/containers/create", body, {"name": spec.id})
            await self._engine.json("POST", f"/containers/{spec.id}/start")
        except EngineError as error:
            with suppress(RuntimeFault):  # why the start failed matters more; the caller removes it again
                await self._remove(spec.id)
            raise _start_failure(error, spec) from error
        self._logs.follow(spec.id, spec.log_path)
        return await self._seen(spec.id)

    async def _with_gpus(self, spec: SandboxSpec) -> SandboxSpec:
        """With the GPUs' device nodes instead, where the Engine has no driver for them. NodeFault without these."""
        if not spec.gpus or await self._has_nvidia():
            return spec
        without_nvidia(spec.gpus, spec.gpu_devices)
        return replace(spec, gpus=(), devices=(*spec.devices, *spec.gpu_devices))

    async def _in_its_parent(self, spec: SandboxSpec) -> SandboxSpec:
        if not spec.cgroup.path:
            return spec
        return replace(spec, cgroup=parent_for(spec.cgroup, await self._cgroup_driver()))

    async def _cgroup_driver(self) -> str:
        async with translated():
            return str((await self._engine.json("GET", "/info")).get("CgroupDriver") or "")

    async def _has_nvidia(self) -> bool:
        """As NVIDIA's own tools set the Engine up."""
        async with translated():
            return "nvidia" in ((await self._engine.json("GET", "/info")).get("Runtimes") or {})

    async def _said_in_full(self, spec: SandboxSpec) -> SandboxSpec:
        """Words before a command need the command: the image's own, where there is no other."""
        if not spec.before or spec.command:
            return spec
        entrypoint, cmd = await self._images.own_command(self._images.full(spec.image))
        words = [*entrypoint, *(spec.args or cmd)]
        if not words:
            raise InvalidSpec(f"image {spec.image} has no entrypoint: give a command")
        return replace(spec, command=words, args=())

    async def _seen(self, sandbox_id: str) -> Sandbox:
        found = await self._inspect(sandbox_id)
        if found is None:
            raise NodeFault(f"sandbox {sandbox_id} was removed while it started")
        return sandbox_of(found)

    async def _inspect(self, sandbox_id: str) -> dict[str, Any] | None:
        """What the Engine shows, for a container of ours; its log is followed from then on."""
        try:
            found: dict[str, Any] = await self._engine.json("GET", f"/containers/{sandbox_id}/json")
        except EngineError as error:
            if error.status == 404:
                return None
            raise node_fault(error) from error
        if MANAGED_LABEL not in (found["Config"].get("Labels") or {}):
            return None
        if found["State"]["Status"] != "created":
            self._logs.follow(sandbox_id, _log_path(found))
        return found

    async def _remove(self, sandbox_id: str) -> None:
        params = {"force": "1", "v": "1"}
        end = asyncio.get_running_loop().time() + _REMOVE_SECONDS
        while True:
            try:
                await self._engine.json("DELETE", f"/containers/{sandbox_id}", params=params)
                break
            except EngineError as error:
                if error.status == 404:
                    break
                # 409: another removal is under way
                if error.status != 409 or asyncio.get_running_loop().time() > end:
                    raise node_fault(error) from error
            await asyncio.sleep(0.1)
        await self._logs.forget(sandbox_id)

    async def _act(self, sandbox_id: str, what: str, seconds: float | None) -> Any:
        try:
            return await self._engine.json("POST", f"/containers/{sandbox_id}/{what}", seconds=seconds)
        except EngineError as error:
            if error.status == 404:
                raise SandboxNotFound(f"no sandbox {sandbox_id}") from error
            raise node_fault(error) from error


def without_nvidia(gpus: Sequence[str], devices: Sequence[Device]) -> str:
    """How they are given by an Engine without NVIDIA's runtime, in words. NodeFault when they can't be."""
    if not devices:
        raise NodeFault(
            f"GPUs {', '.join(gpus)} can't be given: the Engine has no runtime nvidia, and their device nodes are not known"
        )
    return "device nodes, without the driver's libraries"


def stats_of(found: dict[str, Any]) -> Stats:
    """Of what GET /containers/ID/stats shows. Pure."""
    cpu, memory = found["cpu_stats"], found["memory_stats"]
    details = memory.get("stats") or {}
    inactive = details.get("total_inactive_file", details.get("inactive_file", 0))  # cgroup v1, v2
    return Stats(
        at=parse_time(found["read"]) if found.get("read") else datetime.now(UTC),
        cpu_seconds=cpu["cpu_usage"]["total_usage"] / 1e9,
        memory_bytes=memory["usage"],
        working_set_bytes=max(0, memory["usage"] - inactive),
        memory_limit_bytes=memory.get("limit"),
        memory_peak_bytes=memory.get("max_usage"),
        pids=(found.get("pids_stats") or {}).get("current"),
        throttled_seconds=(cpu.get("throttling_data") or {}).get("throttled_time", 0) / 1e9,
    )


def _log_path(found: dict[str, Any]) -> Path:
    return Path(found["Config"]["Labels"][LOG_PATH_LABEL])


def _start_failure(error: EngineError, spec: SandboxSpec) -> RuntimeFault:
    words = error.message
    if error.status == 404 and "image" in words.lower():
        return ImageNotFound(f"image {spec.image} is not on the node")
    if "no command specified" in words.lower():
        return InvalidSpec(f"image {spec.image} has no entrypoint: give a command")
    found = meaning_of(words, spec.command[0] if spec.command else "the image's command", spec.image)
    if isinstance(found, NodeFault) and error.status == 400:
        return InvalidSpec(f"Docker refuses this sandbox: {words}")
    return found
