"""A watch that notes when each object was first seen in each stage of its life."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from iris_operator.adapters.kube.informer import Informer
from iris_operator.ports.kube import Body, Kind, KubeApi
from tests.perf.stats import Life

Stages = Callable[[Mapping[str, Any]], Iterable[str]]
"""The stages an object has reached, by what its body says. `ended` is the last."""

_ENDED = ("Succeeded", "Failed", "Killed", "WorkerLost")


class Unmeasured(Exception):
    """Something could not be measured; the message says what and what to look at."""


def task_stages(task: Mapping[str, Any]) -> Iterable[str]:
    """A Task's: bound, building, running, ended."""
    phase = (task.get("status") or {}).get("phase", "")
    yield "seen"
    if task["spec"].get("binding"):
        yield "bound"
    if phase == "Building":
        yield "building"
    yield from _run_stages(phase)


def pod_stages(pod: Mapping[str, Any]) -> Iterable[str]:
    """A Pod's: bound, running, ended. A short command's Pod may go straight to its end: then both come at once."""
    yield "seen"
    if pod["spec"].get("nodeName"):
        yield "bound"
    yield from _run_stages((pod.get("status") or {}).get("phase", ""))


def _run_stages(phase: str) -> Iterable[str]:
    if phase == "Running" or phase in _ENDED:
        yield "running"
    if phase in _ENDED:
        yield "ended"


class Observer:
    """Lives of the objects under one label, by name."""

    def __init__(self, api: KubeApi, kind: Kind, namespace: str, labels: str, stages: Stages) -> None:
        self.lives: dict[str, Life] = {}
        self.present: set[str] = set()
        self._what = kind.plural
        self._stages = stages
        self._changed = asyncio.Event()
        self._informer = Informer(api, kind, namespace, self._note, labels=labels)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch while the block runs."""
        running = asyncio.create_task(self._informer.run())
        try:
            await asyncio.wait_for(self._informer.synced.wait(), 30)
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def created(self, name: str) -> None:
        """Its creation is asked for now."""
        self._life(name).stages["created"] = time.monotonic()

    async def ended(self, count: int, timeout_seconds: float, progress: Callable[[str], None] = lambda _: None) -> None:
        """Wait until that many have ended. Unmeasured when they don't, or when one fails."""

        def number() -> int:
            return sum("ended" in life.stages for life in self.lives.values())

        await self._until(lambda: number() >= count, timeout_seconds, lambda: f"{number()} of {count} ended", progress)
        failed = {name: life.outcome for name, life in self.lives.items() if not life.outcome.startswith("Succeeded")}
        if failed:
            name, outcome = next(iter(failed.items()))
            raise Unmeasured(f"{len(failed)} of {count} {self._what} did not succeed: {name} is {outcome}")

    async def gone(self, timeout_seconds: float) -> None:
        """Wait until all are deleted."""
        await self._until(
            lambda: not self.present, timeout_seconds, lambda: f"{len(self.present)} left", lambda _: None
        )

    async def _until(
        self,
        done: Callable[[], bool],
        timeout_seconds: float,
        state: Callable[[], str],
        progress: Callable[[str], None],
    ) -> None:
        try:
            async with asyncio.timeout(timeout_seconds):
                while not done():
                    self._changed.clear()
                    await self._changed.wait()
                    progress(state())
        except TimeoutError:
            raise Unmeasured(f"{self._what}: {state()} after {timeout_seconds:.0f} s") from None

    def _life(self, name: str) -> Life:
        return self.lives.setdefault(name, Life())

    def _note(self, body: Body, gone: bool) -> None:
        now, name = time.monotonic(), body["metadata"]["name"]
        life = self._life(name)
        for stage in self._stages(body):
            life.stages.setdefault(stage, now)
        status = body.get("status") or {}
        life.outcome = ": ".join(status[part] for part in ("phase", "reason", "message") if status.get(part))
        (self.present.discard if gone else self.present.add)(name)
        self._changed.set()
