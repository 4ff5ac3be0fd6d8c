"""The one loop that asks all probes of all Tasks of the node."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from iris_operator.agent.probes.agenda import Agenda, first_due, next_due
from iris_operator.agent.probes.ask import Address
from iris_operator.agent.probes.verdict import Answer, Health, Kind, after, asked, at_first, probe_of
from iris_operator.api.probe import Probe
from iris_operator.api.task import Task

log = logging.getLogger(__name__)

_AT_ONCE = 32
# Asking costs at its beginning; who hangs for long must not keep the others from being asked.
_COUNTS_SECONDS = 5.0


class Asks(Protocol):
    """Who can ask."""

    async def ask(self, probe: Probe, address: Address) -> Answer | None:
        """The answer; None when it couldn't be asked."""
        ...


@dataclass(frozen=True)
class Target:
    """A running attempt that is to be asked. `started_at`: its command's start."""

    task: Task
    address: Address
    started_at: datetime


@dataclass
class _Watch:
    """An attempt under watch. `planned`: the probes that are in the agenda or being asked."""

    uid: str
    sandbox_id: str
    health: Health
    planned: set[Kind] = field(default_factory=set)
    asking: dict[Kind, asyncio.Task[None]] = field(default_factory=dict)


class Prober:
    """`target` gives what of a Task is to be asked now, None for nothing; `tell` is called when an answer changed something.

    `mark` a uid whenever its target may have come or gone; before each question it is looked at again.
    """

    def __init__(
        self,
        asker: Asks,
        target: Callable[[str], Target | None],
        tell: Callable[[Task, Health], None],
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._asker, self._target, self._tell = asker, target, tell
        self._now, self._clock, self._chance = now, clock, chance
        self._watches: dict[str, _Watch] = {}
        self._agenda: Agenda[tuple[_Watch, Kind]] = Agenda(lambda entry: self._is_current(entry[0]))
        self._asking: set[asyncio.Task[None]] = set()
        self._poked = asyncio.Event()

    @property
    def watched(self) -> int:
        """Attempts under watch."""
        return len(self._watches)

    def mark(self, uid: str) -> None:
        """Begin to ask, or stop, if that is due."""
        self._look(uid)

    def poke(self) -> None:
        """Look at the clock again."""
        self._poked.set()

    async def run(self) -> None:
        """Until cancelled; then nothing is asked any more."""
        try:
            while True:
                self._poked.clear()
                while len(self._asking) < _AT_ONCE and (due := self._agenda.take(self._clock())):
                    self._begin(*due)
                await self._sleep()
        finally:
            for uid in list(self._watches):
                await self._drop(uid)

    async def _sleep(self) -> None:
        due = self._agenda.next_due() if len(self._asking) < _AT_ONCE else None
        try:
            async with asyncio.timeout(None if due is None else max(due - self._clock(), 0.0)):
                await self._poked.wait()
        except TimeoutError:
            return

    def _is_current(self, watch: _Watch) -> bool:
        return self._watches.get(watch.uid) is watch

    def _look(self, uid: str) -> Target | None:
        target, watch = self._target(uid), self._watches.get(uid)
        if watch is not None and (target is None or target.address.sandbox_id != watch.sandbox_id):
            self._end(uid)
            watch = None
        if target is not None and watch is None:
            watch = self._watches[uid] = _Watch(uid, target.address.sandbox_id, at_first(target.task))
            self._plan(watch, target)
        return target

    def _plan(self, watch: _Watch, target: Target) -> None:
        """Put in the agenda what is to be asked and isn't there yet."""
        age = (self._now() - target.started_at).total_seconds()
        for kind in asked(target.task.spec, watch.health):
            probe = probe_of(target.task.spec, kind)
            if probe is None or kind in watch.planned:
                continue
            watch.planned.add(kind)
            due = first_due(self._clock(), age, probe.initial_delay_seconds, probe.period_seconds, self._chance())
            self._agenda.add(due, (watch, kind))
        self.poke()

    def _begin(self, due: float, entry: tuple[_Watch, Kind]) -> None:
        watch, kind = entry
        target = self._look(watch.uid)
        if target is None or not self._is_current(watch) or kind not in asked(target.task.spec, watch.health):
            return
        asking = asyncio.create_task(self._ask(watch, kind, target, due), name=f"{kind} probe of {watch.sandbox_id}")
        watch.asking[kind] = asking
        self._asking.add(asking)
        counts = asyncio.get_running_loop().call_later(_COUNTS_SECONDS, self._let_next, asking)
        asking.add_done_callback(lambda _done: counts.cancel())
        asking.add_done_callback(lambda done: self._asked(watch, kind, done))

    async def _ask(self, watch: _Watch, kind: Kind, target: Target, due: float) -> None:
        probe = probe_of(target.task.spec, kind)
        assert probe is not None
        try:
            answer = await self._asker.ask(probe, target.address)
        except Exception:  # a bug must cost one answer, not the probes of the whole node
            log.exception("%s probe of Task %s", kind, target.task.key)
            answer = None
        if not self._is_current(watch):
            return
        if answer is not None:
            self._take_in(watch, kind, target, answer)
        if kind in asked(target.task.spec, watch.health):
            self._agenda.add(next_due(due, probe.period_seconds, self._clock()), (watch, kind))

    def _take_in(self, watch: _Watch, kind: Kind, target: Target, answer: Answer) -> None:
        before, watch.health = watch.health, after(target.task.spec, watch.health, kind, answer)
        if watch.health.verdict != before.verdict or watch.health.ill is not None:
            self._plan(watch, target)  # the startup probe's success lets the others begin
            self._tell(target.task, watch.health)

    def _asked(self, watch: _Watch, kind: Kind, done: asyncio.Task[None]) -> None:
        watch.asking.pop(kind, None)
        if not done.cancelled() and (error := done.exception()) is not None:
            log.error("%s probe of %s", kind, watch.sandbox_id, exc_info=error)
        self._let_next(done)

    def _let_next(self, asking: asyncio.Task[None]) -> None:
        """It counts no more among those that are asked at once."""
        self._asking.discard(asking)
        self.poke()

    def _end(self, uid: str) -> list[asyncio.Task[None]]:
        watch = self._watches.pop(uid)
        ended = list(watch.asking.values())
        for asking in ended:
            asking.cancel()
        return ended

    async def _drop(self, uid: str) -> None:
        await asyncio.gather(*self._end(uid), return_exceptions=True)
