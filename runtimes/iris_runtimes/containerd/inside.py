"""Sandboxes inside others: a container record that has no task, and an exec of the same id in the outer one's task.

The shim keeps the exec's exit until it is deleted, and writes its log by itself; the record has the rest. So a new agent,
and a new containerd, find all of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import call_options, settled, unless_gone
from iris_runtimes.containerd.executor import PROCESS_TYPE, Executor, process_spec
from iris_runtimes.containerd.exits import memory_facts
from iris_runtimes.containerd.keepers import RUNTIME
from iris_runtimes.containerd.maker import STARTED_LABEL, unless_there
from iris_runtimes.containerd.oci_spec import LOG_PATH_ANNOTATION, SPEC_TYPE
from iris_runtimes.containerd.proto import containers_pb2, tasks_pb2
from iris_runtimes.containerd.stats import stats_of
from iris_runtimes.errors import SandboxNotFound
from iris_runtimes.execution import ExecRequest
from iris_runtimes.hold import HOLD_PROCESSES, holds
from iris_runtimes.protocol import SandboxSpec

INSIDE_LABEL = "iris.dev/inside"
# The outer one's count of OOM kills when this one began: a later kill of it is told as such.
OOM_LABEL = "iris.dev/oom-kills-before"
_KILL = 9
_KILL_SECONDS = 10.0


class Insides:
    """Those of one containerd namespace. Calls raise rpc.RpcError."""

    def __init__(self, channel: rpc.Channel, namespace: str, executor: Executor) -> None:
        self._namespace = namespace
        self._call = call_options(namespace)
        self._containers = rpc.Service(channel, containers_pb2, "Containers")
        self._tasks = rpc.Service(channel, tasks_pb2, "Tasks")
        self._executor = executor
        # Sandbox -> the one it is inside of, "" for one on its own: this never changes, so each is asked for once.
        self._outer: dict[str, str] = {}

    def note(self, sandbox_id: str, labels: Mapping[str, str]) -> None:
        """These are the labels of a sandbox."""
        self._outer[sandbox_id] = labels.get(INSIDE_LABEL, "")

    async def outer_of(self, sandbox_id: str) -> str:
        """What it is inside of, "" when it is on its own or not there."""
        if sandbox_id not in self._outer:
            request = containers_pb2.GetContainerRequest(id=sandbox_id)
            found = await unless_gone(self._containers.Get(request, **self._call))
            if found is None:
                return ""
            self.note(sandbox_id, found.container.labels)
        return self._outer[sandbox_id]

    def inside(self, sandbox_id: str) -> list[str]:
        """Those in a sandbox, as far as this process has seen them."""
        return [inner for inner, outer in self._outer.items() if outer == sandbox_id]

    async def make(self, spec: SandboxSpec, args: list[str]) -> int:
        """Make it and start its command, `args`; its process id. Finishes what another has begun."""
        outer = await unless_gone(
            self._containers.Get(containers_pb2.GetContainerRequest(id=spec.inside), **self._call)
        )
        if outer is None:
            raise SandboxNotFound(f"no sandbox {spec.inside}")
        process = inner_process(json.loads(outer.container.spec.value)["process"], spec, args)
        kills, _ = await self._memory(spec.inside)
        await self._record(spec, process, kills)
        self.note(spec.id, {INSIDE_LABEL: spec.inside})
        log = f"file://{spec.log_path}"
        ask = tasks_pb2.ExecProcessRequest(
            container_id=spec.inside, exec_id=spec.id, stdout=log, stderr=log,
            spec=AnyMessage(type_url=PROCESS_TYPE, value=json.dumps(process).encode()),
        )  # fmt: skip
        try:
            await unless_there(self._tasks.Exec(ask, **self._call))
            await self._mark_begun(spec.id)
            start = tasks_pb2.StartRequest(container_id=spec.inside, exec_id=spec.id)
            started = await self._tasks.Start(start, **self._call)
        except rpc.RpcError as error:
            raise await self._executor.failure(error, spec.inside, args[0]) from error
        return int(started.pid)

    async def wait(self, outer: str, sandbox_id: str, seconds: float | None = None) -> None:
        """Wait until it has ended, or is gone."""
        request = tasks_pb2.WaitRequest(container_id=outer, exec_id=sandbox_id)
        options = call_options(self._namespace) | {"timeout": seconds}
        await settled(lambda: unless_gone(self._tasks.Wait(request, **options)))

    async def signal(self, outer: str, sandbox_id: str, signal: int, everyone: bool) -> None:
        """Signal it. containerd reaches the command alone; who has its mark in the environment is found by a shell."""
        if everyone and signal != _KILL and await self._executor.sweep(outer, sandbox_id, signal):
            return
        request = tasks_pb2.KillRequest(container_id=outer, exec_id=sandbox_id, signal=signal)
        try:
            await unless_gone(self._tasks.Kill(request, **self._call))
        except rpc.RpcError as error:
            if error.code() is not rpc.StatusCode.FAILED_PRECONDITION and "finished" not in (error.details() or ""):
                raise
        if everyone and signal == _KILL:
            await self._sweep(outer, sandbox_id)

    async def remove(self, outer: str, sandbox_id: str) -> None:
        """Kill it and all that it has started, and remove everything but the log."""
        await self.signal(outer, sandbox_id, _KILL, everyone=False)
        await self._await_end(outer, sandbox_id)
        await self._sweep(outer, sandbox_id)
        request = tasks_pb2.DeleteProcessRequest(container_id=outer, exec_id=sandbox_id)
        await settled(lambda: unless_gone(self._tasks.DeleteProcess(request, **self._call)))
        await self._forget(sandbox_id)

    async def remove_all_of(self, outer: str) -> None:
        """After a sandbox's task has gone: the records of those that were inside."""
        if self._outer.get(outer) != "" or self.inside(outer):
            filters = [f'labels."{INSIDE_LABEL}"=={outer}']
            found = await self._containers.List(containers_pb2.ListContainersRequest(filters=filters), **self._call)
            for one in found.containers:
                await self._forget(one.id)
        self._outer.pop(outer, None)

    async def killed_for_memory(self, outer: str, labels: Mapping[str, str]) -> bool:
        """Whether the outer one's limit has killed something since it began."""
        kills, _ = await self._memory(outer)
        return kills > int(labels.get(OOM_LABEL, "0"))

    async def _await_end(self, outer: str, sandbox_id: str) -> None:
        found = await unless_gone(
            self._tasks.Get(tasks_pb2.GetRequest(container_id=outer, exec_id=sandbox_id), **self._call)
        )
        if found is not None and found.process.pid:  # one that was never started has none, and would never end
            await self.wait(outer, sandbox_id, _KILL_SECONDS)

    async def _sweep(self, outer: str, sandbox_id: str) -> None:
        """Not where nothing but the outer one's own processes is left: a sweep costs as much as a start."""
        metrics = await self._metrics(outer)
        if metrics is not None and holds(await self._args(outer)) and _processes(metrics) <= HOLD_PROCESSES:
            return
        if metrics is not None:
            await self._executor.sweep(outer, sandbox_id, _KILL)

    async def _args(self, sandbox_id: str) -> list[str]:
        found = await unless_gone(self._containers.Get(containers_pb2.GetContainerRequest(id=sandbox_id), **self._call))
        return [] if found is None else list(json.loads(found.container.spec.value)["process"]["args"])

    async def _record(self, spec: SandboxSpec, process: dict[str, Any], kills: int) -> None:
        body = {"process": process, "annotations": {LOG_PATH_ANNOTATION: str(spec.log_path)}}
        container = containers_pb2.Container(
            id=spec.id,
            labels={**spec.labels, INSIDE_LABEL: spec.inside, OOM_LABEL: str(kills)},
            image=spec.image,
            runtime=containers_pb2.Container.Runtime(name=RUNTIME),
            spec=AnyMessage(type_url=SPEC_TYPE, value=json.dumps(body).encode()),
        )
        await unless_there(
            self._containers.Create(containers_pb2.CreateContainerRequest(container=container), **self._call)
        )

    async def _mark_begun(self, sandbox_id: str) -> None:
        begun = containers_pb2.Container(id=sandbox_id, labels={STARTED_LABEL: "true"})
        update = containers_pb2.UpdateContainerRequest(container=begun)
        update.update_mask.paths.append(f"labels.{STARTED_LABEL}")
        await self._containers.Update(update, **self._call)

    async def _forget(self, sandbox_id: str) -> None:
        request = containers_pb2.DeleteContainerRequest(id=sandbox_id)
        await unless_gone(self._containers.Delete(request, **self._call))
        self._outer.pop(sandbox_id, None)

    async def _memory(self, sandbox_id: str) -> tuple[int, int | None]:
        metrics = await self._metrics(sandbox_id)
        return (0, None) if metrics is None else memory_facts(metrics.data)

    async def _metrics(self, sandbox_id: str) -> Any:
        request = tasks_pb2.MetricsRequest(filters=[f"id=={sandbox_id}"])
        try:
            answer = await self._tasks.Metrics(request, **self._call)
        except rpc.RpcError:
            return None
        return answer.metrics[0] if answer.metrics else None


def inner_process(main: dict[str, Any], spec: SandboxSpec, args: list[str]) -> dict[str, Any]:
    """The process of a sandbox inside another, whose own process is `main`. Pure."""
    request = ExecRequest(args, env=spec.env, working_dir=spec.working_dir, user=spec.user, group=spec.group)
    process = process_spec(main, request, spec.id)
    if spec.supplemental_groups:
        process["user"] = {**process["user"], "additionalGids": list(spec.supplemental_groups)}
    return process


def _processes(metrics: Any) -> int:
    found = stats_of(metrics)
    return HOLD_PROCESSES + 1 if found is None or found.pids is None else found.pids
