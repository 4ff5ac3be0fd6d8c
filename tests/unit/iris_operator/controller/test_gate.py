"""What passes the gate, and what its closing promises."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.controller.gate import ClosedError, WriteGate
from iris_operator.ports.errors import NotFoundError, UnavailableError
from iris_operator.ports.kube import LEASES, Body, Kind

_BODY = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "one"}}


class SlowKube(FakeKube):
    """Creates take until `answer` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = asyncio.Event()
        self.error: Exception | None = None

    async def create(self, kind: Kind, body: Body, namespace: str | None = None) -> dict[str, Any]:
        await self.answer.wait()
        if self.error:
            raise self.error
        return await super().create(kind, body, namespace)


@pytest.fixture
def api() -> SlowKube:
    return SlowKube()


async def _under_way(gate: WriteGate) -> asyncio.Task[dict[str, Any]]:
    task = asyncio.create_task(gate.create(LEASES, _BODY, "team"))
    await asyncio.sleep(0)
    return task


async def test_open_it_hands_everything_on(api: SlowKube) -> None:
    gate = WriteGate(api)
    api.answer.set()
    await gate.create(LEASES, _BODY, "team")
    await gate.patch(LEASES, "one", {"spec": {"holderIdentity": "me"}}, namespace="team")
    assert (await gate.get(LEASES, "one", "team"))["spec"]["holderIdentity"] == "me"
    await gate.delete(LEASES, "one", "team")
    assert (await gate.list(LEASES, "team")).items == []


async def test_closed_it_lets_reads_through_and_no_write(api: SlowKube) -> None:
    gate = WriteGate(api)
    assert await gate.close(1)
    for write in (
        gate.create(LEASES, _BODY, "team"),
        gate.apply(LEASES, _BODY, manager="me", namespace="team"),
        gate.patch(LEASES, "one", {}, namespace="team"),
        gate.delete(LEASES, "one", "team"),
    ):
        with pytest.raises(ClosedError):
            await write
    assert api.writes == []
    with pytest.raises(NotFoundError):
        await gate.get(LEASES, "one", "team")


async def test_closing_waits_for_what_is_under_way(api: SlowKube) -> None:
    gate = WriteGate(api)
    writes = [await _under_way(gate) for _ in range(2)]
    closing = asyncio.create_task(gate.close(5))
    await asyncio.sleep(0.01)
    assert not closing.done()
    api.answer.set()
    assert await closing
    assert all(one.done() for one in writes)
    await asyncio.gather(*writes, return_exceptions=True)


async def test_a_write_that_hangs_leaves_it_uncertain(api: SlowKube) -> None:
    gate = WriteGate(api)
    write = await _under_way(gate)
    assert not await gate.close(0.01)
    write.cancel()
    await asyncio.gather(write, return_exceptions=True)


async def test_a_write_that_was_cut_off_leaves_it_uncertain(api: SlowKube) -> None:
    gate = WriteGate(api)
    write = await _under_way(gate)
    write.cancel()
    await asyncio.gather(write, return_exceptions=True)
    assert not await gate.close(1)


@pytest.mark.parametrize(("status", "certain"), [(0, False), (503, True)])
async def test_a_write_without_an_answer_leaves_it_uncertain(api: SlowKube, status: int, certain: bool) -> None:
    gate = WriteGate(api)
    api.error = UnavailableError(status, "Unreachable", "connection lost")
    write = await _under_way(gate)
    closing = asyncio.create_task(gate.close(5))
    await asyncio.sleep(0.01)
    api.answer.set()
    assert await closing is certain
    await asyncio.gather(write, return_exceptions=True)
