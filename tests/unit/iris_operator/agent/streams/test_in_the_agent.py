"""What the streams are given by a whole agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from iris_operator.agent.streams import log_times
from iris_operator.agent.streams.log_times import read_marks
from tests.unit.iris_operator.agent.harness import Node, until


@pytest.fixture
async def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    monkeypatch.setattr(log_times, "_PAUSE_SECONDS", 0.01)
    found = Node(tmp_path)
    await found.set_up()
    yield found


async def test_the_logs_of_running_tasks_have_times(whole: Node) -> None:
    async with whole.agent():
        uid = await whole.bind(command=("sleep", "100"))
        await whole.phase("Running")
        path = whole.write_log(uid, "words\n") / "1" / "output.log"
        whole.runtime.finish(f"task-{uid}-1", 0)
        await whole.phase("Succeeded")
        await until(lambda: [one.size for one in read_marks(path)] == [6])


async def test_another_agent_notes_what_was_written_meanwhile(whole: Node) -> None:
    async with whole.agent():
        uid = await whole.bind(command=("sleep", "100"))
        await whole.phase("Running")
    path = whole.write_log(uid, "words\n") / "1" / "output.log"
    async with whole.agent():
        await until(lambda: [one.size for one in read_marks(path)] == [6])


async def test_they_see_what_runs(whole: Node) -> None:
    async with whole.agent() as agent:
        source = agent.stream_source()
        uid = await whole.bind(command=("sleep", "100"))
        await whole.phase("Running")
        [sandbox] = source.sandboxes(uid)
        assert [one.id for one in source.sandboxes(None)] == [sandbox.id] == [f"task-{uid}-1"]
        assert source.sandboxes("other") == ()
        assert (source.log_state(uid, 1), source.problem(), source.describe()["slice"]) == ("running", "", "s")
