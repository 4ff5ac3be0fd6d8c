"""Sizes of emptyDirs on disk: looked at now and then, for a file system without quotas tells nobody."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from iris_operator.agent.inputs.layout import Layout
from iris_operator.agent.inputs.wants import mounted_volumes
from iris_operator.agent.memories import Memories
from iris_operator.agent.memory import Illness
from iris_operator.api.quantity import amount
from iris_operator.api.task import Task

log = logging.getLogger(__name__)

_LOOK_SECONDS = 10.0
_BLOCK_BYTES = 512  # of st_blocks, whatever the file system's


class RoomKeeper:
    """`running`: the Tasks whose command runs now; a Task that is over its limit is made ill, and `mark`ed."""

    def __init__(
        self,
        layout: Layout,
        running: Callable[[], Iterable[Task]],
        memories: Memories,
        mark: Callable[[str], None],
    ) -> None:
        self._layout, self._running, self._memories, self._mark = layout, running, memories, mark

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Measure all that have a limit."""
        for task in [one for one in self._running() if limited(one)]:
            try:
                found = await asyncio.to_thread(overfull, task, self._layout)
            except OSError as error:
                log.warning("measuring the volumes of Task %s: %s", task.key, error)
                continue
            if found is not None and self._memories.of(task).ill is None:
                self._memories.update(task, ill=found)
                self._mark(task.metadata.uid)


def limited(task: Task) -> dict[str, int]:
    """Limits in bytes of its emptyDirs on disk, by volume."""
    used = mounted_volumes(task) if task.spec.volumes else ()
    return {
        one.name: amount("memory", one.empty_dir.size_limit)
        for one in task.spec.volumes
        if one.name in used
        and one.empty_dir is not None
        and one.empty_dir.medium == ""
        and one.empty_dir.size_limit is not None
    }


def overfull(task: Task, layout: Layout) -> Illness | None:
    """The first volume that is over its limit. Blocking."""
    assert task.spec.binding is not None
    folder = layout.attempt(task.metadata.uid, task.spec.binding.attempt) / "volumes"
    for name, limit in limited(task).items():
        used = used_bytes(folder / name, limit)
        if used > limit:
            words = f"its volume {name} holds {_mib(used)} MiB or more, and its sizeLimit is {_mib(limit)} MiB"
            return Illness("VolumeFull", words)
    return None


def used_bytes(root: Path, enough: int) -> int:
    """What all below takes on the disk, as du counts it; at least that much, once it is more than `enough`."""
    total, folders, seen = 0, [root], set[int]()
    while folders and total <= enough:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue  # it went meanwhile, or lies too deep to be named
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            if found.st_nlink == 1 or found.st_ino not in seen:
                seen.add(found.st_ino)
                total += found.st_blocks * _BLOCK_BYTES
    return total


def _mib(number: int) -> str:
    return f"{number / 2**20:.4g}"
