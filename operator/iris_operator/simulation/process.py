"""The simulated operator: a queue of keys, a memory that a crash loses, writes that may find their object changed.

It stands where controller/engine.py, routing.py and writer.py stand, with time that jumps instead of passing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol, TypeVar

from iris_operator.api.base import Model, Resource
from iris_operator.plan.groups.launch_rate import LaunchRate
from iris_operator.plan.placement.ledger import Ledger
from iris_operator.ports.errors import ApiError, NotFoundError
from iris_operator.simulation.agenda import Agenda
from iris_operator.simulation.memory import WATCHED, Memory
from iris_operator.simulation.pace import Pace
from iris_operator.simulation.routing import route
from iris_operator.simulation.store import Store

R = TypeVar("R", bound=Resource)
_BACKOFF_SECONDS = (0.1, 30.0)


class Key(NamedTuple):
    """What to reconcile: a reconciler's name, and `namespace/name` (or a namespace)."""

    kind: str
    name: str


class Crash(Exception):
    """The operator's process was killed just before a write."""


class Reconcile(Protocol):
    """Brings what a key names nearer to what it should be; may raise ApiError: again, later."""

    def __call__(self, operator: Operator, name: str) -> None:
        """Do it once."""
        ...


class Operator:
    """One process of it. `clock_error` is what its clock is ahead of the true time, in seconds."""

    def __init__(self, store: Store, agenda: Agenda, reconcilers: Mapping[str, Reconcile], pace: Pace) -> None:
        self.store, self.agenda, self.pace = store, agenda, pace
        self.memory = Memory()
        self.ledger = Ledger()
        self.launches = LaunchRate(lambda: agenda.seconds)
        self.fleet_due = 0.0
        self.alive = True
        self.clock_error = 0.0
        self.writes = 0
        self.passes: Counter[str] = Counter()
        self.counters: Counter[str] = Counter()
        self.before_write: Callable[[], None] = lambda: None
        self.on_crash: Callable[[], None] = lambda: None
        self._reconcilers = reconcilers
        self._due: dict[Key, float] = {}
        self._last: dict[Key, float] = {}
        self._failures: Counter[Key] = Counter()
        self._told_at: dict[type[Resource], float] = {}

    @property
    def now(self) -> datetime:
        """The time as this process knows it."""
        return self.agenda.now + timedelta(seconds=self.clock_error)

    def start(self) -> None:
        """List everything and look at it all; then follow the news."""
        for model in WATCHED:
            for found in list(self.store.all(model).values()):
                self.observe(None, found)
        self.agenda.after(self.pace.resync_seconds, self._resync)

    def told(self, before: Resource | None, after: Resource | None) -> None:
        """A watch event, which arrives after its delay, in order for each kind."""
        found = after or before
        if found is None or type(found) not in WATCHED:
            return
        if self.pace.watch_delay is None:
            self.observe(before, after)
            return
        arrives = max(self._told_at.get(type(found), 0.0), self.agenda.seconds + self.pace.watch_delay())
        self._told_at[type(found)] = arrives
        self.agenda.at(arrives, lambda: self.observe(before, after))

    def observe(self, before: Resource | None, after: Resource | None) -> None:
        """Take over what the API says, and queue whom it concerns."""
        if not self.alive:
            return
        if after is None:
            known = self.memory.drop(before) if before is not None else None
            concerned = route(known, known, None, self.memory, self.pace) if known is not None else ()
        else:
            try:
                known = self.memory.put(after)
            except KeyError:
                return
            concerned = route(after, known, after, self.memory, self.pace)
        for kind, name, delay in concerned:
            self.add(Key(kind, name), delay)

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Work on it in so many seconds, or sooner if it is due sooner already. Passes keep their distance."""
        due = self.agenda.seconds + delay
        if key.kind == "place":
            due = max(due, self._last.get(key, -self.pace.pass_seconds) + self.pace.pass_seconds)
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        self.agenda.at(due, lambda: self._work(key, due))

    def create(self, wanted: R) -> R:
        """Make an object."""
        self._count()
        made = self.store.create(wanted)
        self.observe(None, made)
        return made

    def status(self, target: R, before: Model, after: Model) -> None:
        """Write a status, or nothing when it is the same; ConflictError when `target` is not the newest."""
        if before != after and before.stated() != after.stated():
            self._count()
            self.observe(target, self.store.update(target, status=after))

    def change(self, target: R, *, metadata: Mapping[str, Any] | None = None, spec: Model | None = None) -> None:
        """Write metadata and spec, only at the version seen."""
        self._count()
        try:
            self.observe(target, self.store.update(target, metadata=metadata, spec=spec))
        except NotFoundError:
            self.observe(target, None)
            raise

    def delete(self, target: Resource, *, version: str = "", grace_seconds: int | None = None) -> None:
        """Ask for the deletion of this very object; that it is gone is success."""
        self._count()
        try:
            self.store.delete(target, version=version, grace_seconds=grace_seconds)
        except NotFoundError:
            self.observe(target, None)

    def kill(self) -> None:
        """Its process ends; what it knew is gone with it."""
        self.alive = False

    def _count(self) -> None:
        self.before_write()
        self.writes += 1

    def _work(self, key: Key, due: float) -> None:
        if not self.alive or self._due.get(key) != due:
            return
        del self._due[key]
        self._last[key] = self.agenda.seconds
        self.passes[key.kind] += 1
        try:
            self._reconcilers[key.kind](self, key.name)
        except ApiError:
            self._failures[key] += 1
            self.add(key, min(_BACKOFF_SECONDS[1], _BACKOFF_SECONDS[0] * 2 ** min(self._failures[key], 12)))
        except Crash:
            self.kill()
            self.on_crash()
        else:
            self._failures.pop(key, None)

    def _resync(self) -> None:
        if not self.alive:
            return
        for model in WATCHED:
            for found in self.memory.all(model).values():
                for kind, name, _ in route(found, None, found, self.memory, self.pace):
                    self.add(Key(kind, name))
        self.agenda.after(self.pace.resync_seconds, self._resync)
