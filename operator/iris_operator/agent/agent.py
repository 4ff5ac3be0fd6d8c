"""The agent put together: watches, workers, heartbeat, HTTP API; run until told to end."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from iris_operator.adapters.kube.informer import Informer, identity
from iris_operator.agent.act import Actor
from iris_operator.agent.backoff import Backoff
from iris_operator.agent.config import AgentConfig
from iris_operator.agent.diff import Worker
from iris_operator.agent.drain import RESERVE_SECONDS, kill_at, pod_deadline
from iris_operator.agent.inputs.prepare import Preparer
from iris_operator.agent.inputs.room import RoomKeeper
from iris_operator.agent.logs.files import stored_uids
from iris_operator.agent.logs.state import log_state
from iris_operator.agent.loop import Loop
from iris_operator.agent.memories import Memories
from iris_operator.agent.metrics import Metrics
from iris_operator.agent.node import gpus, outside
from iris_operator.agent.node.files import resolver_mounts
from iris_operator.agent.node.keeper import NodeKeeper
from iris_operator.agent.node.lease import Heartbeat
from iris_operator.agent.node.network import cut_off, namespace_to_join
from iris_operator.agent.probes.ask import Asker
from iris_operator.agent.probes.prober import Prober, Target
from iris_operator.agent.probes.target import target_of
from iris_operator.agent.probes.verdict import Health, has_probes
from iris_operator.agent.reporter import Reporter
from iris_operator.agent.sandbox.credentials import credentials_for
from iris_operator.agent.sandbox.holds import Holds
from iris_operator.agent.sandbox.labels import facts
from iris_operator.agent.sandbox.pre_stop import PreStops
from iris_operator.agent.sandbox.pulls import Pulls
from iris_operator.agent.sandbox.setups import Setups
from iris_operator.agent.sandbox.spec import Place
from iris_operator.agent.sandbox.store import Sandboxes
from iris_operator.agent.server import LogState
from iris_operator.agent.streams.log_times import LogTimes
from iris_operator.agent.streams.source import StreamSource
from iris_operator.agent.task_store import TaskStore
from iris_operator.api.machine import Machine
from iris_operator.api.task import Task
from iris_operator.ports.kube import SECRETS, TASKS, KubeApi
from iris_operator.version import VERSION
from iris_runtimes.errors import RuntimeFault
from iris_runtimes.protocol import Credentials, Runtime, SandboxState

log = logging.getLogger(__name__)

_PROBE_SECONDS = 5.0
# Shorter silences are a restart of the runtime, not worth alarming anyone.
_RUNTIME_SILENCE_SECONDS = 30.0
_LOOK_AT_ALL_SECONDS = 60.0
_SETTLED_SECONDS = 0.05
_LATE_SECONDS = 5.0
_ARCHIVE_SECONDS = 15.0  # for logs to be archived, when the Pod goes
_BURST = 8


def utc_now() -> datetime:
    """The clock."""
    return datetime.now(UTC)


class Agent:
    """One worker Pod's agent. `run` it once."""

    def __init__(
        self, config: AgentConfig, api: KubeApi, runtime: Runtime, now: Callable[[], datetime] = utc_now
    ) -> None:
        self.metrics = Metrics()
        self._config, self._api, self._runtime, self._now = config, api, runtime, now
        self._memories = Memories()
        self._cant_begin = "it does not know its Pod's cgroup"
        self._store = TaskStore(config.node_name, self._mark)
        self._sandboxes = Sandboxes(runtime, self._mark)
        self._log_times = LogTimes()
        self._reporter = Reporter(api, self._store, self.metrics, self._mark)
        self._inputs = Preparer(api, config.cache_dir, config.host_ip)
        self._pulls = Pulls(api, runtime, self._inputs, self._memories, self._mark, now)
        self._asker = Asker(runtime)
        self._prober = Prober(self._asker, self._probed, self._take_in, now)
        self._pre_stops = PreStops(runtime, self._memories, self._mark, now, config.host_ip)
        self._setups = Setups(config.cache_dir, config.busybox, self._memories, self._mark)
        self._holds = Holds(runtime, self._sandboxes, config.pod_uid, config.node_name, self._mark, now)
        self._node = NodeKeeper(
            config,
            api,
            runtime,
            self._store,
            self._sandboxes,
            self.metrics,
            self.log_state,
            self._mark,
            self._disk_told,
        )
        self._actor = Actor(
            config, api, runtime, self._store, self._sandboxes, self._reporter, self._memories, self._pulls,
            self._pre_stops, self._setups, self._holds, self._node, self.metrics, now,
        )  # fmt: skip
        worker = Worker(config.pod_uid, config.pod_name, config.node_name, ready=False, since=now())
        self._loop = Loop(worker, self._store, self._sandboxes, self._memories, now)
        self._reporter.burst = lambda: self._loop.busy > _BURST
        self._informer = Informer(
            api,
            TASKS,
            config.pod_namespace,
            self._store.observe,
            fields=f"spec.binding.nodeName={config.node_name}",
            keep=identity,  # the store has the rest
        )
        self._node.disk.collectors.append(lambda _space, _disk: self._inputs.collect())
        self._rooms = RoomKeeper(self._inputs.layout, self._running_tasks, self._memories, self._mark)
        self._heartbeat = Heartbeat(
            api, config, self.metrics, self.problem, lambda: self._node.disk.problem, self._machine
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`; then the Tasks too are stopped if the Pod goes, else they run on without us."""
        async with AsyncExitStack() as stack:
            for closing in (
                self._asker,
                self._reporter,
                self._pulls,
                self._pre_stops,
                self._setups,
                self._holds,
                self._loop,
            ):
                stack.push_async_callback(closing.close)
            async with asyncio.TaskGroup() as group:
                watching = [
                    group.create_task(self._informer.run(), name="watch Tasks"),
                    group.create_task(self._sandboxes.run(), name="watch sandboxes"),
                    group.create_task(self._probe(), name="probe the runtime"),
                    group.create_task(self._look_at_all(), name="look at all"),
                    group.create_task(self._rooms.run(), name="measure volumes"),
                    group.create_task(self._prober.run(), name="probe Tasks"),
                    group.create_task(self._log_times.run(), name="note the logs' times"),
                    group.create_task(self._node.run(), name="look after the node"),
                    group.create_task(self._holds.run(), name="look after containers that stay"),
                ]
                registered = group.create_task(self._register(), name="heartbeat")
                await stop.wait()
                registered.cancel()
                await self._drain()
                for task in watching:
                    task.cancel()

    def problem(self, silence_seconds: float = _RUNTIME_SILENCE_SECONDS) -> str:
        """Why this agent can't do its work; empty when it can. Shorter silences of the runtime don't count."""
        down = self._sandboxes.down_since
        if down is not None:
            silent = time.monotonic() - down
            if silent > silence_seconds or not self._sandboxes.synced.is_set():
                why = self._sandboxes.why_down
                return f"the runtime on node {self._config.node_name} has not answered for {silent:.0f}s: {why}"
        if self._actor.place is None:
            return f"the agent on node {self._config.node_name} can't begin yet: {self._cant_begin}"
        if not self._informer.synced.is_set():
            return f"the agent on node {self._config.node_name} has not read its Tasks from the API yet"
        return ""

    def health_problem(self) -> str:
        """The same, strictly: a runtime that is silent just now counts."""
        return self.problem(0)

    def describe(self) -> dict[str, object]:
        """For /health."""
        return {
            "version": VERSION,
            "node": self._config.node_name,
            "slice": self._config.slice_name,
            "rank": self._config.rank,
            **{name: int(value) for name, value in self._gauges().items()},
        }

    def metrics_text(self) -> str:
        """For /metrics."""
        return self.metrics.text(self._gauges())

    def log_state(self, uid: str, attempt: int) -> LogState:
        """Whether more will come in that log."""
        return log_state(self._store.get(uid), self._sandboxes.of(uid), uid, attempt, self._now())

    def _gauges(self) -> dict[str, float]:
        running = sum(one.state is SandboxState.RUNNING for one in self._sandboxes.all())
        return {
            "tasks": len(self._store.tasks),
            "sandboxes_running": running,
            "reports_waiting": self._reporter.waiting,
            "logs_to_archive": self._node.archive.waiting,
            "images_collected_bytes": self._node.disk.collected_bytes,
        }

    def stream_source(self) -> StreamSource:
        """What the handlers of agent/streams need of this agent."""
        return StreamSource(
            runtime=self._runtime,
            logs_dir=self._config.logs_dir,
            cache_dir=self._config.cache_dir,
            log_state=self.log_state,
            sandboxes=lambda uid: self._sandboxes.all() if uid is None else self._sandboxes.of(uid),
            problem=self.health_problem,
            describe=self.describe,
            credentials=self._credentials_of,
            gpus=lambda: len(self._actor.inventory.gpus),
            gpu_way=self._gpu_way,
            address=self._config.host_ip,
        )

    async def _credentials_of(self, image: str, names: Sequence[str]) -> list[Credentials]:
        secrets = [await self._api.get(SECRETS, name, self._config.pod_namespace) for name in names]
        return credentials_for(image, secrets, self._pulls.registry)

    def _mark(self, uid: str) -> None:
        self._loop.mark(uid)
        self._prober.mark(uid)
        self._node.look(uid)
        running = (one for one in self._sandboxes.of(uid) if one.state is SandboxState.RUNNING)
        self._log_times.look(uid, (Path(path) for one in running if (path := facts(one).log_path)))

    def _probed(self, uid: str) -> Target | None:
        task = self._store.get(uid)
        if task is None or not has_probes(task.spec) or self._loop.worker.drain_deadline is not None:
            return None
        return target_of(task, self._sandboxes.of(uid), self._memories.get(uid), self._config.pod_uid)

    def _take_in(self, task: Task, health: Health) -> None:
        """What the probes found."""
        found = {"ill": health.ill} if health.ill is not None else {}
        self._memories.update(task, verdict=health.verdict, **found)
        self._loop.mark(task.metadata.uid)

    def _running_tasks(self) -> list[Task]:
        running = [facts(one).task_uid for one in self._sandboxes.all() if one.state is SandboxState.RUNNING]
        found = [task for uid in running if (task := self._store.get(uid)) is not None]
        return [one for one in found if one.spec.binding and one.spec.binding.worker_uid == self._config.pod_uid]

    def _disk_told(self) -> None:
        self._heartbeat.poke()

    async def _register(self) -> None:
        """Learn our place, then what is desired and observed, begin, and only then say that we are here."""
        late = asyncio.create_task(self._beat_when_late(), name="heartbeat of an agent that can't begin")
        try:
            await self._learn_place()
            await self._sandboxes.synced.wait()
            await self._informer.synced.wait()
        finally:
            late.cancel()
            await asyncio.gather(late, return_exceptions=True)
        await self._inputs.sweep({*self._store.tasks, *(facts(one).task_uid for one in self._sandboxes.all())})
        self._loop.open(self._actor)
        self._node.opened.set()
        for uid in await asyncio.to_thread(stored_uids, self._config.logs_dir):
            self._mark(uid)  # logs of Tasks that went while we were away
        self._loop.become(replace(self._loop.worker, ready=True))
        log.info("agent %s is up on node %s: %s", VERSION, self._config.node_name, self.describe())
        await self._heartbeat.run()

    async def _beat_when_late(self) -> None:
        """What keeps us from beginning is told by the Lease: a Pod that isn't ready says no more than that."""
        await asyncio.sleep(_LATE_SECONDS)
        await self._heartbeat.run()

    async def _learn_place(self) -> None:
        backoff = Backoff(0.2, 5.0)
        while True:
            try:
                await self._runtime.version()  # whether it is there at all
                if self._config.outside:
                    context = outside.context(os.environ)
                else:
                    context = await self._runtime.pod_context(self._config.pod_uid)
                network = namespace_to_join(context, host_network=self._config.host_network)
                if network:
                    await self._remove_cut_off()
                break
            except RuntimeFault as fault:
                self._cant_begin = str(fault)
                log.warning("learning our Pod's cgroup and devices: %s", fault)
                await backoff.wait()
        config = self._config
        self._inputs.give(context.mounts)
        mounts = await asyncio.to_thread(resolver_mounts, config.cache_dir)
        self._actor.place = Place(
            config.slice_name, config.node_name, config.pod_uid, context.cgroup, mounts, config.host_ip, network
        )
        self._pulls.registry = self._node.registry = config.image_registry or context.image_registry
        information = await asyncio.to_thread(_driver_information)
        self._actor.inventory = gpus.inventory(context, gpus.driver_minors(information))
        if self._actor.inventory.gpus:
            log.info("%d GPUs, given by %s", len(self._actor.inventory.gpus), await self._gpu_way())

    async def _remove_cut_off(self) -> None:
        """What is on a network that our Pod has no more is lost: it is told and tried again as such."""
        for one in cut_off(await self._runtime.list(), self._config.pod_uid, self._config.host_ip):
            log.warning("sandbox %s was on the network that this Pod had before, and goes", one.id)
            await self._runtime.remove(one.id)
            self._sandboxes.drop(one.id)

    def _machine(self) -> Machine | None:
        """Of an agent outside of Pods, once it knows its devices."""
        if not self._config.outside or self._actor.place is None:
            return None
        return outside.machine(os.environ, self._config, len(self._actor.inventory.gpus))

    async def _gpu_way(self) -> str:
        """How Tasks get this worker's GPUs, or why they can't; empty without any."""
        inventory = self._actor.inventory
        try:
            return await self._runtime.gpu_way(inventory.gpus, inventory.nodes_of(inventory.gpus))
        except RuntimeFault as fault:
            return str(fault)

    async def _probe(self) -> None:
        """Say soon when the runtime hangs, and when what we say of ourselves has changed."""
        told = self.problem()
        while True:
            await asyncio.sleep(_PROBE_SECONDS)
            await self._sandboxes.probe()
            if bool(self.problem()) != bool(told):
                self._heartbeat.poke()
            told = self.problem()

    async def _look_at_all(self) -> None:
        """Whatever a lost event or a bug left behind."""
        while True:
            await asyncio.sleep(_LOOK_AT_ALL_SECONDS)
            self._loop.mark_all()

    async def _drain(self) -> None:
        end = None if self._config.outside else await pod_deadline(self._api, self._config, self._now())
        if end is None:
            log.info("ending; the Pod stays, and so do its Tasks: the next agent adopts them")
            return
        now = self._now()
        log.info("the Pod is being deleted (ends at %s): stopping its Tasks", end)
        self._loop.become(replace(self._loop.worker, ready=False, drain_deadline=kill_at(end, now)))
        last = max(end - timedelta(seconds=1), now + timedelta(seconds=RESERVE_SECONDS / 2))
        while self._now() < last and self._unsettled():  # noqa: ASYNC110 three parts would have to tell us
            await asyncio.sleep(_SETTLED_SECONDS)
        await self._node.archive.settle_all(min(_ARCHIVE_SECONDS, (last - self._now()).total_seconds()))

    def _unsettled(self) -> bool:
        return bool(self._sandboxes.all()) or self._reporter.waiting > 0 or self._loop.busy > 0


def _driver_information() -> list[str]:
    """What the NVIDIA driver says of each GPU; empty without one."""
    found = Path("/proc/driver/nvidia/gpus").glob("*/information")
    return [path.read_text(errors="replace") for path in found]
