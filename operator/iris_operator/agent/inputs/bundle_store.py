"""Bundles unpacked on the node: by digest, whole or not at all, each fetched once at a time."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from iris_operator.agent.inputs.layout import Layout
from iris_operator.agent.inputs.model import Fetching, InputFault
from iris_operator.agent.inputs.remove import remove_tree
from iris_operator.agent.inputs.threads import to_the_end
from iris_operator.agent.inputs.unpack import unpack

LARGEST_ARCHIVE_BYTES = 8 * 2**30
_CHUNK = 2**20
_UNFINISHED = ".new-"
_MARK = "bundle.digest"

Tell = Callable[[Fetching], None]


class Sink:
    """An archive being written, measured and hashed. `take` blocks: call it in a thread."""

    def __init__(self, file: BinaryIO, what: str, tell: Tell) -> None:
        self._file, self._what, self._tell = file, what, tell
        self._hash, self._done = hashlib.sha256(), 0
        self.total_bytes = 0

    def expect(self, total_bytes: int) -> None:
        """So many are to come, 0: not known. InputFault BundleTooLarge."""
        self.total_bytes = total_bytes
        self._check(total_bytes)

    def take(self, block: bytes) -> None:
        """Write on. InputFault BundleTooLarge, OSError."""
        self._done += len(block)
        self._check(self._done)
        self._file.write(block)
        self._hash.update(block)
        self._tell(Fetching(self._what, self._done, self.total_bytes))

    @property
    def digest(self) -> str:
        """Of all that was taken."""
        return f"sha256:{self._hash.hexdigest()}"

    def _check(self, size: int) -> None:
        if size > LARGEST_ARCHIVE_BYTES:
            raise InputFault("BundleTooLarge", f"{self._what} is above {LARGEST_ARCHIVE_BYTES // 2**30} GiB")


@dataclass(frozen=True)
class Wanted:
    """An archive to have: `key` tells sources apart, `fetch` writes it. `digest` as the Task says it."""

    digest: str
    what: str
    key: str
    fetch: Callable[[Sink], Awaitable[None]] = field(repr=False)


@dataclass
class _Job:
    task: asyncio.Task[None]
    listeners: list[Tell]


class BundleStore:
    """All of a node's."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._jobs: dict[tuple[str, str], _Job] = {}
        self._lock = threading.Lock()

    async def get(self, wanted: Wanted, uid: str, attempt: int, tell: Tell) -> Path:
        """The folder, kept while the attempt's own is there. InputFault."""
        path = self._layout.bundles / wanted.digest.removeprefix("sha256:")
        if not await to_the_end(self._held, path, self._layout.attempt(uid, attempt)):
            await self._join(wanted, path, tell)
        return path

    def collect(self, used_before: datetime) -> list[str]:
        """Remove those that no attempt here has mounted and that were last wanted before then; their digests. Blocking."""
        gone = []
        for path in _entries(self._layout.bundles):
            if path.name.startswith(_UNFINISHED):
                continue
            with self._lock:
                in_use = {mark.read_text() for mark in self._layout.attempts.glob(f"*/*/{_MARK}")}
                new = path.stat().st_mtime > used_before.timestamp()
                if path.name in in_use or new:
                    continue
                remove_tree(path, self._layout.trash)
            gone.append(f"sha256:{path.name}")
        return gone

    def _held(self, path: Path, attempt: Path) -> bool:
        """Mark it as the attempt's, so that it is not collected; whether it is there already."""
        with self._lock:
            attempt.mkdir(parents=True, exist_ok=True)
            (attempt / _MARK).write_text(path.name)
            there = path.is_dir()
            if there:
                os.utime(path)
            return there

    async def _join(self, wanted: Wanted, path: Path, tell: Tell) -> None:
        key = (path.name, wanted.key)
        job = self._jobs.get(key)
        if job is None:
            listeners: list[Tell] = []
            making = asyncio.create_task(_make(wanted, path, listeners, self._layout.trash), name=f"bundle {path.name}")
            job = self._jobs[key] = _Job(making, listeners)
            making.add_done_callback(lambda done: self._forget(key, done))
        job.listeners.append(tell)
        try:
            await asyncio.shield(job.task)
        finally:
            job.listeners.remove(tell)
            if not job.listeners and not job.task.done():  # nobody wants it any more
                self._forget(key, job.task)
                job.task.cancel()
                await asyncio.gather(job.task, return_exceptions=True)

    def _forget(self, key: tuple[str, str], done: asyncio.Task[None]) -> None:
        if key in self._jobs and self._jobs[key].task is done:
            del self._jobs[key]


async def _make(wanted: Wanted, path: Path, listeners: list[Tell], trash: Path) -> None:
    loop = asyncio.get_running_loop()

    def tell(fetching: Fetching) -> None:  # from a thread
        loop.call_soon_threadsafe(lambda: [one(fetching) for one in listeners])

    work = path.with_name(f"{_UNFINISHED}{uuid.uuid4().hex}")
    await to_the_end(work.mkdir, parents=True)
    try:
        with await asyncio.to_thread((work / "archive").open, "wb") as file:
            sink = Sink(file, wanted.what, tell)
            await wanted.fetch(sink)
        if sink.digest != wanted.digest:
            words = f"{wanted.what} is {sink.digest}, and bundle.digest is {wanted.digest}"
            raise InputFault("BundleDigestMismatch", words)
        tree = work / "tree"
        await to_the_end(_unpack, work / "archive", tree)
        await to_the_end(_put, tree, path)
    finally:
        await asyncio.shield(asyncio.to_thread(remove_tree, work, trash))


def _unpack(archive: Path, tree: Path) -> None:
    tree.mkdir()
    unpack(archive, tree)


def _put(tree: Path, path: Path) -> None:
    try:
        tree.rename(path)
    except OSError:
        if not path.is_dir():  # else another source was quicker: it is the same
            raise


def sweep_unfinished(layout: Layout) -> None:
    """What a killed agent was fetching. Only before a new one begins."""
    for left in _entries(layout.bundles):
        if left.name.startswith(_UNFINISHED):
            remove_tree(left, layout.trash)


def _entries(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from list(folder.iterdir())
