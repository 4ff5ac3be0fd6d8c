"""A cancellation waits for the thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from iris_operator.agent.inputs.threads import to_the_end


async def test_cancelled_it_ends_after_the_thread() -> None:
    begun, let, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        let.wait(10)
        done.set()

    task = asyncio.create_task(to_the_end(work))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    let.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


async def test_gives_the_result_and_the_error() -> None:
    assert await to_the_end(int, "7") == 7
    with pytest.raises(ValueError, match="seven"):
        await to_the_end(int, "seven")
