"""Set-up on the node: the files that a container gets for it, and how far it is, as the kernel tells of its stage's file."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from iris_operator.agent.inputs.layout import Layout
from iris_operator.agent.logs.files import last_line
from iris_operator.agent.memories import Memories
from iris_operator.agent.sandbox.entry import SCRIPT_FILE, STAGE_FILE, START_FILE, before, script_text, start_script
from iris_operator.agent.sandbox.inotify import Inotify
from iris_operator.agent.sandbox.labels import SandboxFacts, facts
from iris_operator.agent.sandbox.stages import COMMAND, MOST_BYTES, Stage, parse
from iris_operator.api.task import Task
from iris_runtimes.errors import NodeFault
from iris_runtimes.hold import BUSYBOX
from iris_runtimes.protocol import Mount, Sandbox

log = logging.getLogger(__name__)

_START, _SCRIPT, _STAGE = "start", "setup-script", "stage"
# The file is the container's: whoever writes to it all the time shall not keep us busy.
_CALM_SECONDS = 0.05
_SETTLE_SECONDS, _SETTLE_LOOKS = 0.1, 10
# When the kernel has no watch left to give.
_LOOK_AGAIN_SECONDS = 1.0


class Setups:
    """`busybox`: a static one on this machine. `on_change` is called with the uid of a Task whose set-up went on."""

    def __init__(self, cache_dir: Path, busybox: Path, memories: Memories, on_change: Callable[[str], None]) -> None:
        self._layout, self._source = Layout(cache_dir), busybox
        self._memories, self._on_change = memories, on_change
        self._installed: Path | None = None
        self._inotify: Inotify | None = None
        self._watches: dict[str, Callable[[], None]] = {}
        self._went_on: set[str] = set()  # those whose watch has made its one call

    async def busybox(self) -> Path:
        """The busybox for containers, in the cache folder, which is the node's: copied there once. NodeFault."""
        if self._installed is None:
            try:
                self._installed = await asyncio.to_thread(_install, self._source, self._layout.cache / "bin")
            except OSError as error:
                words = f"no static busybox for containers: {error}; IRIS_BUSYBOX names one"
                raise NodeFault(words) from error
        return self._installed

    async def prepare(self, task: Task, script: str) -> tuple[list[str], tuple[Mount, ...]]:
        """Words before the Task's command, and what is mounted for them. `script`: the set-up script's text out of its
        ConfigMap. InvalidSpec, NodeFault. May be done again while nothing of the attempt runs."""
        start, text = start_script(task), script_text(task, script)
        busybox = await self.busybox()
        folder = self._folder(task)
        try:
            await asyncio.to_thread(_write, folder, start, text)
        except OSError as error:
            raise NodeFault(f"writing what sets the container up, in {folder}: {error.strerror or error}") from error
        mounts = [
            Mount(str(busybox.parent), str(Path(BUSYBOX).parent), read_only=True),
            Mount(str(folder / _START), START_FILE, read_only=True),
            Mount(str(folder / _STAGE), STAGE_FILE),
        ]
        if text:
            mounts.append(Mount(str(folder / _SCRIPT), SCRIPT_FILE, read_only=True))
        return before(), tuple(mounts)

    async def look(self, task: Task, sandbox: Sandbox, *, final: bool) -> None:
        """Remember how far it is, and until `final` (its sandbox has ended) have the Task looked at when that changes."""
        uid, path = task.metadata.uid, self._folder(task) / _STAGE
        if final:
            await _settled(Path(facts(sandbox).log_path))
        while True:
            self.forget(uid)
            if not final:
                self._watch(task, path)  # before it is read: what is written from now on is told
            stage = await asyncio.to_thread(_read, path, facts(sandbox), final)
            if uid not in self._went_on:  # else it may be older than the word of its change
                break
            await asyncio.sleep(_CALM_SECONDS)
        if stage.is_command:
            self.forget(uid)
        self._memories.update(task, stage=stage)

    def forget(self, uid: str) -> None:
        """Nobody asks any more."""
        self._went_on.discard(uid)
        call_off = self._watches.pop(uid, None)
        if call_off is not None:
            call_off()

    async def close(self) -> None:
        """No more words from the kernel."""
        for uid in list(self._watches):
            self.forget(uid)
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def _watch(self, task: Task, path: Path) -> None:
        def went_on() -> None:
            self._watches.pop(uid, None)
            self._went_on.add(uid)
            assert task.spec.binding is not None
            if self._memories.get(uid).attempt == task.spec.binding.attempt:
                self._memories.update(task, stage=None)
            asyncio.get_running_loop().call_later(_CALM_SECONDS, self._on_change, uid)

        uid = task.metadata.uid
        try:
            self._inotify = self._inotify or Inotify()
            self._watches[uid] = self._inotify.watch(path, went_on)
        except OSError as error:
            if path.exists():
                log.warning("watching %s: %s; it is read every %.0f s", path, error, _LOOK_AGAIN_SECONDS)
                self._watches[uid] = asyncio.get_running_loop().call_later(_LOOK_AGAIN_SECONDS, went_on).cancel

    def _folder(self, task: Task) -> Path:
        assert task.spec.binding is not None
        return self._layout.attempt(task.metadata.uid, task.spec.binding.attempt)


async def _settled(log_path: Path) -> None:
    """Until nothing was added to the log for a moment: what a shim copies may come a little after the exit is known."""
    before = -1
    for _ in range(_SETTLE_LOOKS):
        size = await asyncio.to_thread(_size, log_path)
        if size == before:
            break
        before = size
        await asyncio.sleep(_SETTLE_SECONDS)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _install(source: Path, folder: Path) -> Path:
    """A folder by content: a newer agent's busybox does not replace one that a container has mounted."""
    content = source.read_bytes()
    target = folder / hashlib.sha256(content).hexdigest()[:16] / "busybox"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".busybox-{os.getpid()}")
        shutil.copyfile(source, partial)
        partial.chmod(0o755)
        partial.replace(target)
    return target


def _write(folder: Path, start: str, script: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text, mode in ((_START, start, 0o644), (_SCRIPT, script, 0o644), (_STAGE, "", 0o666)):
        # In place: of a sandbox that was half made, the file may be mounted.
        (folder / name).write_text(text)
        (folder / name).chmod(mode)  # whoever the command runs as


def _read(path: Path, labels: SandboxFacts, final: bool) -> Stage:
    started = labels.started_at or datetime.now(UTC)
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES).decode(errors="replace")
            written = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
    except FileNotFoundError:  # someone emptied the cache: whatever it was, it goes on
        return Stage(COMMAND, started, final=final)
    # Its owner may set the file's time, but not to one at which the command could not have run.
    at = min(max(written, started), datetime.now(UTC))
    stage = parse(text, at)
    if not final or stage.is_command:
        return replace(stage, final=final)
    return replace(stage, final=True, last_line=last_line(Path(labels.log_path)) if labels.log_path else "")
