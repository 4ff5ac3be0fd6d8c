"""One worker per Task that needs a look: decide, act, decide again, until there is nothing to do but wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from iris_operator.agent.act import Actor
from iris_operator.agent.diff import View, Worker, decide
from iris_operator.agent.memories import Memories
from iris_operator.agent.sandbox.labels import facts
from iris_operator.agent.sandbox.store import Sandboxes
from iris_operator.agent.task_store import TaskStore
from iris_operator.ports.errors import ApiError
from iris_runtimes.errors import RuntimeFault

log = logging.getLogger(__name__)

_RETRY_SECONDS = 2.0
_AFTER_A_BUG_SECONDS = 30.0


class Loop:
    """`mark` a uid whenever something about it may have changed. Nothing is done before `open`."""

    def __init__(
        self,
        worker: Worker,
        store: TaskStore,
        sandboxes: Sandboxes,
        memories: Memories,
        now: Callable[[], datetime],
    ) -> None:
        self.worker = worker
        self._store, self._sandboxes, self._memories, self._now = store, sandboxes, memories, now
        self._actor: Actor | None = None
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @property
    def busy(self) -> int:
        """Tasks being worked on."""
        return len(self._busy)

    def open(self, actor: Actor) -> None:
        """Desired and observed are both known: begin."""
        self._actor = actor
        self.mark_all()

    def become(self, worker: Worker) -> None:
        """This worker's own state changed: look at everything again."""
        self.worker = worker
        self.mark_all()

    def mark_all(self) -> None:
        """Look at every Task and every sandbox."""
        for uid in {*self._store.tasks, *(facts(one).task_uid for one in self._sandboxes.all())}:
            self.mark(uid)

    def mark(self, uid: str) -> None:
        """Look at this Task, now or right after what is being done for it."""
        if self._actor is None:
            return
        if uid in self._busy:
            self._again.add(uid)
            return
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
        task = asyncio.create_task(self._work(uid, self._actor), name=f"task {uid}")
        self._busy[uid] = task
        task.add_done_callback(lambda done: self._done(uid, done))

    async def close(self) -> None:
        """Stop where it is: whoever comes next decides anew."""
        self._actor = None
        for timer in self._timers.values():
            timer.cancel()
        busy = list(self._busy.values())
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)

    async def _work(self, uid: str, actor: Actor) -> None:
        again = True
        while again:
            self._again.discard(uid)
            decision = decide(
                View(uid, self._store.get(uid), self._sandboxes.of(uid), self._memories.get(uid)),
                self.worker,
                self._now(),
            )
            try:
                again = await actor.perform(uid, decision.action)
            except (RuntimeFault, ApiError) as error:
                log.warning("%s of Task %s: %s", type(decision.action).__name__, uid, error)
                self._look_later(uid, _RETRY_SECONDS)
                return
            again = again or uid in self._again
            if decision.look_again is not None and not again:
                self._look_later(uid, (decision.look_again - self._now()).total_seconds())

    def _done(self, uid: str, done: asyncio.Task[None]) -> None:
        del self._busy[uid]
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            # A bug must not take the other Tasks down, nor be lost.
            log.error("working on Task %s failed", uid, exc_info=error)
            self._look_later(uid, _AFTER_A_BUG_SECONDS)
        elif uid in self._again:
            self._again.discard(uid)
            self.mark(uid)

    def _look_later(self, uid: str, seconds: float) -> None:
        before = self._timers.pop(uid, None)
        if before is not None:
            before.cancel()
        loop = asyncio.get_running_loop()
        self._timers[uid] = loop.call_later(max(seconds, 0.01), self._on_timer, uid)

    def _on_timer(self, uid: str) -> None:
        self._timers.pop(uid, None)
        self.mark(uid)
