"""Notes beside each running Task's log when it grew. An idle log costs nothing but the kernel's watch of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from iris_operator.agent.sandbox.inotify import Inotify
from iris_operator.agent.streams.marks import MARK_BYTES, Mark, thinned, unpack

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 1.0  # between two notes, and so the times' precision
_MOST_MARKS = 2**16
_NAME = "output.times"


def times_path(log_path: Path) -> Path:
    """Where a log's marks are."""
    return log_path.with_name(_NAME)


def read_marks(log_path: Path) -> list[Mark]:
    """The marks of a log; none when it has none."""
    try:
        return unpack(times_path(log_path).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return []


class LogTimes:
    """Tell it which logs of a Task may grow; it writes while `run` runs."""

    def __init__(self) -> None:
        self._notify: Inotify | None = None
        self._watched: dict[Path, Callable[[], None]] = {}
        self._of_task: dict[str, set[Path]] = {}
        self._sizes: dict[Path, int] = {}  # of the last mark
        self._grown: set[Path] = set()
        self._wake = asyncio.Event()

    def look(self, uid: str, paths: Iterable[Path]) -> None:
        """These logs of a Task are written to, or will be; of those named before, nothing more comes."""
        wanted, before = {*paths}, self._of_task.get(uid, set())
        for path in wanted - self._watched.keys():
            self._watched[path] = _nothing
            self._touched(path)  # it may have been written to before
        for path in before - wanted:
            self._leave(path)
        if wanted:
            self._of_task[uid] = wanted
        else:
            self._of_task.pop(uid, None)

    async def run(self) -> None:
        """Until cancelled."""
        self._notify = Inotify()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                batch, self._grown = self._grown, set()
                await asyncio.to_thread(self._note, batch)
                await asyncio.sleep(_PAUSE_SECONDS)
                for path in batch:
                    self._arm(path)
                # What was written before the watch was set again.
                for path in await asyncio.to_thread(self._longer, batch):
                    self._touched(path)
        finally:
            self._notify.close()

    def _leave(self, path: Path) -> None:
        call_off = self._watched.pop(path, None)
        if call_off is not None:
            call_off()
            self._touched(path)  # its last bytes

    def _touched(self, path: Path) -> None:
        self._grown.add(path)
        self._wake.set()

    def _arm(self, path: Path) -> None:
        if path not in self._watched or self._notify is None:
            self._sizes.pop(path, None)
            return
        try:
            self._watched[path]()
            self._watched[path] = self._notify.watch(path, lambda: self._touched(path))
        except FileNotFoundError:  # not there yet, or dropped with its Task
            self._watched.pop(path, None)
        except OSError as error:
            log.warning("times of %s are not noted: %s", path, error)

    def _note(self, batch: Iterable[Path]) -> None:
        for path in batch:
            with contextlib.suppress(OSError):  # the log was dropped, or the disk is full: times are a comfort
                found = path.stat()
                if found.st_size > self._noted(path):
                    _append(times_path(path), Mark(found.st_mtime, found.st_size))
                    self._sizes[path] = found.st_size

    def _noted(self, path: Path) -> int:
        if path not in self._sizes:
            marks = read_marks(path)
            self._sizes[path] = marks[-1].size if marks else 0
        return self._sizes[path]

    def _longer(self, batch: Iterable[Path]) -> list[Path]:
        found = []
        for path in batch:
            with contextlib.suppress(OSError):
                if path.stat().st_size > self._noted(path) and path in self._watched:
                    found.append(path)
        return found


def _nothing() -> None:
    return None


def _append(path: Path, mark: Mark) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(file, mark.pack())
        full = os.fstat(file).st_size >= _MOST_MARKS * MARK_BYTES
    finally:
        os.close(file)
    if full:
        fewer = path.with_suffix(".new")
        fewer.write_bytes(b"".join(one.pack() for one in thinned(unpack(path.read_bytes()))))
        fewer.replace(path)
