"""Carries out one action of a Task. Everything here may be done twice, and may be cut off anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from iris_operator.agent import status as say
from iris_operator.agent.actions import (
    Action,
    CancelPull,
    Forget,
    Hook,
    Look,
    Pull,
    Release,
    Remove,
    Report,
    Signal,
    Start,
)
from iris_operator.agent.config import AgentConfig
from iris_operator.agent.inputs.model import NO_INPUTS
from iris_operator.agent.logs.files import drop_logs, has_logs, name_logs, name_of_logs
from iris_operator.agent.memories import Memories
from iris_operator.agent.metrics import Metrics
from iris_operator.agent.node.gpus import Grant, Inventory, NoFreeGpus
from iris_operator.agent.node.keeper import NodeKeeper, TooManyTasks
from iris_operator.agent.node.ports import HostPorts, PortTaken, allot, host_ports
from iris_operator.agent.reporter import Reporter
from iris_operator.agent.sandbox.entry import script_command, script_text
from iris_operator.agent.sandbox.holds import Holds
from iris_operator.agent.sandbox.labels import TASK_NAME, facts
from iris_operator.agent.sandbox.lifetime import outlives
from iris_operator.agent.sandbox.pre_stop import PreStops
from iris_operator.agent.sandbox.pulls import Pulls
from iris_operator.agent.sandbox.setups import Setups
from iris_operator.agent.sandbox.spec import Place, sandbox_spec
from iris_operator.agent.sandbox.stages import has_setup
from iris_operator.agent.sandbox.store import Sandboxes
from iris_operator.agent.status import is_move
from iris_operator.agent.task_store import TaskStore
from iris_operator.api.cluster import Defaults
from iris_operator.api.names import FINALIZER_TASK, GPU_RESOURCE, RDMA_RESOURCE
from iris_operator.api.task import Task, TaskPhase
from iris_operator.plan.tasks.requests import task_requests
from iris_operator.ports.errors import ConflictError, NotFoundError
from iris_operator.ports.kube import TASKS, KubeApi
from iris_runtimes.errors import ImageNotFound, RuntimeFault
from iris_runtimes.protocol import Runtime, SandboxSpec, SandboxState

log = logging.getLogger(__name__)

_STARTS_SIDE_BY_SIDE = 8
_REMOVALS_SIDE_BY_SIDE = 8
# A Task that is deleted waits so long for its log to be archived.
_ARCHIVE_SECONDS = 20.0


class Actor:
    """`place` and `inventory` are set before the first Start: they are the worker Pod's own context."""

    def __init__(
        self,
        config: AgentConfig,
        api: KubeApi,
        runtime: Runtime,
        store: TaskStore,
        sandboxes: Sandboxes,
        reporter: Reporter,
        memories: Memories,
        pulls: Pulls,
        pre_stops: PreStops,
        setups: Setups,
        holds: Holds,
        node: NodeKeeper,
        metrics: Metrics,
        now: Callable[[], datetime],
    ) -> None:
        self.place: Place | None = None
        self.inventory = Inventory()
        self._config, self._api, self._runtime = config, api, runtime
        self._store, self._sandboxes, self._reporter = store, sandboxes, reporter
        self._memories, self._pulls, self._metrics, self._now = memories, pulls, metrics, now
        self._pre_stops, self._setups, self._holds, self._node = pre_stops, setups, holds, node
        self._start_slots = asyncio.Semaphore(_STARTS_SIDE_BY_SIDE)
        self._removal_slots = asyncio.Semaphore(_REMOVALS_SIDE_BY_SIDE)
        self._granted: dict[str, Grant] = {}

    async def perform(self, uid: str, action: Action) -> bool:
        """Do it; whether to look again at once. Raises RuntimeFault and ApiError: then look again later."""
        again = False
        match action:
            case Pull(task):
                self._pulls.begin(task)
                again = True  # to tell, from time to time, how far it is
            case CancelPull():
                await self._pulls.cancel(uid)
                again = True
            case Start(task):
                again = await self._start(task)
            case Report():
                again = await self._report(uid, action)
            case Look():
                again = await self._look(uid, action)
            case Hook():
                again = self._hook(uid, action)
            case Signal():
                again = await self._signal(uid, action)
            case Remove():
                again = await self._remove(uid, action)
            case Release():
                again = await self._release(action)
            case Forget():
                await self._forget(uid)
        return again

    async def _start(self, task: Task) -> bool:
        uid = task.metadata.uid
        async with self._start_slots:
            if self._store.get(uid) is not task or self.place is None:
                return True  # it changed while it waited for its turn
            try:
                return await self._start_now(task, self.place)
            except ImageNotFound:
                # It was there a moment ago: removed by someone, not missing.
                self._memories.update(task, image_digest="")
                self._memories.in_trouble(task, "ImageRemoved", "the image was removed before its start", self._now())
            except NoFreeGpus as few:
                self._memories.in_trouble(task, "GPUsBusy", str(few), self._now())
            except TooManyTasks as many:
                self._memories.in_trouble(task, "TooManyTasks", str(many), self._now())
            except PortTaken as taken:
                self._memories.in_trouble(task, "PortTaken", str(taken), self._now())
            except RuntimeFault as fault:
                log.warning("starting Task %s: %s", task.key, fault)
                self._memories.failed(task, fault, self._now())
            finally:
                self._granted.pop(uid, None)
        return True

    async def _start_now(self, task: Task, place: Place) -> bool:
        """Whether to look again at once."""
        uid, binding = task.metadata.uid, task.spec.binding
        assert binding is not None
        self._node.check_room(uid)
        if outlives(task) and await self._waits_for_members(task):
            return False
        in_use = await asyncio.to_thread(host_ports) if task.spec.ports else HostPorts()
        only = await self._holds.gpus(task) if outlives(task) else None
        grant = self._granted[uid] = self._grant(task, in_use, only)
        with contextlib.suppress(OSError):  # a disk that takes no log is the start's to tell of
            await asyncio.to_thread(name_logs, self._config.logs_dir, uid, task.metadata.name)
        log_path = self._config.log_path(uid, binding.attempt)
        memory = self._memories.of(task)
        spec = sandbox_spec(task, place, grant, memory.image_digest, log_path, self._now(), memory.inputs)
        if outlives(task):
            inner = await self._enter(task, spec, memory.inputs.setup_script)
            if inner is None:
                return False
            spec = inner
        elif has_setup(task):
            before, mounts = await self._setups.prepare(task, memory.inputs.setup_script)
            spec = replace(spec, before=before, mounts=(*spec.mounts, *mounts))
        sandbox = await self._runtime.start(spec)
        self._metrics.tasks_started += 1
        # Inputs may hold much, and Secrets' values.
        self._memories.update(task, trouble=None, stage=None, inputs=NO_INPUTS)
        if sandbox.state is SandboxState.EXITED:
            await self._sandboxes.look(sandbox.id)
        else:
            self._sandboxes.put(sandbox)
        return True

    async def _waits_for_members(self, task: Task) -> bool:
        """Whether it is one of several that do not know yet whether to enter their container or to make it."""
        found = await self._holds.look(task, self._memories.of(task).image_digest)
        if found is None:
            return False
        self._reporter.want(task.metadata.uid, say.waits_for_members(task, found))
        return True

    async def _enter(self, task: Task, spec: SandboxSpec, config_map_script: str) -> SandboxSpec | None:
        """In its container; None while that is being set up, which is told."""
        script = script_text(task, config_map_script)
        busybox = await self._setups.busybox()
        inner = await self._holds.enter(task, spec, busybox, script_command(script) if script else [])
        if inner is None:
            status = say.container_setting_up(task, str(spec.log_path))
            if task.status.reason != status.reason:
                self._reporter.want(task.metadata.uid, status)
        return inner

    def _grant(self, task: Task, in_use: HostPorts, only: tuple[str, ...] | None) -> Grant:
        """`only`: of these GPUs, which its container has."""
        wanted = task_requests(task, Defaults())
        taken = [gpu for grant in self._granted.values() for gpu in grant.gpus]
        for sandbox in self._sandboxes.all():
            if sandbox.state is not SandboxState.EXITED and facts(sandbox).task_uid != task.metadata.uid:
                taken += facts(sandbox).gpus
        if only is not None:
            taken += [gpu for gpu in self.inventory.gpus if gpu not in only]
        found = self.inventory.grant(wanted.get(GPU_RESOURCE, 0), bool(wanted.get(RDMA_RESOURCE)), taken)
        held = self._ports_taken(task.metadata.uid) if task.spec.ports else {}
        return replace(found, ports=allot(task, held, in_use, self._config.node_name))

    def _ports_taken(self, but: str) -> dict[tuple[str, int], str]:
        """(protocol, number) -> the name of the Task that has it, without those of Task `but`."""
        found = {}
        for uid, grant in self._granted.items():
            task = self._store.get(uid)
            for port in grant.ports if uid != but else ():
                found[port.protocol, port.port] = task.metadata.name if task is not None else uid
        for sandbox in self._sandboxes.all():
            if sandbox.state is not SandboxState.EXITED and facts(sandbox).task_uid != but:
                for port in facts(sandbox).ports:
                    found[port.protocol, port.port] = sandbox.labels.get(TASK_NAME, sandbox.id)
        return found

    async def _report(self, uid: str, action: Report) -> bool:
        if action.verify and await self._sandboxes.look(action.verify) is not None:
            return True
        task, phase = self._store.get(uid), action.status.phase
        if task is not None and phase is TaskPhase.BUILDING:
            self._memories.update(task, told_at=self._now())
        elif task is not None and phase is not None and (phase.ended or is_move(action.status)):
            self._memories.update(task, final=action.status)
            if not self._sandboxes.of(uid) and task.spec.binding is not None:
                await self._pulls.discard(uid, task.spec.binding.attempt)
        elif task is not None and action.leaves:
            self._memories.update(task, left=True)
        self._reporter.want(uid, action.status)
        return action.leaves

    async def _signal(self, uid: str, action: Signal) -> bool:
        task = self._store.get(uid)
        if task is None:
            return True
        number = signal.SIGKILL if action.kill else action.number
        log.info("signal %s to %s", number, action.sandbox_id)
        await self._runtime.signal(action.sandbox_id, number, everyone=action.kill)
        # Only after it was sent: when the runtime is away, the grace period must not run.
        self._memories.update(task, **{"kill_sent" if action.kill else "term_sent": self._now()})
        return True

    async def _look(self, uid: str, action: Look) -> bool:
        for sandbox in self._sandboxes.of(uid):
            await self._setups.look(action.task, sandbox, final=action.final)
        return True

    def _hook(self, uid: str, action: Hook) -> bool:
        log.info("preStop of %s", action.sandbox_id)
        ports = {port.name: port.port for one in self._sandboxes.of(uid) for port in facts(one).ports}
        self._pre_stops.begin(action.task, action.sandbox_id, ports, action.seconds)
        return True

    async def _remove(self, uid: str, action: Remove) -> bool:
        await self._pre_stops.cancel(uid)
        self._setups.forget(uid)
        task = self._store.get(uid)
        if action.then is not None and task is not None:
            self._memories.update(task, final=action.then)  # the sandbox, the other witness, goes now
        async with self._removal_slots:
            log.info("removing sandbox %s: %s", action.sandbox_id, action.why)
            await self._runtime.remove(action.sandbox_id)
        self._sandboxes.drop(action.sandbox_id)
        await self._pulls.discard_sandbox(uid, action.sandbox_id)
        return True

    async def _forget(self, uid: str) -> None:
        """Logs of a Task that runs elsewhere now stay until it is gone: asked here once, and by the next agent."""
        self._memories.forget(uid)
        await self._pulls.discard(uid)
        if not has_logs(self._config.logs_dir, uid):
            self._node.archive.forget(uid)
            return  # most: they went when the Task was let go
        name = await asyncio.to_thread(name_of_logs, self._config.logs_dir, uid)
        if name and await self._exists(uid, name):
            log.info("Task %s has left this node: its logs stay", name)
            await self._node.archive.look_at_files([uid])
            return
        await self._node.archive.settle(uid, _ARCHIVE_SECONDS)
        await asyncio.to_thread(drop_logs, self._config.logs_dir, uid)

    async def _exists(self, uid: str, name: str) -> bool:
        try:
            body = await self._api.get(TASKS, name, self._config.pod_namespace)
        except NotFoundError:
            return False
        return bool(body["metadata"]["uid"] == uid)

    async def _release(self, action: Release) -> bool:
        """The log first: once the finalizer is off, nobody may come back to it."""
        task, meta = action.task, action.task.metadata
        if await self._sandboxes.look(action.verify) is not None:
            return True
        await self._pulls.discard(meta.uid)
        await self._node.archive.settle(meta.uid, _ARCHIVE_SECONDS)
        await asyncio.to_thread(drop_logs, self._config.logs_dir, meta.uid)
        left = [one for one in meta.finalizers if one != FINALIZER_TASK]
        patch = {"metadata": {"finalizers": left, "resourceVersion": meta.resource_version}}
        self._metrics.wrote("patch", "tasks")
        try:
            answer = await self._api.patch(TASKS, meta.name, patch, namespace=meta.namespace)
            if left:
                self._store.observe(answer)
            else:
                self._store.drop(meta.uid)  # the answer may bear the version from before
        except NotFoundError:
            self._store.drop(meta.uid)
        except ConflictError:
            await self._reporter.refresh(task)
        return True
