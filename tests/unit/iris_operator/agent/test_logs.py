"""The log files, and the HTTP API beside them (on a unix socket: unit tests have no others)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from iris_operator.agent.logs.files import drop_logs, read_chunk, stored_uids, tail_offset
from iris_operator.agent.logs.state import log_state
from iris_operator.agent.server import LogState, agent_app
from tests.unit.iris_operator.agent.build import NOW, binding, sandbox, task

UID = "6dad5bce-aaa1-4e3e-be79-27a1842a2106"


class Server:
    """An agent's HTTP API whose problem a test sets."""

    def __init__(self) -> None:
        self.problem = ""
        self.session: aiohttp.ClientSession | None = None

    async def get(self, path: str) -> tuple[int, str]:
        assert self.session is not None
        async with self.session.get(f"http://agent{path}") as response:
            return response.status, await response.text()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    found = Server()
    app = agent_app(lambda: found.problem, lambda: {"node": "n"}, lambda: "m 1\n")
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "s")).start()
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(tmp_path / "s"))) as session:
        found.session = session
        yield found
    await runner.cleanup()


async def test_health_says_the_problem(server: Server) -> None:
    assert (await server.get("/health"))[0] == 200
    server.problem = "the runtime is away"
    status, text = await server.get("/health")
    assert status == 503
    assert "the runtime is away" in text
    assert (await server.get("/live"))[0] == 200  # a restart would not mend it
    assert (await server.get("/metrics"))[1] == "m 1\n"


async def test_it_gives_no_log_to_whoever_asks(server: Server) -> None:
    for path in (f"/v1/logs/{UID}/1", f"/v1/tasks/{UID}/1/log"):
        assert (await server.get(path))[0] == 404


@pytest.mark.parametrize(
    ("text", "lines", "tail"),
    [
        ("", 3, ""), ("a", 1, "a"), ("a\n", 1, "a\n"), ("a\nb", 1, "b"), ("a\nb\n", 1, "b\n"), ("a\nb\n", 2, "a\nb\n"),
        ("a\nb\n", 9, "a\nb\n"), ("a\n\n\n", 2, "\n\n"), ("a\nb\n", 0, ""), ("x" * 200_000 + "\ny\n", 1, "y\n"),
        ("y\n" + "x" * 200_000 + "\n", 1, "x" * 200_000 + "\n"), ("a\n" + "x\n" * 100_000, 100_000, "x\n" * 100_000),
    ],
)  # fmt: skip
def test_tail(tmp_path: Path, text: str, lines: int, tail: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    assert read_chunk(path, tail_offset(path, lines), 10**6).decode() == tail


def test_logs_of_a_task_are_dropped_whole(tmp_path: Path) -> None:
    (tmp_path / UID / "1").mkdir(parents=True)
    (tmp_path / "not a uid").mkdir()
    assert stored_uids(tmp_path) == [UID]
    drop_logs(tmp_path, UID)
    drop_logs(tmp_path, UID)
    drop_logs(tmp_path, "..")
    assert tmp_path.is_dir()
    assert stored_uids(tmp_path) == []
    assert stored_uids(tmp_path / "absent") == []


STARTED = {"phase": "Running", "attempt": 1, "startTime": "2026-11-21T12:00:00Z"}
STATES: dict[str, tuple[LogState, LogState]] = {
    "not started": (log_state(task(), (), "uid-t", 1, NOW), "waiting"),
    "runs": (log_state(task(), (sandbox(),), "uid-t", 1, NOW), "running"),
    "exited just now": (log_state(task(), (sandbox(code=0),), "uid-t", 1, NOW), "running"),
    "exited long ago": (log_state(task(), (sandbox(code=0),), "uid-t", 1, NOW + timedelta(seconds=3)), "ended"),
    "removed": (log_state(task(STARTED), (), "uid-t", 1, NOW), "ended"),
    "never started": (log_state(task({"phase": "Failed", "attempt": 1}), (), "uid-t", 1, NOW), "ended"),
    "an earlier attempt": (log_state(task(bound=binding(attempt=2)), (), "uid-t", 1, NOW), "ended"),
    "gone": (log_state(None, (), "uid-t", 1, NOW), "unknown"),
}


@pytest.mark.parametrize("name", STATES)
def test_log_state(name: str) -> None:
    found, wanted = STATES[name]
    assert found == wanted
