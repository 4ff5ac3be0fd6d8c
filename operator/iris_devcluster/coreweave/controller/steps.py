"""Steps done to machines, side by side, each in its own task; the record is written when a step is done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from iris_devcluster.coreweave.host import NodeHost
from iris_devcluster.coreweave.inventory import Inventory
from iris_devcluster.coreweave.kube import KubeError
from iris_devcluster.coreweave.plan import Step, StepKind
from iris_devcluster.coreweave.plan.power import after
from iris_devcluster.errors import DevclusterError

log = logging.getLogger(__name__)

_RETRY_SECONDS = 2.0
_AT_ONCE = 4


class Steps:
    """A machine that a step is being done to is busy: the next plan leaves it alone."""

    def __init__(self, host: NodeHost, inventory: Inventory, done: Callable[[], None]) -> None:
        self._host = host
        self._inventory = inventory
        self._done = done
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @property
    def busy(self) -> frozenset[str]:
        """Names of machines."""
        return frozenset(self._tasks)

    def start(self, steps: Iterable[Step]) -> None:
        """Begin each; returns at once."""
        for step in steps:
            if step.machine not in self._tasks:
                self._tasks[step.machine] = asyncio.create_task(self._run(step))

    async def finish(self) -> None:
        """Wait for those under way: a half-booted node would be left otherwise."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, step: Step) -> None:
        try:
            async with self._slots:
                log.info("node %s: %s (%s)", step.machine, step.kind, step.reason)
                await asyncio.to_thread(self._do, step)
                await self._record(step)
        except (DevclusterError, OSError) as error:
            log.warning("node %s: %s failed, trying again: %s", step.machine, step.kind, error)
            await asyncio.sleep(_RETRY_SECONDS)
            if isinstance(error, KubeError):
                await self._reload()
        finally:
            del self._tasks[step.machine]
            self._done()

    def _do(self, step: Step) -> None:
        if step.kind is StepKind.BOOT:
            assert step.spec is not None
            self._host.boot_node(step.spec)
            return
        call = {
            StepKind.CUT: self._host.kill_node,
            StepKind.FREEZE: self._host.pause_kubelet,
            StepKind.THAW: self._host.resume_kubelet,
            StepKind.REMOVE: self._host.remove_node,
        }[step.kind]
        call(step.machine)

    async def _record(self, step: Step) -> None:
        if step.kind is StepKind.REMOVE:
            await self._inventory.write([], gone=[step.machine])
        elif (now := self._inventory.machines.get(step.machine)) is not None:
            await self._inventory.write([replace(now, power=after(step.kind))])

    async def _reload(self) -> None:
        try:
            await self._inventory.load()
        except KubeError as error:
            log.warning("%s", error)
