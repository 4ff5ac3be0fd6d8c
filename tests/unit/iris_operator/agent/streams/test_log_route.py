"""One attempt's log over HTTP."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from iris_operator.agent.logs.bounds import drop_oldest
from iris_operator.agent.streams.log_times import times_path
from iris_operator.agent.streams.marks import Mark, stamp
from tests.unit.iris_operator.agent.streams.kit import UID, StreamNode

LOG = f"/v1/tasks/{UID}/1/log"


async def test_a_log_and_its_end(node: StreamNode) -> None:
    node.write(b"a\nb\nc\n")
    assert await node.get(LOG) == (200, b"a\nb\nc\n")
    assert await node.get(f"{LOG}?tail=2") == (200, b"b\nc\n")
    assert await node.get(f"{LOG}?sinceBytes=2") == (200, b"b\nc\n")
    assert await node.get(f"{LOG}?sinceBytes=2&tail=3") == (200, b"b\nc\n")
    async with node.session.get(f"{LOG}?tail=1") as response:
        assert response.headers["Iris-Log-Offset"] == "4"


async def test_since_begins_with_a_whole_line(node: StreamNode) -> None:
    path = node.write(b"old\nhalf of a line\nnew\n")
    now = time.time()
    marks = [Mark(now - 3600, 8), Mark(now - 60, 23)]
    times_path(path).write_bytes(b"".join(one.pack() for one in marks))
    assert await node.get(f"{LOG}?sinceSeconds=7200") == (200, b"old\nhalf of a line\nnew\n")
    assert await node.get(f"{LOG}?sinceSeconds=600") == (200, b"half of a line\nnew\n")
    os.utime(path, (now - 60, now - 60))
    assert await node.get(f"{LOG}?sinceSeconds=30") == (200, b"")


async def test_times_before_lines(node: StreamNode) -> None:
    path = node.write(b"one\ntwo\n\xff\x00")
    times_path(path).write_bytes(Mark(1000, 4).pack())
    os.utime(path, (2000, 2000))
    first, later = stamp(1000), stamp(2000)
    assert await node.get(f"{LOG}?timestamps=1") == (200, first + b"one\n" + later + b"two\n" + later + b"\xff\x00")
    assert await node.get(f"{LOG}?timestamps=1&sinceBytes=2") == (200, b"e\n" + later + b"two\n" + later + b"\xff\x00")
    assert await node.get(f"{LOG}?timestamps=1&sinceBytes=4") == (200, later + b"two\n" + later + b"\xff\x00")


@pytest.mark.parametrize("times", ["0", "1"])
async def test_following_ends_with_the_task_and_misses_nothing(node: StreamNode, times: str) -> None:
    node.state = "waiting"
    following = asyncio.create_task(node.get(f"{LOG}?follow=1&timestamps={times}"))
    await asyncio.sleep(0.05)
    node.state = "running"
    node.write(b"one\n")
    await asyncio.sleep(0.15)
    assert not following.done()
    lines = os.urandom(2**20).replace(b"\n", b".") + b"\n" + b"two\n" * 100_000 + b"no newline"
    node.write(lines)
    node.state = "ended"
    status, body = await following
    extra = 21 * 100_003 if times == "1" else 0
    assert status == 200 and len(body) == len(b"one\n" + lines) + extra
    assert times == "1" or body == b"one\n" + lines


async def test_a_reader_that_goes_is_no_trouble(node: StreamNode) -> None:
    node.state = "running"
    node.write(b"x" * 2**22)
    async with node.session.get(f"{LOG}?follow=1") as response:
        assert await response.content.read(10) == b"x" * 10
    assert (await node.get(f"{LOG}?tail=0"))[0] == 200


async def test_unknown_logs(node: StreamNode) -> None:
    node.state = "unknown"
    assert (await node.refused("GET", LOG))[0] == 404
    node.problem = "not synced"
    assert await node.refused("GET", LOG) == (503, "not synced")  # it can't know yet


@pytest.mark.parametrize("query", ["tail=x", "tail=-2", "sinceBytes=-1", "sinceSeconds=1.5", "sinceBytes=%D9%A1"])
async def test_bad_numbers_are_refused(node: StreamNode, query: str) -> None:
    node.write(b"a\n")
    assert (await node.refused("GET", f"{LOG}?{query}"))[0] == 400


@pytest.mark.parametrize("path", ["/v1/tasks/..%2F..%2Fetc/1/log", "/v1/tasks/.hidden/1/log", f"/v1/tasks/{UID}/x/log"])
async def test_paths_stay_inside(node: StreamNode, path: str) -> None:
    assert (await node.get(path))[0] in (400, 404)


async def test_what_was_dropped_is_not_sent(node: StreamNode) -> None:
    lines = b"".join(b"%015d\n" % number for number in range(2**16))
    path = node.write(lines)
    begin = drop_oldest(path, 2**18)
    assert begin > 0
    assert await node.get(LOG) == (200, lines[begin:])
    assert await node.get(f"{LOG}?sinceBytes=5") == (200, lines[begin:])
    assert await node.get(f"{LOG}?tail=2") == (200, lines[-32:])
    assert await node.get(f"{LOG}?tail={2**16}") == (200, lines[begin:])
    async with node.session.get(f"{LOG}?sinceBytes=5") as response:
        assert response.headers["Iris-Log-Offset"] == str(begin)


async def test_dropped_while_it_is_read(node: StreamNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who follows asks again; who doesn't finds a word in its place."""
    lines = b"x" * 2**20
    path = node.write(lines)
    monkeypatch.setattr("iris_operator.agent.streams.logs.kept_from", lambda _: 0)  # as it was a moment ago
    begin = drop_oldest(path, 2**18)
    assert await node.get(LOG) == (200, b"... 768 KiB dropped: logs.maxBytes\n" + lines[begin:])
    node.state = "running"
    assert await node.get(f"{LOG}?follow=1") == (200, b"")
