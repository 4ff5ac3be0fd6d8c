"""One leader, by a Lease in an API in memory, with clocks of the test's own."""

from __future__ import annotations

import asyncio

import pytest

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.controller import leader
from iris_operator.controller.leader import LEASE_SECONDS, Leadership
from iris_operator.ports.kube import LEASES


class Clock:
    """One for all replicas of a test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "_RENEW_SECONDS", 0.002)
    monkeypatch.setattr(leader, "_RETRY_SECONDS", 0.002)
    monkeypatch.setattr(leader, "_CALL_SECONDS", 0.5)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def api() -> FakeKube:
    return FakeKube()


def _replica(api: FakeKube, name: str, clock: Clock) -> Leadership:
    return Leadership(api, "team", name, clock=clock)


async def _soon(waiting: asyncio.Task[None], clock: Clock, seconds: float = 0) -> bool:
    """Whether it ends within so many seconds of the clock."""
    for _ in range(20):
        clock.now += seconds / 20
        await asyncio.sleep(0.003)
    return waiting.done()


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_first_leads(api: FakeKube, clock: Clock) -> None:
    first = _replica(api, "a", clock)
    await first.acquire()
    assert first.leading and first.holder == "a"
    spec = (await api.get(LEASES, "iris-operator", "team"))["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("a", LEASE_SECONDS)


async def test_the_second_waits_while_the_first_renews(api: FakeKube, clock: Clock) -> None:
    first, second = _replica(api, "a", clock), _replica(api, "b", clock)
    await first.acquire()
    keeping, waiting = asyncio.create_task(first.keep()), asyncio.create_task(second.acquire())
    assert not await _soon(waiting, clock, seconds=3 * LEASE_SECONDS)
    assert (second.leading, second.holder) == (False, "a")
    assert not keeping.done()
    await _cancel(keeping, waiting)


async def test_takes_over_from_one_that_died(api: FakeKube, clock: Clock) -> None:
    await _replica(api, "a", clock).acquire()
    second = _replica(api, "b", clock)
    waiting = asyncio.create_task(second.acquire())
    assert not await _soon(waiting, clock, seconds=LEASE_SECONDS - 0.5)
    assert await _soon(waiting, clock, seconds=2)
    assert second.leading


async def test_takes_over_at_once_from_one_that_let_go(api: FakeKube, clock: Clock) -> None:
    first, second = _replica(api, "a", clock), _replica(api, "b", clock)
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    assert not await _soon(waiting, clock)
    await first.release()
    assert await _soon(waiting, clock)


async def test_a_stale_clock_in_the_lease_does_not_matter(api: FakeKube, clock: Clock) -> None:
    """A leader whose clock is hours behind is still the leader: only that the Lease changes counts."""
    await _replica(api, "a", clock).acquire()
    old = {"spec": {"renewTime": "2000-01-01T00:00:00.000000Z"}}
    await api.patch(LEASES, "iris-operator", old, namespace="team")
    waiting = asyncio.create_task(_replica(api, "b", clock).acquire())
    assert not await _soon(waiting, clock, seconds=LEASE_SECONDS - 1)
    await _cancel(waiting)


async def test_whoever_was_overtaken_stops(api: FakeKube, clock: Clock) -> None:
    first = _replica(api, "a", clock)
    await first.acquire()
    await api.patch(LEASES, "iris-operator", {"spec": {"holderIdentity": "b"}}, namespace="team")
    await asyncio.wait_for(first.keep(), 5)
    assert (first.leading, first.holder) == (False, "b")


async def test_stops_before_its_lease_runs_out_when_the_api_is_silent(api: FakeKube, clock: Clock) -> None:
    first = _replica(api, "a", clock)
    await first.acquire()
    keeping = asyncio.create_task(first.keep())
    assert not await _soon(keeping, clock, seconds=2)
    await api.set_down(True)
    assert await _soon(keeping, clock, seconds=LEASE_SECONDS - 1.5)
    assert not first.leading


async def test_a_short_outage_does_not_cost_the_leadership(api: FakeKube, clock: Clock) -> None:
    first = _replica(api, "a", clock)
    await first.acquire()
    keeping = asyncio.create_task(first.keep())
    await api.set_down(True)
    assert not await _soon(keeping, clock, seconds=3)
    await api.set_down(False)
    assert not await _soon(keeping, clock, seconds=LEASE_SECONDS)
    assert first.leading
    await _cancel(keeping)


async def test_two_that_try_at_once(api: FakeKube, clock: Clock) -> None:
    replicas = [_replica(api, name, clock) for name in "abcd"]
    waiting = [asyncio.create_task(one.acquire()) for one in replicas]
    await _soon(waiting[0], clock)
    assert sum(one.leading for one in replicas) == 1
    await _cancel(*waiting)


async def test_releasing_what_another_holds_changes_nothing(api: FakeKube, clock: Clock) -> None:
    await _replica(api, "a", clock).acquire()
    await _replica(api, "b", clock).release()
    assert (await api.get(LEASES, "iris-operator", "team"))["spec"]["holderIdentity"] == "a"


async def test_a_release_does_not_take_the_lease_from_another(api: FakeKube, clock: Clock) -> None:
    first = _replica(api, "a", clock)
    await first.acquire()
    taken = {"spec": {"holderIdentity": "b"}}
    await api.patch(LEASES, "iris-operator", taken, namespace="team")
    await first.release()
    assert (await api.get(LEASES, "iris-operator", "team"))["spec"]["holderIdentity"] == "b"
