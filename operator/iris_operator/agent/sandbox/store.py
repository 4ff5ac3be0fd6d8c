"""The node's sandboxes as the runtime has them: a list, then exits as they come, and a list again now and then."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from iris_operator.agent.backoff import Backoff
from iris_operator.agent.sandbox.labels import facts
from iris_runtimes.errors import RuntimeFault, SandboxNotFound
from iris_runtimes.protocol import Runtime, Sandbox, SandboxState

log = logging.getLogger(__name__)

_LIST_AGAIN_SECONDS = 30.0
_BACKOFF_SECONDS = (0.2, 5.0)
_ORDER = {SandboxState.CREATED: 0, SandboxState.RUNNING: 1, SandboxState.EXITED: 2}


class Sandboxes:
    """Keeps what is observed; `on_change` is called with the Task uid of each sandbox that changed or went."""

    def __init__(self, runtime: Runtime, on_change: Callable[[str], None]) -> None:
        self.synced = asyncio.Event()
        self.down_since: float | None = time.monotonic()
        self.why_down = "it has not answered yet"
        self._runtime = runtime
        self._on_change = on_change
        self._by_uid: dict[str, dict[str, Sandbox]] = {}
        # A list that was asked for before a change must not undo it.
        self._clock = 0
        self._probe_failed = False
        self._changed_at: dict[str, int] = {}

    def of(self, uid: str) -> tuple[Sandbox, ...]:
        """The sandboxes of one Task, older attempts first."""
        found = self._by_uid.get(uid)
        return tuple(sorted(found.values(), key=lambda one: facts(one).attempt)) if found else ()

    def all(self) -> list[Sandbox]:
        """Every sandbox."""
        return [sandbox for found in self._by_uid.values() for sandbox in found.values()]

    def put(self, sandbox: Sandbox) -> None:
        """It is so now."""
        self._touch(sandbox.id)
        self._store(sandbox)

    def drop(self, sandbox_id: str) -> None:
        """It is gone."""
        self._touch(sandbox_id)
        self._discard(sandbox_id)

    async def look(self, sandbox_id: str) -> Sandbox | None:
        """Ask the runtime about one; None when it is gone. Raises RuntimeFault."""
        try:
            sandbox = await self._runtime.get(sandbox_id)
        except SandboxNotFound:
            self.drop(sandbox_id)
            return None
        self.put(sandbox)
        return sandbox

    async def run(self) -> None:
        """Runs until cancelled."""
        backoff = Backoff(*_BACKOFF_SECONDS)
        while True:
            try:
                await self.refresh()
                backoff.reset()
                await self._follow()
            except RuntimeFault as fault:
                self._down(str(fault))
                log.warning("watching sandboxes: %s", fault)
                await backoff.wait()

    async def probe(self) -> None:
        """Ask whether the runtime answers at all: a list or a stream may hang for long."""
        try:
            await self._runtime.version()
        except RuntimeFault as fault:
            self._down(str(fault))
            self._probe_failed = True
            return
        if self._probe_failed:
            self._probe_failed, self.down_since, self.why_down = False, None, ""

    async def refresh(self) -> None:
        """Take in the runtime's list."""
        asked_at = self._clock
        listed = {sandbox.id: sandbox for sandbox in await self._runtime.list()}
        self.down_since, self.why_down = None, ""
        known = {sandbox.id: sandbox for sandbox in self.all()}
        for sandbox_id in {**known, **listed}:
            if self._changed_at.get(sandbox_id, 0) > asked_at:
                continue
            found, before = listed.get(sandbox_id), known.get(sandbox_id)
            if found is None:
                self._discard(sandbox_id)
            elif before is None or before.state is not found.state:
                # A list leaves out why a command ended.
                if found.state is SandboxState.EXITED:
                    await self.look(sandbox_id)
                else:
                    self._store(found)
        self._changed_at = {one: at for one, at in self._changed_at.items() if at > asked_at}
        self.synced.set()

    async def _follow(self) -> None:
        looks: set[asyncio.Task[None]] = set()
        async with contextlib.aclosing(self._runtime.events()) as events:
            coming = asyncio.ensure_future(anext(events))
            try:
                while True:
                    done, _ = await asyncio.wait({coming}, timeout=_LIST_AGAIN_SECONDS)
                    if not done:
                        await self.refresh()
                        continue
                    look = asyncio.create_task(self._look_at_exit(coming.result().id))
                    looks.add(look)
                    look.add_done_callback(looks.discard)
                    coming = asyncio.ensure_future(anext(events))
            finally:
                for pending in (coming, *looks):
                    pending.cancel()
                await asyncio.gather(coming, *looks, return_exceptions=True)

    async def _look_at_exit(self, sandbox_id: str) -> None:
        backoff = Backoff(*_BACKOFF_SECONDS)
        while True:
            try:
                await self.look(sandbox_id)
                return
            except RuntimeFault as fault:
                log.warning("looking at %s, which ended: %s", sandbox_id, fault)
                await backoff.wait()

    def _down(self, why: str) -> None:
        if self.down_since is None:
            self.down_since = time.monotonic()
        self.why_down = why

    def _touch(self, sandbox_id: str) -> None:
        self._clock += 1
        self._changed_at[sandbox_id] = self._clock

    def _store(self, sandbox: Sandbox) -> None:
        uid = facts(sandbox).task_uid
        before = self._by_uid.get(uid, {}).get(sandbox.id)
        # Without our label it is none of our business. And an exit may be seen before the answer to the start.
        if not uid or before == sandbox or (before is not None and _ORDER[sandbox.state] < _ORDER[before.state]):
            return
        self._by_uid.setdefault(uid, {})[sandbox.id] = sandbox
        self._on_change(uid)

    def _discard(self, sandbox_id: str) -> None:
        for uid, found in self._by_uid.items():
            if sandbox_id in found:
                del found[sandbox_id]
                if not found:
                    del self._by_uid[uid]
                self._on_change(uid)
                return
