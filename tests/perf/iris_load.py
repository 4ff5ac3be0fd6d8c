"""Tasks through Iris: created by the thin client, observed by a watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import TASKS
from tests.perf.observe import Observer, task_stages
from tests.perf.stats import Life
from tests.perf.target import COMMAND, LABEL, Target

CONNECTIONS = 16
STAGES = ("created", "seen", "bound", "running", "ended")
_PER_TASK_SECONDS = 3.0  # far slower than this is broken


async def burst(
    target: Target, run: str, count: int, progress: Callable[[str], None], when_ended: Callable[[], Awaitable[None]]
) -> tuple[list[Life], float]:
    """`count` Tasks at once; `when_ended` is called before they are deleted. Their lives, and the deletions' seconds."""
    observer = _observer(target, run)
    names = [f"{run}-{number}" for number in range(count)]
    gate = asyncio.Semaphore(CONNECTIONS)

    async def create(name: str) -> None:
        async with gate:
            await _create(target, observer, run, name)

    async with observer.watching():
        try:
            await asyncio.gather(*(create(name) for name in names))
            await observer.ended(count, 60 + count * _PER_TASK_SECONDS, progress)
            await when_ended()
        finally:
            began = time.monotonic()
            await _delete(target, names, gate)
            await observer.gone(60 + count * _PER_TASK_SECONDS)
    return [observer.lives[name] for name in names], time.monotonic() - began


async def one_by_one(target: Target, run: str, count: int, progress: Callable[[str], None]) -> list[Life]:
    """Each Task is created when the one before has ended."""
    observer = _observer(target, run)
    names = [f"{run}-{number}" for number in range(count)]
    async with observer.watching():
        try:
            for number, name in enumerate(names, 1):
                await _create(target, observer, run, name)
                await observer.ended(number, 60)
                progress(f"{number} of {count}")
        finally:
            await _delete(target, list(observer.lives), asyncio.Semaphore(CONNECTIONS))
            await observer.gone(60)
    return [observer.lives[name] for name in names]


def _observer(target: Target, run: str) -> Observer:
    return Observer(target.api, TASKS, target.namespace, f"{LABEL}={run}", task_stages)


async def _create(target: Target, observer: Observer, run: str, name: str) -> None:
    body = {
        "apiVersion": TASKS.api_version,
        "kind": "Task",
        "metadata": {"name": name, "labels": {LABEL: run}},
        "spec": {
            "image": target.image,
            "command": COMMAND,
            # Small enough for all to fit at once: what is measured is starting them, not waiting for room.
            "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
            "placement": {"sliceName": target.slice_name},
        },
    }
    observer.created(name)
    await target.api.create(TASKS, body, target.namespace)


async def _delete(target: Target, names: Sequence[str], gate: asyncio.Semaphore) -> None:
    async def delete(name: str) -> None:
        async with gate:
            try:
                await target.api.delete(TASKS, name, target.namespace)
            except NotFoundError:
                return  # its creation had failed

    await asyncio.gather(*(delete(name) for name in names))
