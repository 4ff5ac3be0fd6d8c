"""Containers that outlive their Tasks: which is meant, what is done with what is there, and what is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from iris_operator.agent.sandbox import holds as holds_module
from iris_operator.agent.sandbox import labels
from iris_operator.agent.sandbox.holds import Holds
from iris_operator.agent.sandbox.lifetime import (
    Attach,
    ContainerUnfit,
    Launch,
    container_of,
    judge,
    launch_spec,
    setup_of,
)
from iris_operator.agent.sandbox.store import Sandboxes
from iris_operator.api.task import Task
from iris_runtimes.errors import SandboxNotFound
from iris_runtimes.fake import FakeRuntime
from iris_runtimes.hold import BUSYBOX, hold_command
from iris_runtimes.protocol import CgroupParent, Mount, Sandbox, SandboxSpec, SandboxState
from tests.builders import NOW
from tests.builders import task as task_builder
from tests.unit.iris_operator.agent.harness import Node, until

BUSY = Path("/var/cache/iris/bin/busybox")
WORKER = "uid-worker"
SETUP = ["/bin/bash", "-c", "make ready"]


def lasting(task: str = "t", **lifetime: Any) -> Task:
    found: dict[str, Any] = {"policy": "Persistent", "name": "lab", **lifetime}
    return task_builder(task, image="team/lab:1", containerLifetime=found).bound().meta(uid=f"uid-{task}").build()


def own(task: Task, digest: str = "sha256:1", worker: str = WORKER) -> SandboxSpec:
    """What the Task's sandbox would be, had it one of its own."""
    uid = task.metadata.uid
    return SandboxSpec(
        id=f"task-{uid}-1",
        image=task.spec.image,
        log_path=Path(f"/logs/{uid}/1/output.log"),
        cgroup=CgroupParent("/kubepods/pod"),
        labels={
            labels.TASK_UID: uid, labels.TASK_NAMESPACE: "team", labels.WORKER_UID: worker, labels.IMAGE_DIGEST: digest,
        },
        command=["train"],
        env=(("A", "b"),),
        memory_limit_bytes=2**26,
        mounts=(Mount("/data", "/data"),),
    )  # fmt: skip


def there(task: Task, state: SandboxState = SandboxState.RUNNING, more: dict[str, str] | None = None) -> Sandbox:
    made = launch_spec(task, own(task), BUSY, with_setup=False)
    return Sandbox(made.id, {**made.labels, **(more or {})}, state)


def test_it_is_one_per_namespace_and_name() -> None:
    assert container_of(lasting("a")) == container_of(lasting("b")) == "hold-team-lab"
    assert container_of(lasting("a", policy="NoLaunch")) == "hold-team-lab"
    assert (
        len(container_of(task_builder("t", containerLifetime={"policy": "Persistent", "name": "x" * 40}).build())) < 65
    )


def test_the_container_is_the_tasks_but_for_its_command() -> None:
    made = launch_spec(lasting(), own(lasting()), BUSY, with_setup=True)
    assert list(made.command) == hold_command() and not made.args
    assert made.memory_limit_bytes == 2**26 and made.env == ()
    assert Mount("/data", "/data") in made.mounts and Mount(str(BUSY), BUSYBOX, read_only=True) in made.mounts
    assert labels.TASK_UID not in made.labels, "it is no Task's"
    assert made.log_path != own(lasting()).log_path


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (None, Launch()),
        (there(lasting(), SandboxState.EXITED), Launch(remains=True)),
        (there(lasting(), SandboxState.CREATED), Launch(remains=True)),
        (there(lasting(), more={labels.WORKER_UID: "another"}), Launch(remains=True)),
        (there(lasting()), Attach()),
    ],
)
def test_attach_or_launch(found: Sandbox | None, wanted: Attach | Launch) -> None:
    assert judge(lasting(), found, "sha256:1", WORKER, "n1") == wanted


def test_a_tag_that_moved_is_a_warning() -> None:
    verdict = judge(lasting(), there(lasting()), "sha256:2", WORKER, "n1")
    assert isinstance(verdict, Attach)
    assert verdict.warning == ("container lab runs team/lab:1 as sha256:1; the tag means sha256:2 on node n1 by now")


@pytest.mark.parametrize(
    ("task", "found", "digest", "reason", "words"),
    [
        (lasting(policy="NoLaunch"), None, "sha256:1", "ContainerNotRunning", "policy Persistent and name lab"),
        (lasting(policy="NoLaunch"), there(lasting(), SandboxState.EXITED), "sha256:1", "ContainerNotRunning", "n1"),
        (lasting(), there(lasting(), more={labels.IMAGE_DIGEST: ""}), "sha256:1", "ContainerImageUnknown", "its image"),
        (lasting(), there(lasting()), "", "ContainerImageUnknown", "the Task's image"),
        (
            lasting(), there(lasting(), more={"iris.dev/image": "team/lab:0"}), "sha256:1", "ContainerImageMismatch",
            "runs image team/lab:0, the Task names team/lab:1",
        ),
    ],
)  # fmt: skip
def test_unfit(task: Task, found: Sandbox | None, digest: str, reason: str, words: str) -> None:
    with pytest.raises(ContainerUnfit, match=words) as raised:
        judge(task, found, digest, WORKER, "n1")
    assert (raised.value.reason, raised.value.who) == (reason, "user")


class Fixture:
    """Holds over a fake runtime, with a clock."""

    def __init__(self) -> None:
        self.runtime = FakeRuntime()
        self.marked: list[str] = []
        self.now = NOW
        self.sandboxes = Sandboxes(self.runtime, lambda uid: None)
        self.holds = Holds(self.runtime, self.sandboxes, WORKER, "n1", self.marked.append, self._now)

    def _now(self) -> datetime:
        return self.now

    async def enter(self, task: Task, setup: list[str] | None = None) -> SandboxSpec | None:
        return await self.holds.enter(task, own(task), BUSY, setup or [])

    async def run_in(self, task: Task, setup: list[str] | None = None) -> Sandbox:
        spec = await self.enter(task, setup)
        assert spec is not None
        started = await self.runtime.start(spec)
        self.sandboxes.put(started)
        return started


@pytest.fixture
async def world() -> AsyncIterator[Fixture]:
    made = Fixture()
    yield made
    await made.holds.close()


async def test_the_second_task_runs_in_the_firsts_container(world: Fixture) -> None:
    first = await world.run_in(lasting("a"))
    second = await world.run_in(lasting("b"))
    assert world.runtime.started == ["hold-team-lab", first.id, second.id]
    spec = world.runtime.specs[second.id]
    assert (spec.inside, list(spec.command), spec.env, spec.mounts) == ("hold-team-lab", ["train"], (("A", "b"),), ())
    world.runtime.finish(first.id)
    await world.runtime.remove(first.id)
    assert (await world.runtime.get("hold-team-lab")).state is SandboxState.RUNNING


async def test_two_at_once_make_one_container(world: Fixture) -> None:
    await asyncio.gather(world.enter(lasting("a")), world.enter(lasting("b")))
    assert world.runtime.started == ["hold-team-lab"]


async def test_a_fresh_one_is_set_up_once_and_before_any_task(world: Fixture) -> None:
    assert await world.enter(lasting("a"), SETUP) is None
    assert await world.enter(lasting("b"), SETUP) is None
    setup = setup_of("hold-team-lab")
    assert world.runtime.started == ["hold-team-lab", setup]
    assert list(world.runtime.specs[setup].command) == SETUP
    assert world.runtime.specs[setup].log_path == own(lasting("a")).log_path, "its output is for who brought it"
    world.runtime.finish(setup)
    async with asyncio.timeout(5):
        while sorted(world.marked) != ["uid-a", "uid-b"]:
            await asyncio.sleep(0.01)
    assert await world.enter(lasting("b"), SETUP) is not None
    assert await world.enter(lasting("c")) is not None
    assert world.runtime.started.count(setup) == 1


async def test_a_set_up_that_fails_is_the_users_and_the_next_begins_afresh(world: Fixture) -> None:
    assert await world.enter(lasting("a"), SETUP) is None
    world.runtime.finish(setup_of("hold-team-lab"), 4)
    with pytest.raises(ContainerUnfit, match="set-up script of container lab exited with 4 on node n1") as raised:
        await world.enter(lasting("a"), SETUP)
    assert raised.value.reason == "SetupFailed"
    assert not world.runtime.sandboxes
    assert await world.enter(lasting("b"), SETUP) is None


async def test_one_whose_set_up_never_began_is_set_up_or_made_anew(world: Fixture) -> None:
    """As after a kill between the two starts."""
    made = launch_spec(lasting("a"), own(lasting("a")), BUSY, with_setup=True)
    await world.runtime.start(made)
    with pytest.raises(SandboxNotFound):
        await world.enter(lasting("b"))
    assert await world.enter(lasting("b")) is not None
    await world.runtime.remove(made.id)
    await world.runtime.start(made)
    assert await world.enter(lasting("a"), SETUP) is None


async def test_an_earlier_workers_goes_and_ours_stays(world: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holds_module, "_LOOK_SECONDS", 0.01)
    old, new = lasting("a", name="old"), lasting("b")
    await world.runtime.start(launch_spec(old, own(old, worker="earlier"), BUSY, with_setup=False))
    await world.runtime.start(launch_spec(new, own(new), BUSY, with_setup=False))
    await world.runtime.start(replace(own(new), id="task-uid-b-1", inside="hold-team-lab"))
    running = asyncio.create_task(world.holds.run())
    async with asyncio.timeout(5):
        while "hold-team-old" in world.runtime.sandboxes:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert set(world.runtime.sandboxes) == {"hold-team-lab", "task-uid-b-1"}
    running.cancel()


async def test_an_idle_one_goes_when_it_was_to(world: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holds_module, "_LOOK_SECONDS", 0.01)
    running = asyncio.create_task(world.holds.run())
    inner = await world.run_in(lasting("a", idleSeconds=60))
    world.now += timedelta(seconds=3600)
    await asyncio.sleep(0.05)
    assert "hold-team-lab" in world.runtime.sandboxes, "a Task runs in it"
    await world.runtime.remove(inner.id)
    world.sandboxes.drop(inner.id)
    await asyncio.sleep(0.05)
    assert "hold-team-lab" in world.runtime.sandboxes, "not idle for long yet"
    world.now += timedelta(seconds=61)
    async with asyncio.timeout(5):
        while world.runtime.sandboxes:
            await asyncio.sleep(0.01)
    running.cancel()


STAYS: dict[str, Any] = {"containerLifetime": {"policy": "Persistent", "name": "lab"}, "placement": {"sliceName": "s"}}
HOLD = "hold-default-lab"


async def test_an_agent_runs_one_task_after_the_other_in_it(node: Node) -> None:
    lifetime = {**STAYS["containerLifetime"], "setupScript": {"inline": "make ready"}, "startTimeoutSeconds": 86400}
    async with node.agent():
        first = await node.bind("a", ("sleep", "1"), **{**STAYS, "containerLifetime": lifetime})
        status = await node.phase("Building", "a")
        assert (status["reason"], status["message"]) == (
            "SettingUp", "container lab is fresh: its set-up script runs",
        )  # fmt: skip
        node.runtime.finish(setup_of(HOLD))
        await node.phase("Running", "a")
        assert node.runtime.specs[f"task-{first}-1"].inside == HOLD
        node.runtime.finish(f"task-{first}-1")
        assert (await node.phase("Succeeded", "a"))["exitCode"] == 0
        await until(lambda: f"task-{first}-1" not in node.runtime.sandboxes)
        second = await node.bind("b", ("true",), **STAYS)
        await node.phase("Succeeded", "b")
        assert node.runtime.specs[f"task-{second}-1"].inside == HOLD
    assert node.runtime.started.count(HOLD) == node.runtime.started.count(setup_of(HOLD)) == 1


async def test_a_new_agent_finds_the_task_in_its_container(node: Node) -> None:
    async with node.agent():
        uid = await node.bind("a", ("sleep", "1"), **STAYS)
        await node.phase("Running", "a")
    async with node.agent():
        node.runtime.finish(f"task-{uid}-1", 3)
        status = await node.phase("Failed", "a")
    assert (status["exitCode"], status["attempt"]) == (3, 1)
    assert node.runtime.started == [HOLD, f"task-{uid}-1"]


async def test_a_container_that_must_be_there_and_is_not(node: Node) -> None:
    async with node.agent():
        await node.bind("a", **{**STAYS, "containerLifetime": {"policy": "NoLaunch", "name": "lab"}})
        status = await node.phase("Failed", "a")
    assert status["reason"] == "ContainerNotRunning"
    assert not node.runtime.started


async def test_the_container_dies_under_its_task(node: Node) -> None:
    """Nobody's command ended: the platform's, and the next attempt makes another."""
    async with node.agent():
        uid = await node.bind("a", ("sleep", "1"), **STAYS)
        await node.phase("Running", "a")
        node.runtime.finish(HOLD, 137, lost=True)
        status = await node.over(1, "a")
        assert status["attempts"][0]["cause"] == "Infrastructure"
        assert f"task-{uid}-1" not in node.runtime.sandboxes
