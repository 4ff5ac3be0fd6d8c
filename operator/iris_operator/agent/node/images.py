"""Room on the node's disk: images and bundles that nothing needs go when it fills, and then Tasks are refused.

Looked at when something was pulled, started or ended (`poke`), and every 10 s, since commands write too. Never per object.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from iris_operator.agent.node.disk import Disk, Refusal, measure, refusal, watermarks
from iris_operator.api.cluster import DiskSpace
from iris_runtimes.errors import RuntimeFault
from iris_runtimes.image_gc import Collected, collect_images
from iris_runtimes.protocol import Runtime

log = logging.getLogger(__name__)

_LOOK_SECONDS = 10.0
_BETWEEN_LOOKS_SECONDS = 1.0
# When nothing could go, asking again at once would only cost: the runtime lists images, and walks them.
_FUTILE_SECONDS = 60.0
_SHOWN = 5

Collector = Callable[[DiskSpace, Disk], None]


def _now() -> datetime:
    return datetime.now(UTC)


class ImagesKeeper:
    """`folders`: one on each file system that counts, by what it holds: the runtime's images first, the cache last.

    `wanted`: full names of images that are about to be started from. `collectors`: what else frees room, called in a
    thread with the cache folder's disk when it is above the high mark. `on_change`: whether Tasks are refused has changed.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: Callable[[], DiskSpace],
        folders: Mapping[str, Path],
        wanted: Callable[[], Collection[str]],
        on_change: Callable[[], None],
        *,
        measure: Callable[[str, Path], Disk] = measure,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self.refused: Refusal | None = None
        self.collected_bytes = 0
        self.collectors: list[Collector] = []
        self._runtime, self._settings, self._folders = runtime, settings, dict(folders)
        self._wanted, self._on_change, self._measure, self._now = wanted, on_change, measure, now
        self._poked = asyncio.Event()
        self._futile_until: datetime | None = None

    @property
    def problem(self) -> str:
        """Why no more Tasks shall come; empty when they may."""
        return self.refused.text if self.refused is not None else ""

    def poke(self) -> None:
        """Look soon: the disk may have filled, or emptied."""
        self._poked.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            self._poked.clear()
            try:
                await self.look()
            except (RuntimeFault, OSError) as error:
                log.warning("looking after the disk: %s", error)
            await asyncio.sleep(_BETWEEN_LOOKS_SECONDS)
            try:
                async with asyncio.timeout(_LOOK_SECONDS - _BETWEEN_LOOKS_SECONDS):
                    await self._poked.wait()
            except TimeoutError:
                continue

    async def look(self) -> None:
        """Once: make room if it is short, then say whether more Tasks may come. RuntimeFault, OSError."""
        settings = self._settings()
        try:
            await self._make_room(settings)
        finally:
            disks = await asyncio.to_thread(self._measure_all)
            before, self.refused = self.refused, refusal(disks, settings, self.refused)
            if self.refused != before:
                log.warning("%s", self.problem or "the disk has room for Tasks again")
                self._on_change()

    async def _make_room(self, settings: DiskSpace) -> None:
        high = settings.collect_images_above_percent
        disks = await asyncio.to_thread(self._measure_all)
        if not any(disk.over(high) for disk in disks):
            self._futile_until = None
            return
        now = self._now()
        if self._futile_until is not None and now < self._futile_until:
            return
        for collect in self.collectors:
            if disks[-1].over(high):
                await asyncio.to_thread(collect, settings, disks[-1])
        if disks[0].over(high):
            marks, wanted = watermarks(settings), self._wanted()
            self._tell(await collect_images(self._runtime, lambda: self._measure_all()[0].worst, marks, wanted, now))
        again = await asyncio.to_thread(self._measure_all)
        self.collected_bytes += max(0, disks[0].space.used_bytes - again[0].space.used_bytes)
        if any(disk.over(high) for disk in again):
            self._futile_until = now + timedelta(seconds=_FUTILE_SECONDS)

    def _tell(self, found: Collected) -> None:
        if found.removed:
            log.info("%s: removed %s", found.reason, ", ".join(one.reference for one in found.removed))
        elif not found.enough:
            kept = "; ".join(f"{one.reference}: {one.reason}" for one in found.kept[:_SHOWN])
            log.warning("%s, and no image may go%s", found.reason, f": {kept}" if kept else "")

    def _measure_all(self) -> list[Disk]:
        return [self._measure(holds, folder) for holds, folder in self._folders.items()]
