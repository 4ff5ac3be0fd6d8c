"""The work queue, with a clock of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from iris_operator.controller.workqueue import Key, WorkQueue

A, B = Key("slice", "team/a"), Key("slice", "team/b")


class Clock:
    """Stands still until told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def queue(clock: Clock) -> AsyncIterator[WorkQueue]:
    """Its delays are released when `pass_time` nudges it."""
    made = WorkQueue(clock)
    delays = asyncio.create_task(made.run_delays())
    yield made
    delays.cancel()
    with suppress(asyncio.CancelledError):
        await delays


async def _pass_time(queue: WorkQueue, clock: Clock, seconds: float) -> None:
    clock.now += seconds
    queue.add_after(Key("nudge", str(clock.now)), 10**9)  # has it look at the clock
    for _ in range(5):
        await asyncio.sleep(0)


async def _ready(queue: WorkQueue) -> list[Key]:
    found = []
    while len(queue):
        found.append(await queue.get())
        queue.done(found[-1])
    return found


async def test_first_in_first_out(queue: WorkQueue) -> None:
    queue.add(B)
    queue.add(A)
    assert await _ready(queue) == [B, A]


async def test_a_key_is_queued_once(queue: WorkQueue) -> None:
    queue.add(A)
    queue.add(A)
    assert await _ready(queue) == [A]


async def test_added_while_worked_on_it_comes_once_more_after(queue: WorkQueue) -> None:
    queue.add(A)
    taken = await queue.get()
    queue.add(A)
    queue.add(A)
    assert len(queue) == 0
    queue.done(taken)
    assert await _ready(queue) == [A]


async def test_later(queue: WorkQueue, clock: Clock) -> None:
    queue.add_after(A, 10)
    await _pass_time(queue, clock, 9.9)
    assert len(queue) == 0
    await _pass_time(queue, clock, 0.1)
    assert await _ready(queue) == [A]


async def test_the_sooner_time_wins(queue: WorkQueue, clock: Clock) -> None:
    queue.add_after(A, 10)
    queue.add_after(A, 2)
    queue.add_after(A, 5)
    await _pass_time(queue, clock, 2)
    assert await _ready(queue) == [A]
    await _pass_time(queue, clock, 20)
    assert await _ready(queue) == []


async def test_added_at_once_it_does_not_come_again_later(queue: WorkQueue, clock: Clock) -> None:
    queue.add_after(A, 5)
    queue.add(A)
    assert await _ready(queue) == [A]
    await _pass_time(queue, clock, 9)
    assert await _ready(queue) == []


async def test_asked_for_later_while_queued_changes_nothing(queue: WorkQueue, clock: Clock) -> None:
    queue.add(A)
    queue.add_after(A, 5)
    assert await _ready(queue) == [A]
    await _pass_time(queue, clock, 9)
    assert await _ready(queue) == []


async def test_asked_for_later_while_worked_on(queue: WorkQueue, clock: Clock) -> None:
    queue.add(A)
    taken = await queue.get()
    queue.add_after(A, 5)
    queue.done(taken)
    assert len(queue) == 0
    await _pass_time(queue, clock, 5)
    assert await _ready(queue) == [A]


async def test_several_in_the_order_of_their_times(queue: WorkQueue, clock: Clock) -> None:
    queue.add_after(A, 3)
    queue.add_after(B, 1)
    await _pass_time(queue, clock, 5)
    assert await _ready(queue) == [B, A]


async def test_a_worker_that_waits_is_woken(queue: WorkQueue) -> None:
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add(A)
    assert await asyncio.wait_for(waiting, 1) == A


async def test_one_key_is_never_worked_on_twice_at_once(queue: WorkQueue) -> None:
    working: set[Key] = set()
    done = 0

    async def work() -> None:
        nonlocal done
        while True:
            key = await queue.get()
            assert key not in working
            working.add(key)
            await asyncio.sleep(0)
            working.discard(key)
            done += 1
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(4)]
    for number in range(50):
        queue.add(A if number % 3 else B)
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert all(not one.done() for one in workers)
    assert done >= 2
    for one in workers:
        one.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
