"""A flame graph of a Task: what is run in it, and what is said when there is none."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from iris_operator.agent.streams import profiles
from iris_operator.agent.streams.profiles import why_none
from iris_runtimes.execution import ExecRequest, Output, Stream
from iris_runtimes.fake_session import FakeSession
from tests.unit.iris_operator.agent.streams.kit import UID, StreamNode

PROFILE = f"/v1/tasks/{UID}/1/profile"
SVG = b'<?xml version="1.0"?><svg/>'


class Profiler(FakeSession):
    """Takes the program, then says and ends as told."""

    out, words, code = b"py-spy> Sampling\n" + SVG, b"", 0

    def _begin(self, words: Sequence[str], env: Any) -> None:
        self.got = b""

    async def write(self, data: bytes) -> None:
        self.got += data

    async def end_input(self) -> None:
        self._out.put_nowait(Output(Stream.STDOUT, self.out))
        self._out.put_nowait(Output(Stream.STDERR, self.words))
        self.end(self.code)


@pytest.fixture
def profiler(node: StreamNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Profiler]:
    class Here(Profiler):
        pass

    (tmp_path / "py-spy").write_bytes(b"\x7fELF" + b"x" * 600_000)
    (tmp_path / "py-spy").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    real = node.runtime.execute

    async def run(sandbox_id: str, request: ExecRequest) -> FakeSession:
        await real(sandbox_id, request)
        node.runtime.sessions[-1] = Here(request, {})
        return node.runtime.sessions[-1]

    monkeypatch.setattr(node.runtime, "execute", run)
    return Here


async def test_the_picture_alone_comes_back(node: StreamNode, profiler: type[Profiler]) -> None:
    await node.start()
    async with node.session.post(f"{PROFILE}?seconds=3&threads=1") as response:
        assert (response.status, response.content_type) == (200, "image/svg+xml")
        assert await response.read() == SVG
    session = node.runtime.sessions[-1]
    assert isinstance(session, Profiler) and len(session.got) == 600_004 and session.closed
    words = " ".join(session.request.command)
    assert "--pid 1 --subprocesses --duration 3" in words and words.endswith("--threads")
    assert session.request.command[:2] == ["sh", "-c"]


@pytest.mark.parametrize(
    ("missing", "found"), [({"sh"}, "/run/iris/bin/busybox"), ({"sh", "/run/iris/bin/busybox"}, "")]
)
async def test_without_a_shell(node: StreamNode, profiler: type[Profiler], missing: set[str], found: str) -> None:
    await node.start()
    node.runtime.missing_commands = missing
    if not found:
        assert await node.refused("POST", PROFILE) == (409, "the Task's image has no shell (sh), which a profile needs")
        return
    async with node.session.post(PROFILE) as response:
        assert await response.read() == SVG
    assert node.runtime.sessions[-1].request.command[:2] == [found, "sh"]


async def test_no_picture_says_why(node: StreamNode, profiler: type[Profiler]) -> None:
    await node.start()
    profiler.out, profiler.words, profiler.code = b"", b"Error: No python processes found in process 1\n\nStack\n", 1
    assert await node.refused("POST", PROFILE) == (409, "no Python process runs in the Task")


@pytest.mark.parametrize(
    ("code", "words", "said"),
    [
        (1, "Error: Permission Denied: Try running again with elevated permissions", "kernel.yama.ptrace_scope"),
        (96, "mktemp: failed: Read-only file system\n", "can't be put into the Task's /tmp: mktemp: failed: Read-only"),
        (137, "", "ended with 137: no words"),
        (1, "py-spy> Sampling\nError: odd\n\nStack backtrace:\n 0: x", "ended with 1: Error: odd"),
    ],
)
def test_what_a_person_can_do(code: int, words: str, said: str) -> None:
    assert said in why_none(code, words)


@pytest.mark.parametrize(("query", "words"), [("kind=memory", "cpu is the only"), ("seconds=46", "seconds is '46'")])
async def test_refusals(node: StreamNode, query: str, words: str) -> None:
    await node.start()
    status, said = await node.refused("POST", f"{PROFILE}?{query}")
    assert status == 400 and words in said


async def test_an_agent_without_the_program(node: StreamNode, monkeypatch: pytest.MonkeyPatch) -> None:
    await node.start()
    monkeypatch.setattr(profiles, "PROGRAM", "nonesuch-program")
    assert (await node.refused("POST", PROFILE))[0] == 503


def test_the_script_runs_the_program_and_leaves_nothing(tmp_path: Path) -> None:
    """By a real shell: what it is given on its input is run with the words, and is gone afterwards."""
    given = b'#!/bin/sh\necho words "$@"; cat; exit 3\n'
    done = subprocess.run(
        ["sh", "-c", profiles._SCRIPT, "", "a b", "c"],
        input=given, capture_output=True, env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, b"words a b c\n"), done.stderr
    assert list(tmp_path.iterdir()) == []
