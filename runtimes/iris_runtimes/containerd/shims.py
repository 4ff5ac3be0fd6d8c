"""Which shim a sandbox gets: up to so many share one, so that a start does not cost a process that stays.

containerd's shim puts containers of one group into one process, whose first container it was started for. That one is our
keeper: it stays when sandboxes come one after the other, and a shim never ends while another container is on its way into it.
containerd itself cleans up after each container of a shim that was killed, exactly as after a shim of its own.

A shim makes one container at a time. In a burst a few shims stand side by side, so that every processor has one to make; what
is spare of them goes when nothing has used it for a while.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import translate
from iris_runtimes.containerd.keepers import KEEPER_LABEL, RUNTIME, Keepers
from iris_runtimes.errors import RuntimeUnavailable
from iris_runtimes.protocol import CgroupParent

# On a sandbox: its shim's keeper
GROUP_LABEL = "iris.dev/shim"
PER_SHIM = 32
"""Sandboxes of one shim: who kills it takes so many with it."""
SPARE_SECONDS = 30.0
_SIDE_BY_SIDE = max(2, min(8, os.cpu_count() or 2))
# So many on their way into each shim: another one is worth its start; is worth waiting for.
_BUSY, _VERY_BUSY = 2, 4


@dataclass(frozen=True)
class Room:
    """Where a sandbox is to be: the group of its shim, which is its keeper's id ("": a shim of its own), and the runtime that
    containerd is to start it with."""

    group: str = ""
    runtime: str = RUNTIME


class Shims:
    """The shared shims of one containerd namespace. Calls raise rpc.RpcError."""

    def __init__(self, keepers: Keepers, most: int, spare_seconds: float = SPARE_SECONDS) -> None:
        """`most`: sandboxes of a shim; below two each has its own. `spare_seconds`: so long an empty shim beside another one
        stays; 0: it goes at once."""
        self._keepers = keepers
        self._most = most
        self._members: dict[str, set[str]] = {}  # of a keeper
        self._runtime: dict[str, str] = {}  # of a keeper
        self._keeper: dict[str, str] = {}  # of a sandbox
        self._open: dict[str, str] = {}  # keepers that take more -> their cgroup
        self._entering: Counter[str] = Counter()  # sandboxes on their way into a keeper's shim
        self._spare_seconds = spare_seconds
        self._adding: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._loaded = False

    async def room(self, cgroup: CgroupParent, sandbox_id: str) -> Room:
        """The shim that a sandbox gets. Tell `entered` when it is in it, or will never be."""
        if self._most < 2:
            return Room()
        async with self._lock:
            await self._load()
            keeper = self._keeper.get(sandbox_id) or await self._with_room(cgroup) or await self._make(cgroup)
            if not keeper:
                return Room()
            self._join(sandbox_id, keeper)
            self._entering[keeper] += 1
            return Room(keeper, self._runtime.get(keeper, RUNTIME))

    def entered(self, room: Room) -> None:
        """A sandbox is made, or could not be."""
        if room.group:
            self._entering[room.group] -= 1

    async def left(self, sandbox_id: str) -> None:
        """A sandbox was removed. The last open shim of a cgroup stays: the next sandbox may come soon."""
        keeper = self._keeper.pop(sandbox_id, "")
        if not keeper:
            return
        self._members[keeper].discard(sandbox_id)
        if keeper in self._open and self._spare_seconds:
            self._sweep_later()
            return
        async with self._lock:
            await self._remove_spare(keeper)

    async def load(self) -> None:
        """Learn what an earlier process has left, once."""
        async with self._lock:
            await self._load()

    def keeps(self, container_id: str) -> bool:
        """Whether that is a keeper."""
        return container_id in self._members

    def ended(self, keeper: str) -> None:
        """A keeper has ended, most likely by the death of its shim: no more sandboxes are put there."""
        self._open.pop(keeper, None)

    async def release(self) -> None:
        """Remove the keepers of nothing; the others stay with their sandboxes."""
        running = [one for one in (self._adding, self._sweeping) if one is not None]
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        async with self._lock:
            for keeper in [one for one, members in self._members.items() if not members]:
                with suppress(rpc.RpcError):  # the next agent does it
                    await self._remove(keeper)

    def _join(self, sandbox_id: str, keeper: str) -> None:
        self._keeper[sandbox_id] = keeper
        self._members.setdefault(keeper, set()).add(sandbox_id)

    async def _with_room(self, cgroup: CgroupParent) -> str:
        """The least busy one; another is made beside those that are all busy, and waited for when they are very much so."""
        keeper = self._least_busy(cgroup)
        taking = sum(len(self._members[one]) < self._most for one in self._of(cgroup.path))
        if self._entering[keeper] >= _BUSY and taking < _SIDE_BY_SIDE and (self._adding is None or self._adding.done()):
            self._adding = asyncio.create_task(self._add(cgroup))
        if self._entering[keeper] >= _VERY_BUSY and self._adding is not None and not self._adding.done():
            await asyncio.wait([self._adding])
            keeper = self._least_busy(cgroup)
        return keeper

    def _least_busy(self, cgroup: CgroupParent) -> str:
        """Of those the fullest, so that the others can go; "": there is no room."""
        fitting = [one for one in self._of(cgroup.path) if len(self._members[one]) < self._most]
        return min(fitting, key=lambda one: (self._entering[one], -len(self._members[one])), default="")

    def _of(self, path: str) -> list[str]:
        return [one for one, cgroup in self._open.items() if cgroup == path]

    async def _add(self, cgroup: CgroupParent) -> None:
        keeper = _name()
        self._members[keeper] = set()
        try:
            self._runtime[keeper] = await self._keepers.start(keeper, cgroup)
        except (OSError, rpc.RpcError, asyncio.CancelledError):  # what is there is enough
            with suppress(rpc.RpcError):
                await self._remove(keeper)
            return
        self._open[keeper] = cgroup.path
        self._sweep_later()

    def _sweep_later(self) -> None:
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        while any(len(self._of(path)) > 1 for path in set(self._open.values())):
            await asyncio.sleep(self._spare_seconds)
            async with self._lock:
                for keeper in list(self._open):
                    await self._remove_spare(keeper)

    async def _remove_spare(self, keeper: str) -> None:
        """If it is empty, and not the last open one of its cgroup. Called with the lock."""
        cgroup = self._open.get(keeper)
        if self._members.get(keeper) == set() and (cgroup is None or len(self._of(cgroup)) > 1):
            with suppress(rpc.RpcError):  # looked at again
                await self._remove(keeper)

    async def _load(self) -> None:
        if self._loaded:
            return
        containers = await self._keepers.records()
        keepers = {one.id: one.labels[KEEPER_LABEL] for one in containers if KEEPER_LABEL in one.labels}
        self._members = {one: set() for one in keepers}
        self._runtime = {one.id: one.runtime.name for one in containers if one.id in keepers}
        for one in containers:
            if GROUP_LABEL in one.labels:
                self._join(one.id, one.labels[GROUP_LABEL])
        for keeper, cgroup in keepers.items():
            if await self._keepers.runs(keeper):
                self._open[keeper] = cgroup
            elif not self._members[keeper]:
                await self._remove(keeper)
        self._loaded = True

    async def _make(self, cgroup: CgroupParent) -> str:
        for other in [one for one, path in self._open.items() if path != cgroup.path and not self._members[one]]:
            await self._remove(other)  # of a worker Pod that was here before
        keeper = _name()
        try:
            if not await self._keepers.possible():
                self._most = 0
                return ""
            self._runtime[keeper] = await self._keepers.start(keeper, cgroup)
        except (OSError, rpc.RpcError) as error:
            if isinstance(error, rpc.RpcError) and isinstance(translate(error), RuntimeUnavailable):
                raise
            self._most = 0  # sandboxes run as well with a shim each
            with suppress(rpc.RpcError):
                await self._remove(keeper)
            return ""
        self._members[keeper] = set()
        self._open[keeper] = cgroup.path
        return keeper

    async def _remove(self, keeper: str) -> None:
        for known in (self._members, self._open, self._runtime):
            known.pop(keeper, None)
        await self._keepers.remove(keeper)


def _name() -> str:
    return f"shim-{uuid.uuid4().hex[:16]}"
