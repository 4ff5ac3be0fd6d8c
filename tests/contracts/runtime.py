"""What every runtime does. Subclass with a `runtime` and a `make_spec` fixture; commands are busybox'."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from iris_runtimes.errors import CommandNotFound, ImageInUse, ImageNotFound, SandboxNotFound, SandboxNotRunning
from iris_runtimes.execution import ExecRequest, Stream
from iris_runtimes.lifecycle import run_command
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

    async def _running(self, runtime: Runtime, make_spec: SpecMaker, name: str, **more: object) -> SandboxSpec:
        spec = make_spec(name, ["sleep", "1000"], **more)
        await runtime.pull(spec.image)
        await runtime.start(spec)
        return spec

    async def test_a_command_in_it_tells_output_and_code(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = await self._running(runtime, make_spec, "inner")
        said = await run_command(runtime, spec.id, ExecRequest(["echo", "hello", "there"]), 30)
        assert (said.exit_code, said.output, said.truncated) == (0, b"hello there\n", False)
        failed = await run_command(runtime, spec.id, ExecRequest(["sh", "-c", "exit 3"]), 30)
        assert (failed.exit_code, failed.output) == (3, b"")

    async def test_a_commands_streams_are_told_apart(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = await self._running(runtime, make_spec, "apart")
        session = await runtime.execute(spec.id, ExecRequest(["sh", "-c", "echo trouble >&2"]))
        try:
            async with asyncio.timeout(30), contextlib.aclosing(session.output()) as pieces:
                assert [(one.stream, one.data) async for one in pieces] == [(Stream.STDERR, b"trouble\n")]
            assert await session.wait() == 0
        finally:
            await session.close()

    async def test_a_command_has_the_sandboxs_environment(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = await self._running(runtime, make_spec, "heir", env=[("GREETING", "hello"), ("OTHER", "1")])
        said = await run_command(runtime, spec.id, ExecRequest(["sh", "-c", "echo $GREETING"]), 30)
        assert said.output == b"hello\n"
        own = ExecRequest(["sh", "-c", "echo $OTHER"], env=[("OTHER", "2")])
        assert (await run_command(runtime, spec.id, own, 30)).output == b"2\n"

    async def test_a_command_reads_its_input_to_the_end(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = await self._running(runtime, make_spec, "reader")
        session = await runtime.execute(spec.id, ExecRequest(["cat"], stdin=True))
        try:
            await session.write(b"one\n")
            await session.write(b"two\n")
            await session.end_input()
            async with asyncio.timeout(30), contextlib.aclosing(session.output()) as pieces:
                assert b"".join([one.data async for one in pieces]) == b"one\ntwo\n"
                assert await session.wait() == 0
        finally:
            await session.close()

    async def test_a_terminal_has_a_size_and_one_stream(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = await self._running(runtime, make_spec, "tty")
        request = ExecRequest(["stty", "size"], terminal=True, stdin=True, columns=123, rows=45)
        said = await run_command(runtime, spec.id, request, 30)
        assert said.output.split() == [b"45", b"123"]

    async def test_a_commands_timeout_ends_it(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = await self._running(runtime, make_spec, "slow")
        async with asyncio.timeout(25):
            found = await run_command(runtime, spec.id, ExecRequest(["sleep", "900"]), 0.5)
        assert found.timed_out
        assert (await runtime.get(spec.id)).state is SandboxState.RUNNING

    async def test_output_beyond_the_limit_is_dropped(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = await self._running(runtime, make_spec, "verbose")
        found = await run_command(runtime, spec.id, ExecRequest(["echo", "x" * 1000]), 30, max_output_bytes=10)
        assert (found.exit_code, found.output, found.truncated) == (0, b"x" * 10, True)

    async def test_a_missing_command_in_it(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = await self._running(runtime, make_spec, "absent")
        with pytest.raises(CommandNotFound, match="/nonexistent"):
            await runtime.execute(spec.id, ExecRequest(["/nonexistent"]))

    async def test_no_command_where_nothing_runs(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("over", ["true"])
        await runtime.pull(spec.image)
        await runtime.start(spec)
        await ended(runtime, spec.id)
        with pytest.raises(SandboxNotRunning):
            await runtime.execute(spec.id, ExecRequest(["true"]))
        with pytest.raises(SandboxNotRunning):
            await runtime.stats(spec.id)
        with pytest.raises(SandboxNotFound):
            await runtime.execute("task-never-made-1", ExecRequest(["true"]))
        with pytest.raises(SandboxNotFound):
            await runtime.stats("task-never-made-1")

    async def test_what_it_uses(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = await self._running(runtime, make_spec, "user", memory_limit_bytes=64 * 2**20)
        found = await runtime.stats(spec.id)
        async with asyncio.timeout(10):  # just started, it may still be runc's own beginning, with threads of its own
            while not found.working_set_bytes or found.pids not in (1, None):
                await asyncio.sleep(0.1)
                found = await runtime.stats(spec.id)
        assert found.cpu_seconds > 0
        assert 0 < found.working_set_bytes <= found.memory_bytes < 64 * 2**20
        assert found.memory_limit_bytes == 64 * 2**20

    async def test_images_are_listed_and_removed_when_unused(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = await self._running(runtime, make_spec, "holder")
        image = await runtime.present(spec.image)
        assert image is not None
        listed = next(one for one in await runtime.images() if one.in_use)
        assert listed.digest == image.digest
        assert listed.size_bytes > 0
        with pytest.raises(ImageInUse):
            await runtime.remove_image(spec.image)
        assert await runtime.present(spec.image) == image

    async def test_an_image_used_since_is_kept(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        spec = make_spec("recent", ["true"])
        before = datetime(2020, 1, 1, tzinfo=UTC)
        await runtime.pull(spec.image)
        with pytest.raises(ImageInUse):
            await runtime.remove_image(spec.image, unused_since=before)
        assert await runtime.present(spec.image)

    async def test_an_image_that_is_not_there(self, runtime: Runtime) -> None:
        assert await runtime.present(self.missing_image) is None
        await runtime.remove_image(self.missing_image)

    async def _find(self, runtime: Runtime, sandbox_id: str) -> Sandbox | None:
        return next((one for one in await runtime.list() if one.id == sandbox_id), None)


class InsideContract:
    """What every runtime does that has `SandboxSpec.inside`."""

    async def _outer(self, runtime: Runtime, make_spec: SpecMaker, name: str, **more: object) -> SandboxSpec:
        spec = make_spec(name, ["sleep", "1000"], **more)
        await runtime.pull(spec.image)
        await runtime.start(spec)
        return spec

    async def test_one_inside_has_its_own_end(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        outer = await self._outer(runtime, make_spec, "outer")
        for name, command, code in (("good", "true", 0), ("bad", "false", 1)):
            inner = make_spec(name, [command], inside=outer.id)
            await runtime.start(inner)
            assert (await ended(runtime, inner.id)).exit_code == code
            assert (await runtime.get(inner.id)).exit == await runtime.wait(inner.id)
            await told_of(runtime, inner.id)
        assert (await runtime.get(outer.id)).state is SandboxState.RUNNING

    async def test_one_inside_is_listed_by_its_own_labels(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        outer = await self._outer(runtime, make_spec, "house")
        inner = make_spec("guest", ["sleep", "1000"], inside=outer.id)
        first, second = await runtime.start(inner), await runtime.start(inner)
        assert first.state is second.state is SandboxState.RUNNING
        found = [one for one in await runtime.list() if one.id == inner.id]
        assert [one.labels["iris.dev/task-name"] for one in found] == ["guest"]
        assert found[0].state is SandboxState.RUNNING
        assert (await runtime.stats(inner.id)).memory_bytes > 0
        said = await run_command(runtime, inner.id, ExecRequest(["echo", "within"]), 30)
        assert said.output == b"within\n"

    async def test_one_inside_is_killed_alone(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        outer = await self._outer(runtime, make_spec, "stays")
        inner = make_spec("shot", ["sleep", "1000"], inside=outer.id)
        await runtime.start(inner)
        told = asyncio.create_task(told_of(runtime, inner.id))
        await asyncio.sleep(0.2)
        await runtime.signal(inner.id, 9, everyone=True)
        await told
        found = await ended(runtime, inner.id)
        assert (found.exit_code, found.lost, found.oom_killed) == (137, False, False)
        await runtime.signal(inner.id, 15)
        assert (await runtime.get(outer.id)).state is SandboxState.RUNNING

    async def test_one_inside_is_removed_alone_and_with_the_other(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        outer = await self._outer(runtime, make_spec, "home")
        for name in ("first", "second"):
            await runtime.start(make_spec(name, ["sleep", "1000"], inside=outer.id))
        await runtime.remove("task-first-1")
        await runtime.remove("task-first-1")
        assert sorted(one.id for one in await runtime.list()) == [outer.id, "task-second-1"]
        await runtime.remove(outer.id)
        assert await runtime.list() == []
        with pytest.raises(SandboxNotFound):
            await runtime.get("task-second-1")

    async def test_one_inside_ends_with_the_other(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        outer = await self._outer(runtime, make_spec, "ship")
        inner = make_spec("sailor", ["sleep", "1000"], inside=outer.id)
        await runtime.start(inner)
        told = asyncio.create_task(told_of(runtime, inner.id))
        await asyncio.sleep(0.2)
        await runtime.signal(outer.id, 9, everyone=True)
        await told
        assert (await ended(runtime, inner.id)).exit_code == 137
        with pytest.raises(SandboxNotRunning):
            await runtime.start(make_spec("late", ["true"], inside=outer.id))
        with pytest.raises(SandboxNotFound):
            await runtime.start(make_spec("lost", ["true"], inside="task-never-made-1"))
        assert sorted(one.id for one in await runtime.list()) == [inner.id, outer.id]

    async def test_a_missing_command_inside(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        outer = await self._outer(runtime, make_spec, "shell")
        inner = make_spec("typo", ["/nonexistent"], inside=outer.id)
        with pytest.raises(CommandNotFound, match="/nonexistent"):
            await runtime.start(inner)
        assert [one.id for one in await runtime.list()] == [outer.id]
