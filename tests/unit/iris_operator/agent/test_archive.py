"""Logs are copied to object storage once their attempt is over, and the Task is told where."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from iris_operator.adapters.s3 import Bucket, Keys, S3Error
from iris_operator.agent.logs.archive import BadSecret, archive_keys, mark_of, object_key
from iris_operator.agent.logs.bounds import drop_oldest
from iris_operator.api.cluster import LogArchive
from iris_operator.ports.kube import IRIS_CLUSTERS, SECRETS, TASKS
from tests.builders import cluster
from tests.unit.iris_operator.agent.harness import Node, until

_SECRET = {
    "metadata": {"name": "keys"},
    "data": {
        "accessKeyID": base64.b64encode(b"id\n").decode(),
        "secretAccessKey": base64.b64encode(b"secret").decode(),
    },
}


class Storage:
    """Takes what is put; `fails`: so many times it does not."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.keys: set[Keys | None] = set()
        self.tries, self.fails = 0, 0
        self.slow = asyncio.Event()
        self.slow.set()

    async def put(self, bucket: Bucket, key: str, keys: Keys | None, path: Path, begin: int, head: bytes) -> str:
        self.tries += 1
        await self.slow.wait()
        if self.tries <= self.fails:
            raise S3Error("no", 503)
        self.keys.add(keys)
        self.objects[key] = head + path.read_bytes()[begin:]
        return bucket.url(key)


@pytest.fixture
async def storage(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Storage]:
    found = Storage()

    async def put(_: object, *args: Any) -> str:
        return await found.put(*args)

    monkeypatch.setattr("iris_operator.agent.node.keeper.NodeKeeper._put", put)
    monkeypatch.setattr("iris_operator.agent.logs.archive._BACKOFF_SECONDS", (0.01, 0.02))
    yield found


@pytest.fixture
async def node(tmp_path: Path) -> Node:
    found = Node(tmp_path)
    await found.set_up()
    archive = {"endpoint": "http://storage", "bucket": "logs", "prefix": "iris/", "secretName": "keys"}
    await found.api.create(IRIS_CLUSTERS, cluster(logs={"archive": archive}).body(), "default")
    await found.api.create(SECRETS, _SECRET, "default")
    return found


async def _run(node: Node, text: str, name: str = "t") -> str:
    """A Task that ran and wrote; its uid."""
    uid = await node.bind(name, ("sleep",))
    await node.phase("Running", name)
    node.write_log(uid, text)
    node.runtime.finish(f"task-{uid}-1")
    await node.phase("Succeeded", name)
    return uid


async def _archived(node: Node, name: str = "t") -> str:
    async with asyncio.timeout(10):
        while True:
            found = await node.task(name)
            if found and found["status"].get("logArchive"):
                return str(found["status"]["logArchive"])
            await asyncio.sleep(0.005)


async def test_after_its_end(node: Node, storage: Storage) -> None:
    async with node.agent():
        uid = await _run(node, "hello\n")
        key = f"iris/default/t/{uid}/1.log"
        assert await _archived(node) == f"http://storage/logs/{key}"
        assert storage.objects == {key: b"hello\n"}
        assert storage.keys == {Keys("id", "secret")}
        assert (await node.phase("Succeeded"))["exitCode"] == 0


async def test_each_attempt_has_its_own_place(node: Node, storage: Storage) -> None:
    async with node.agent():
        uid = await node.bind("t", ("sleep",), retryPolicy={"user": 1, "backoffSeconds": 1})
        await node.phase("Running")
        node.write_log(uid, "first\n")
        node.runtime.finish(f"task-{uid}-1", 1)
        await node.over(1)
        await until(lambda: f"iris/default/t/{uid}/1.log" in storage.objects)
        async with asyncio.timeout(10):
            while not (status := (await node.task() or {})["status"])["attempts"][0].get("logArchive"):
                await asyncio.sleep(0.005)
    assert status["attempts"][0]["logArchive"] == f"http://storage/logs/iris/default/t/{uid}/1.log"
    assert status["attempts"][0]["exitCode"] == 1  # the rest of it stays
    assert not status.get("logArchive")


async def test_until_it_works_and_the_end_is_told_before(node: Node, storage: Storage) -> None:
    storage.fails = 3
    async with node.agent():
        await _run(node, "hello\n")
        await _archived(node)
    assert storage.tries == 4


async def test_the_next_agent_goes_on(node: Node, storage: Storage) -> None:
    storage.fails = 1000
    async with node.agent():
        uid = await _run(node, "hello\n")
        await until(lambda: storage.tries > 1)
    storage.fails = 0
    async with node.agent():
        await _archived(node)
        # Noted on the disk after it is told: who ends in between is followed by one that copies it anew.
        await until(lambda: mark_of(node.folder / "logs", uid, 1))
    done = storage.tries
    async with node.agent():
        await until(lambda: node.fake.writes.count(("patch", "leases", "s-worker-0")) >= 3)
    assert storage.tries == done  # what was copied is not copied again


async def test_deletion_waits_for_it(node: Node, storage: Storage) -> None:
    storage.slow.clear()
    async with node.agent():
        uid = await _run(node, "hello\n")
        await until(lambda: storage.tries)
        await node.api.delete(TASKS, "t", "default")
        await asyncio.sleep(0.05)
        assert await node.task() is not None
        storage.slow.set()
        await node.gone()
    assert storage.objects == {f"iris/default/t/{uid}/1.log": b"hello\n"}
    assert not (node.folder / "logs" / uid).exists()


async def test_deletion_waits_only_so_long(node: Node, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iris_operator.agent.act._ARCHIVE_SECONDS", 0.05)
    storage.slow.clear()
    async with node.agent():
        uid = await _run(node, "hello\n")
        await node.api.delete(TASKS, "t", "default")
        await node.gone()
    assert storage.objects == {}
    assert not (node.folder / "logs" / uid).exists()


async def test_one_that_is_deleted_while_it_runs(node: Node, storage: Storage) -> None:
    async with node.agent():
        uid = await node.bind("t", ("sleep",))
        await node.phase("Running")
        node.write_log(uid, "so far\n")
        await node.api.delete(TASKS, "t", "default")
        await node.gone()
    assert storage.objects == {f"iris/default/t/{uid}/1.log": b"so far\n"}


async def test_a_dropped_beginning_is_said(node: Node, storage: Storage) -> None:
    async with node.agent():
        uid = await node.bind("t", ("sleep",))
        await node.phase("Running")
        node.write_log(uid, "x" * 2**20)
        begin = drop_oldest(node.folder / "logs" / uid / "1" / "output.log", 2**18)
        node.runtime.finish(f"task-{uid}-1")
        await _archived(node)
    (text,) = storage.objects.values()
    assert text == b"... 768 KiB dropped: logs.maxBytes\n" + b"x" * (2**20 - begin)


async def test_without_a_bucket_nothing_is_copied(tmp_path: Path, storage: Storage) -> None:
    node = Node(tmp_path)
    await node.set_up()
    async with node.agent():
        await _run(node, "hello\n")
        await node.api.delete(TASKS, "t", "default")
        await node.gone()
    assert storage.tries == 0


def test_keys_and_their_lack() -> None:
    assert archive_keys(_SECRET) == Keys("id", "secret")
    with pytest.raises(BadSecret, match="Secret keys has no usable accessKeyID"):
        archive_keys({**_SECRET, "data": {"accessKeyID": "aWQ="}})


def test_key() -> None:
    assert object_key(LogArchive(prefix="a/"), "team", "t", "u", 3) == "a/team/t/u/3.log"
