"""What every runtime does. Subclass with a `runtime` and a `make_spec` fixture; commands are busybox'."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from iris_runtimes.errors import CommandNotFound, ImageNotFound, SandboxNotFound
from iris_runtimes.protocol import Exit, PullPolicy, Runtime, Sandbox, SandboxSpec, SandboxState

SpecMaker = Callable[..., SandboxSpec]


async def ended(runtime: Runtime, sandbox_id: str) -> Exit:
    """How it ended, once it has."""
    async with asyncio.timeout(30):
        return await runtime.wait(sandbox_id)


async def told_of(runtime: Runtime, sandbox_id: str) -> None:
    """Wait for the exit by the event stream alone."""
    async with asyncio.timeout(30), contextlib.aclosing(runtime.events()) as events:
        async for event in events:
            if event.id == sandbox_id:
                return


class RuntimeContract:
    """The bodies."""

    image = "task"
    missing_image = "missing"
    missing_policy: PullPolicy = "IfNotPresent"

    async def test_version_answers(self, runtime: Runtime) -> None:
        assert (await runtime.version()).version

    async def test_runs_to_its_end(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("ends", ["true"])
        await runtime.pull(spec.image)
        await runtime.start(spec)
        assert (await ended(runtime, spec.id)).exit_code == 0

    async def test_tells_the_exit_code(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("fails", ["false"])
        await runtime.pull(spec.image)
        await runtime.start(spec)
        found = await ended(runtime, spec.id)
        assert (found.exit_code, found.oom_killed) == (1, False)

    async def test_waiting_for_nothing_is_an_error(self, runtime: Runtime) -> None:
        with pytest.raises(SandboxNotFound):
            await runtime.wait("task-never-made-1")

    async def test_events_tell_of_an_exit_to_come(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("ahead", ["sleep", "1000"])
        await runtime.pull(spec.image)
        await runtime.start(spec)
        told = asyncio.create_task(told_of(runtime, spec.id))
        await asyncio.sleep(0.2)
        assert not told.done()
        await runtime.signal(spec.id, 9)
        await told

    async def test_events_tell_of_an_exit_before_them(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("before", ["true"])
        await runtime.pull(spec.image)
        await runtime.start(spec)
        await ended(runtime, spec.id)
        await told_of(runtime, spec.id)

    async def test_start_is_idempotent(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("twice", ["sleep", "1000"])
        await runtime.pull(spec.image)
        first = await runtime.start(spec)
        second = await runtime.start(spec)
        assert first.state is second.state is SandboxState.RUNNING
        assert [one.id for one in await runtime.list()].count(spec.id) == 1

    async def test_an_exited_one_is_not_run_again(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("once", ["false"])
        await runtime.pull(spec.image)
        await runtime.start(spec)
        await ended(runtime, spec.id)
        again = await runtime.start(spec)
        assert again.state is SandboxState.EXITED
        assert again.exit is not None
        assert again.exit.exit_code == 1

    async def test_labels_come_back(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("labelled", ["sleep", "1000"])
        await runtime.pull(spec.image)
        await runtime.start(spec)
        found = next(one for one in await runtime.list() if one.id == spec.id)
        assert dict(found.labels)["iris.dev/task-name"] == "labelled"

    async def test_sigterm_ends_it(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("told", ["sh", "-c", "trap 'exit 143' TERM; while :; do sleep 0.05; done"])
        await runtime.pull(spec.image)
        await runtime.start(spec)
        await asyncio.sleep(0.3)
        await runtime.signal(spec.id, 15)
        assert (await ended(runtime, spec.id)).exit_code == 143

    async def test_sigkill_ends_everything(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("killed", ["sh", "-c", "trap '' TERM; sleep 1000 & wait"])
        await runtime.pull(spec.image)
        await runtime.start(spec)
        await runtime.signal(spec.id, 9, everyone=True)
        assert (await ended(runtime, spec.id)).exit_code == 137

    async def test_signal_after_the_end_is_no_error(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("late", ["true"])
        await runtime.pull(spec.image)
        await runtime.start(spec)
        await ended(runtime, spec.id)
        await runtime.signal(spec.id, 15)

    async def test_remove_kills_what_runs(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("removed", ["sleep", "1000"])
        await runtime.pull(spec.image)
        await runtime.start(spec)
        await runtime.remove(spec.id)
        assert await self._find(runtime, spec.id) is None
        with pytest.raises(SandboxNotFound):
            await runtime.get(spec.id)

    async def test_remove_twice_is_success(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        await runtime.remove("task-never-made-1")
        await runtime.remove("task-never-made-1")

    async def test_missing_image(self, runtime: Runtime) -> None:
        with pytest.raises(ImageNotFound) as caught:
            await runtime.pull(self.missing_image, self.missing_policy)
        assert caught.value.who == "user"

    async def test_missing_command(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("lost", ["/nonexistent"])
        await runtime.pull(spec.image)
        with pytest.raises(CommandNotFound) as caught:
            await runtime.start(spec)
        assert caught.value.who == "user"
        assert "/nonexistent" in str(caught.value)
        assert await self._find(runtime, spec.id) is None

    async def _find(self, runtime: Runtime, sandbox_id: str) -> Sandbox | None:
        return next((one for one in await runtime.list() if one.id == sandbox_id), None)
