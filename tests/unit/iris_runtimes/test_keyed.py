from __future__ import annotations

import asyncio

import pytest

from iris_runtimes.keyed import KeyedOperations


class Steps:
    """Operations that end when told, and write down their doings."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.go = asyncio.Event()

    async def slow(self, name: str) -> str:
        await self.go.wait()
        self.done.append(name)
        return name

    async def quick(self, name: str) -> str:
        self.done.append(name)
        return name

    async def failing(self) -> str:
        raise ValueError("no")


@pytest.fixture
def steps() -> Steps:
    return Steps()


async def test_one_after_the_other(steps: Steps) -> None:
    operations = KeyedOperations()
    first = asyncio.create_task(operations.run("a", steps.slow("first")))
    await asyncio.sleep(0)
    second = asyncio.create_task(operations.run("a", steps.quick("second")))
    await asyncio.sleep(0)
    assert await operations.run("b", steps.quick("other")) == "other"
    steps.go.set()
    assert list(await asyncio.gather(first, second)) == ["first", "second"]
    assert steps.done == ["other", "first", "second"]


async def test_a_callers_cancellation_does_not_cut_it_off(steps: Steps) -> None:
    operations = KeyedOperations()
    first = asyncio.create_task(operations.run("a", steps.slow("first")))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert operations.running("a")
    steps.go.set()
    assert await operations.run("a", steps.quick("second")) == "second"
    assert steps.done == ["first", "second"]
    await asyncio.sleep(0)
    assert not operations.running("a")


async def test_a_failure_does_not_hold_up_the_next(steps: Steps) -> None:
    operations = KeyedOperations()
    with pytest.raises(ValueError, match="no"):
        await operations.run("a", steps.failing())
    assert await operations.run("a", steps.quick("second")) == "second"


async def test_finish_waits_for_all(steps: Steps) -> None:
    operations = KeyedOperations()
    running = asyncio.create_task(operations.run("a", steps.slow("first")))
    await asyncio.sleep(0)
    finishing = asyncio.create_task(operations.finish())
    await asyncio.sleep(0)
    assert not finishing.done()
    steps.go.set()
    await finishing
    assert await running == "first"
