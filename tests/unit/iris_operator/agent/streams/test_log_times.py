"""Marks beside a log that grows: real files, the kernel's word."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from iris_operator.agent.sandbox.inotify import Inotify
from iris_operator.agent.streams import log_times
from iris_operator.agent.streams.log_times import LogTimes, read_marks, times_path
from iris_operator.agent.streams.marks import Mark


@pytest.fixture
async def times(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LogTimes]:
    monkeypatch.setattr(log_times, "_PAUSE_SECONDS", 0.01)
    found = LogTimes()
    running = asyncio.create_task(found.run())
    yield found
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def until(look: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not look():
            await asyncio.sleep(0.005)


def sizes(path: Path) -> list[int]:
    return [mark.size for mark in read_marks(path)]


async def test_growth_is_noted_with_the_time_of_the_last_write(tmp_path: Path, times: LogTimes) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"12345")
    os.utime(path, (1000, 1000))
    times.look("uid", [path])
    await until(lambda: read_marks(path) == [Mark(1000, 5)])
    with path.open("ab") as file:
        file.write(b"678")
    await until(lambda: sizes(path) == [5, 8])
    assert read_marks(path)[1].at == pytest.approx(path.stat().st_mtime)


async def test_the_last_bytes_are_noted_when_it_is_over(tmp_path: Path, times: LogTimes) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"")
    times.look("uid", [path])
    path.write_bytes(b"abc")
    times.look("uid", [])
    await until(lambda: sizes(path) == [3])
    path.write_bytes(b"abcdef")  # nobody watches any more
    await asyncio.sleep(0.1)
    assert sizes(path) == [3]


async def test_another_agent_goes_on_where_the_last_one_was(tmp_path: Path, times: LogTimes) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"abcdef")
    times_path(path).write_bytes(Mark(1, 4).pack())
    times.look("uid", [path])
    await until(lambda: sizes(path) == [4, 6])


async def test_a_log_that_goes_takes_its_marks_along(tmp_path: Path, times: LogTimes) -> None:
    path = tmp_path / "x" / "output.log"
    path.parent.mkdir()
    path.write_bytes(b"abc")
    times.look("uid", [path])
    await until(lambda: sizes(path) == [3])
    for one in path.parent.iterdir():
        one.unlink()
    path.parent.rmdir()
    times.look("uid", [])
    other = tmp_path / "other.log"
    other.write_bytes(b"x")
    times.look("other", [other])
    await until(lambda: sizes(other) == [1])
    assert not path.parent.exists()


async def test_marks_are_bounded(tmp_path: Path, times: LogTimes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_times, "_MOST_MARKS", 8)
    path = tmp_path / "output.log"
    path.write_bytes(b"x" * 9)
    times_path(path).write_bytes(b"".join(Mark(at, at).pack() for at in range(1, 8)))
    times.look("uid", [path])
    await until(lambda: sizes(path)[-1:] == [9])
    await until(lambda: sizes(path) == [2, 4, 5, 6, 7, 9])


async def test_two_watch_one_file_and_one_calls_it_off(tmp_path: Path) -> None:
    path, heard = tmp_path / "f", list[str]()
    path.write_bytes(b"")
    notify = Inotify()
    notify.watch(path, lambda: heard.append("a"))
    call_off = notify.watch(path, lambda: heard.append("b"))
    call_off()
    path.write_bytes(b"1")
    await until(lambda: heard == ["a"])
    path.write_bytes(b"2")  # one call for each watch
    await asyncio.sleep(0.05)
    assert heard == ["a"]
    notify.watch(path, lambda: heard.append("c"))
    path.write_bytes(b"3")
    await until(lambda: heard == ["a", "c"])
    with pytest.raises(FileNotFoundError):
        notify.watch(tmp_path / "absent", lambda: None)
    notify.close()
