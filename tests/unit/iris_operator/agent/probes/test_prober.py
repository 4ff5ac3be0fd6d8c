"""The loop that asks: on a clock of the test's own, with answers written down beforehand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from iris_operator.agent.probes import prober
from iris_operator.agent.probes.ask import Address, Asker
from iris_operator.agent.probes.prober import Prober, Target
from iris_operator.agent.probes.verdict import Answer, Health
from iris_operator.api.probe import Probe
from iris_operator.api.task import Task
from iris_runtimes.fake import FakeRuntime
from iris_runtimes.protocol import CgroupParent, SandboxSpec
from tests.unit.iris_operator.agent.build import NOW, task

NEVER = Path("/nowhere/log")
PORT = {"startup": 1, "liveness": 2, "readiness": 3}


class Script:
    """Answers by the probe's port; `hang` are never answered, `away` can't be asked."""

    def __init__(self) -> None:
        self.answers: dict[int, list[bool]] = {}
        self.asked: list[tuple[str, int]] = []
        self.hang: set[int] = set()
        self.away = False
        self.cancelled = 0

    async def ask(self, probe: Probe, address: Address) -> Answer | None:
        assert probe.tcp_socket is not None
        port = int(probe.tcp_socket.port)
        self.asked.append((address.sandbox_id, port))
        if port in self.hang:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        left = self.answers.get(port, [])
        return None if self.away else Answer(left.pop(0) if left else True, "TCP")


class World:
    """A prober with all that it sees."""

    def __init__(self) -> None:
        self.script = Script()
        self.targets: dict[str, Target] = {}
        self.told: list[Health] = []
        self.seconds = 0.0
        self.prober = Prober(
            self.script, self.targets.get, self._tell, self._now, clock=lambda: self.seconds, chance=lambda: 0.0
        )

    def _tell(self, _task: Task, health: Health) -> None:
        self.told.append(health)

    def _now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def begin(self, uid: str = "a", **probes: dict[str, Any]) -> None:
        """A Task that runs from now on."""
        spec: Any = {f"{kind}Probe": {"tcpSocket": {"port": PORT[kind]}, **more} for kind, more in probes.items()}
        self.targets[uid] = Target(task(**spec), Address(f"task-{uid}-1", "", {}), self._now())
        self.prober.mark(uid)

    async def after(self, seconds: float) -> list[tuple[str, int]]:
        """What is asked until so much later, second by second."""
        before = len(self.script.asked)
        await self._settle()
        for _ in range(int(seconds)):
            self.seconds += 1
            self.prober.poke()
            await self._settle()
        return self.script.asked[before:]

    async def _settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        loop = asyncio.create_task(self.prober.run())
        try:
            yield
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)


async def test_each_is_asked_on_its_beat() -> None:
    world = World()
    async with world.running():
        world.begin(liveness={"periodSeconds": 3, "initialDelaySeconds": 2}, readiness={"periodSeconds": 5})
        assert await world.after(1) == [("task-a-1", 3)]
        assert await world.after(8) == [("task-a-1", port) for port in (2, 3, 2, 2)]
    assert [one.verdict.ready for one in world.told] == [True]


async def test_the_others_wait_for_the_startup_probe() -> None:
    world = World()
    world.script.answers = {1: [False, False, True]}
    async with world.running():
        world.begin(startup={"periodSeconds": 2}, liveness={"periodSeconds": 1}, readiness={"initialDelaySeconds": 9})
        assert await world.after(3) == [("task-a-1", 1)] * 2
        assert await world.after(2) == [("task-a-1", 1), ("task-a-1", 2), ("task-a-1", 2)]
        assert ("task-a-1", 3) not in world.script.asked
        assert ("task-a-1", 3) in await world.after(4)
    assert [(one.verdict.started, one.verdict.ready) for one in world.told] == [(True, None), (True, True)]


async def test_the_ill_are_told_of_once_and_asked_no_more() -> None:
    world = World()
    world.script.answers = {2: [False] * 9}
    async with world.running():
        world.begin(liveness={"periodSeconds": 1, "failureThreshold": 2}, readiness={"periodSeconds": 100})
        await world.after(5)
    assert [one.ill.reason for one in world.told if one.ill] == ["LivenessProbeFailed"]
    assert world.script.asked.count(("task-a-1", 2)) == 2


async def test_what_could_not_be_asked_says_nothing() -> None:
    world = World()
    world.script.away = True
    async with world.running():
        world.begin(liveness={"periodSeconds": 1, "failureThreshold": 1})
        await world.after(5)
        world.script.away = False
        await world.after(1)
    assert world.told == []


async def test_a_task_that_goes_is_left_at_once_in_the_midst_of_a_question() -> None:
    world = World()
    world.script.hang = {3}
    async with world.running():
        world.begin(readiness={"periodSeconds": 1})
        await world.after(0)
        del world.targets["a"]
        world.prober.mark("a")
        await world.after(5)
        assert world.prober.watched == 0
    assert world.script.cancelled == 1
    assert len(world.script.asked) == 1


async def test_another_attempt_begins_afresh() -> None:
    world = World()
    world.script.answers = {2: [False, False]}
    async with world.running():
        world.begin(liveness={"periodSeconds": 1})
        await world.after(1)
        before = world.targets["a"]
        world.targets["a"] = replace(before, address=Address("task-a-2", "", {}))
        world.prober.mark("a")
        world.script.answers = {2: [False]}
        await world.after(3)
    assert world.told == []  # three failures, but of two attempts
    assert ("task-a-2", 2) in world.script.asked


async def test_a_question_that_hangs_holds_up_nobody_else() -> None:
    world = World()
    world.script.hang = {2}
    async with world.running():
        world.begin("a", liveness={"periodSeconds": 1})
        world.begin("b", readiness={"periodSeconds": 1})
        await world.after(3)
    assert world.script.asked.count(("task-a-1", 2)) == 1
    assert world.script.asked.count(("task-b-1", 3)) == 4


async def test_so_many_are_asked_at_once_and_no_more() -> None:
    world = World()
    world.script.hang = {2}
    async with world.running():
        for number in range(50):
            world.begin(f"{number}", liveness={})
        await world.after(2)
        assert len(world.script.asked) == 32
        for number in range(10):
            del world.targets[f"{number}"]
            world.prober.mark(f"{number}")
        await world.after(1)
        assert len(world.script.asked) == 42
    assert world.script.cancelled == 42


async def test_those_that_hang_for_long_make_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prober, "_COUNTS_SECONDS", 0.05)
    world = World()
    world.script.hang = {2}
    async with world.running():
        for number in range(40):
            world.begin(f"{number}", liveness={})
        world.begin("last", readiness={})
        await world.after(0)
        assert ("task-last-1", 3) not in world.script.asked
        await asyncio.sleep(0.1)
        await world.after(1)
        assert ("task-last-1", 3) in world.script.asked


async def test_a_bug_costs_one_answer(caplog: Any) -> None:
    world = World()

    async def broken(probe: Probe, address: Address) -> Answer | None:
        raise KeyError("bug")

    good, world.script.ask = world.script.ask, broken  # type: ignore[method-assign]
    async with world.running():
        world.begin(readiness={"periodSeconds": 1})
        await world.after(1)
        world.script.ask = good  # type: ignore[method-assign]
        await world.after(1)
    assert [one.verdict.ready for one in world.told] == [True]
    assert "KeyError" in caplog.text


async def asked_of_a_command(*command: str, timeout: int = 1) -> Answer | None:
    """What an exec probe answers in a sandbox of the fake runtime."""
    runtime = FakeRuntime()
    await runtime.start(SandboxSpec("s", "i", log_path=NEVER, cgroup=CgroupParent("/x"), command=("sleep", "9")))
    probe = Probe.model_validate({"exec": {"command": command}, "timeoutSeconds": timeout})
    answer = await Asker(runtime).ask(probe, Address("s", "", {}))
    assert all(one.closed for one in runtime.sessions)
    assert command[0] != "sleep" or runtime.sessions[0].killed
    return answer


async def test_commands() -> None:
    assert await asked_of_a_command("true") == Answer(True, "`true` exit code 0")
    assert await asked_of_a_command("sh", "-c", "echo not yet") == Answer(
        True, "`sh -c 'echo not yet'` exit code 0: not yet"
    )
    assert await asked_of_a_command("sh", "-c", "exit 3") == Answer(False, "`sh -c 'exit 3'` exit code 3")
    assert await asked_of_a_command("sleep", "99") == Answer(False, "`sleep 99` took longer than 1s and was killed")
    missing = await asked_of_a_command("/nonexistent")
    assert missing is not None
    assert not missing.ok
    assert "/nonexistent is not in the image" in missing.words


async def test_a_sandbox_that_has_just_ended_says_nothing_of_the_probe() -> None:
    runtime = FakeRuntime()
    probe = Probe.model_validate({"exec": {"command": ["true"]}})
    assert await Asker(runtime).ask(probe, Address("gone", "", {})) is None
    await runtime.start(SandboxSpec("s", "i", log_path=NEVER, cgroup=CgroupParent("/x"), command=("true",)))
    assert await Asker(runtime).ask(probe, Address("s", "", {})) is None
