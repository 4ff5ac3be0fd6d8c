"""The Lease: renewed, honest about problems, taken over, made again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.agent.config import AgentConfig
from iris_operator.agent.metrics import Metrics
from iris_operator.agent.node import lease
from iris_operator.agent.node.lease import Heartbeat
from iris_operator.ports.kube import LEASES
from tests.unit.iris_operator.agent.build import NODE, POD, POD_UID
from tests.unit.iris_operator.agent.harness import until

CONFIG = AgentConfig(NODE, POD, "default", POD_UID, "", "s", 0, cache_dir=Path("/nowhere"))


class Beating:
    """A heartbeat that runs, with a problem that a test sets."""

    def __init__(self) -> None:
        self.api, self.metrics, self.problem = FakeKube(), Metrics(), ""
        self.heartbeat = Heartbeat(self.api, CONFIG, self.metrics, lambda: self.problem)

    @property
    def beats(self) -> int:
        return self.metrics.api_writes["patch", "leases"]

    async def annotations(self) -> dict[str, str]:
        found: dict[str, str] = (await self.api.get(LEASES, POD, "default"))["metadata"]["annotations"]
        return found

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.heartbeat.run())
        await until(lambda: self.metrics.api_writes["create", "leases"] or self.beats > 1)
        yield
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def beating(monkeypatch: pytest.MonkeyPatch) -> Beating:
    monkeypatch.setattr(lease, "_RETRY_SECONDS", (0.01, 0.02))
    return Beating()


async def test_a_problem_is_told_at_once_and_taken_back(beating: Beating) -> None:
    async with beating.run():
        assert "iris.dev/agent-problem" not in await beating.annotations()
        for problem in ("the runtime has not answered for 31s", ""):
            beats, beating.problem = beating.beats, problem
            beating.heartbeat.poke()
            await until(lambda beats=beats: beating.beats > beats)  # type: ignore[misc]
            assert (await beating.annotations()).get("iris.dev/agent-problem", "") == problem


async def test_it_is_renewed(beating: Beating, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.01)
    async with beating.run():
        first = (await beating.api.get(LEASES, POD, "default"))["spec"]["renewTime"]
        await until(lambda: beating.beats > 3)
        assert (await beating.api.get(LEASES, POD, "default"))["spec"]["renewTime"] > first


async def test_an_outage_ends_and_the_lease_is_made_again(beating: Beating, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.01)
    async with beating.run():
        await beating.api.set_down(True)
        beats = beating.beats
        await until(lambda: beating.beats > beats + 1)
        await beating.api.set_down(False)
        await beating.api.delete(LEASES, POD, "default")
        await until(lambda: beating.metrics.api_writes["create", "leases"] == 2)


async def test_a_predecessors_lease_is_taken_over(beating: Beating) -> None:
    old = {"metadata": {"name": POD}, "spec": {"holderIdentity": "an earlier Pod"}}
    await beating.api.create(LEASES, old, "default")
    beating.heartbeat.poke()
    running = asyncio.create_task(beating.heartbeat.run())
    await until(lambda: beating.beats)
    assert (await beating.api.get(LEASES, POD, "default"))["spec"]["holderIdentity"] == POD_UID
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
