"""Makes and takes away the containers that outlive their Tasks (agent/sandbox/lifetime), one step at a time and by name."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from iris_operator.agent.backoff import Backoff
from iris_operator.agent.logs.files import last_line
from iris_operator.agent.sandbox import labels
from iris_operator.agent.sandbox.labels import facts
from iris_operator.agent.sandbox.lifetime import (
    CONTAINER,
    IDLE_SECONDS,
    SET_UP,
    ContainerUnfit,
    Launch,
    container_of,
    hold_to,
    inner_spec,
    judge,
    launch_spec,
    seen,
    setup_of,
    setup_spec,
    verdict_of_all,
)
from iris_operator.agent.sandbox.store import Sandboxes
from iris_operator.api.cluster import Defaults
from iris_operator.api.member import ContainerSeen
from iris_operator.api.names import GPU_RESOURCE
from iris_operator.api.task import Task
from iris_operator.plan.tasks.requests import task_requests
from iris_runtimes.errors import RuntimeFault, SandboxNotFound
from iris_runtimes.keyed import KeyedOperations
from iris_runtimes.protocol import Runtime, Sandbox, SandboxSpec, SandboxState

log = logging.getLogger(__name__)

_LOOK_SECONDS = 10.0
_RETRY_SECONDS = (0.2, 5.0)


class Holds:
    """`on_change` is called with the uid of a Task whose container was set up, or failed at it."""

    def __init__(
        self,
        runtime: Runtime,
        sandboxes: Sandboxes,
        worker_uid: str,
        node: str,
        on_change: Callable[[str], None],
        now: Callable[[], datetime],
    ) -> None:
        self._runtime, self._sandboxes = runtime, sandboxes
        self._worker_uid, self._node = worker_uid, node
        self._on_change, self._now = on_change, now
        self._operations = KeyedOperations()
        self._waiting: dict[str, set[str]] = defaultdict(set)
        self._watches: dict[str, asyncio.Task[None]] = {}
        # Containers that are to go when idle: id -> (since when nobody used it, how long that may be).
        self._idle: dict[str, tuple[datetime, timedelta]] = {}

    async def enter(self, task: Task, spec: SandboxSpec, busybox: Path, setup: list[str]) -> SandboxSpec | None:
        """The Task's own sandbox `spec`, made one in its container; None while that is being set up.

        `setup`: the command of the set-up script, empty without one. Raises RuntimeFault; ContainerUnfit is the user's.
        """
        return await self._operations.run(container_of(task), self._enter(task, spec, busybox, setup))

    async def _enter(self, task: Task, spec: SandboxSpec, busybox: Path, setup: list[str]) -> SandboxSpec | None:
        container = container_of(task)
        found = await self._find(container)
        verdict = judge(task, found, spec.labels[labels.IMAGE_DIGEST], self._worker_uid, self._node)
        hold_to(task, verdict, found, self._node)
        if isinstance(verdict, Launch):
            if verdict.remains:
                await self._runtime.remove(container)
            log.info("container %s is made for Task %s", container, task.key)
            found = await self._runtime.start(launch_spec(task, spec, busybox, with_setup=bool(setup)))
        assert found is not None
        self._remember(found)
        if not await self._is_set_up(task, spec, found, setup):
            return None
        warning = "" if isinstance(verdict, Launch) else verdict.warning
        inner = inner_spec(task, spec)
        return replace(inner, labels={**inner.labels, labels.NOTE: warning}) if warning else inner

    async def look(self, task: Task, image_digest: str) -> ContainerSeen | None:
        """What to tell of this node's container before all members are told what to do; None: nothing, the Task may go on.

        ContainerUnfit when they were told that they can't. RuntimeFault.
        """
        binding, told = task.spec.binding, verdict_of_all(task)
        if binding is None or binding.member is None:
            return None
        if told is None:
            return seen(task, await self._find(container_of(task)), image_digest, self._worker_uid)
        if told.action == "Refuse":
            raise ContainerUnfit(told.reason, told.message)
        return None

    async def gpus(self, task: Task) -> tuple[str, ...] | None:
        """Those of the Task's container; None when it is yet to be made. ContainerUnfit when they are too few."""
        found = await self._find(container_of(task))
        if found is None or found.state is not SandboxState.RUNNING:
            return None
        has = facts(found).gpus
        wanted = task_requests(task, Defaults()).get(GPU_RESOURCE, 0)
        if wanted > len(has):
            name = task.spec.container_lifetime.name
            raise ContainerUnfit(
                "ContainerTooSmall",
                f"container {name} on node {self._node} has {len(has)} GPUs; the Task needs {wanted}",
            )
        return has

    async def run(self) -> None:
        """Take away what an earlier worker left and, for ever, what has been idle for long. Until cancelled."""
        backoff = Backoff(*_RETRY_SECONDS)
        while not await self._adopted():
            await backoff.wait()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for container in list(self._idle):
                try:
                    await self._give_up(container)
                except RuntimeFault as fault:
                    log.warning("container %s, idle: %s", container, fault)

    async def close(self) -> None:
        """Stop watching; what runs runs on."""
        for watch in self._watches.values():
            watch.cancel()
        await asyncio.gather(*self._watches.values(), return_exceptions=True)

    async def _is_set_up(self, task: Task, spec: SandboxSpec, container: Sandbox, setup: list[str]) -> bool:
        if not container.labels.get(SET_UP):
            return True
        done = await self._find(setup_of(container.id))
        if done is None and not setup:
            await self._runtime.remove(container.id)
            raise SandboxNotFound(f"container {container.id} was never set up; it is made anew")
        if done is None or done.state is SandboxState.CREATED:
            done = await self._runtime.start(setup_spec(task, spec, setup))
        if done.state is not SandboxState.EXITED:
            self._watch(task, container.id)
            return False
        assert done.exit is not None
        if done.exit.exit_code == 0:
            return True
        await self._runtime.remove(container.id)
        said = await asyncio.to_thread(last_line, Path(facts(done).log_path))
        words = f"the set-up script of container {task.spec.container_lifetime.name} exited with {done.exit.exit_code}"
        raise ContainerUnfit("SetupFailed", f"{words} on node {self._node}" + (f": {said}" if said else ""))

    def _watch(self, task: Task, container: str) -> None:
        self._waiting[container].add(task.metadata.uid)
        if container not in self._watches:
            self._watches[container] = asyncio.create_task(self._wait(container), name=f"set-up of {container}")

    async def _wait(self, container: str) -> None:
        try:
            await self._runtime.wait(setup_of(container))
        except RuntimeFault as fault:
            log.warning("set-up of container %s: %s", container, fault)
            await asyncio.sleep(1)
        finally:
            del self._watches[container]
        for uid in self._waiting.pop(container, set()):
            self._on_change(uid)

    async def _find(self, sandbox_id: str) -> Sandbox | None:
        try:
            return await self._runtime.get(sandbox_id)
        except SandboxNotFound:
            return None

    def _remember(self, container: Sandbox) -> None:
        seconds = container.labels.get(IDLE_SECONDS, "0")
        if seconds.isdigit() and int(seconds):
            self._idle[container.id] = (self._now(), timedelta(seconds=int(seconds)))

    async def _give_up(self, container: str) -> None:
        since, allowed = self._idle[container]
        used = any(one.labels.get(CONTAINER) == container for one in self._sandboxes.all())
        if used or container in self._watches:
            self._idle[container] = (self._now(), allowed)
        elif self._now() - since >= allowed:
            log.info("container %s was idle for %s: it goes", container, allowed)
            await self._operations.run(container, self._runtime.remove(container))
            self._idle.pop(container, None)

    async def _adopted(self) -> bool:
        try:
            await self._adopt()
        except RuntimeFault as fault:  # it is away just now; said by others
            log.info("looking for containers that are here: %s", fault)
            return False
        return True

    async def _adopt(self) -> None:
        for sandbox in await self._runtime.list():
            # Of a Task: not ours to look at. Without the worker's label: what is inside one of these.
            if not sandbox.labels.get(CONTAINER) or sandbox.labels.get(labels.TASK_UID):
                continue
            worker = facts(sandbox).worker_uid
            if worker == self._worker_uid:
                self._remember(sandbox)
            elif worker:
                log.info("container %s is an earlier worker's: it goes", sandbox.id)
                await self._runtime.remove(sandbox.id)
