"""How full the node's disk is, and when that is too full for more Tasks. Pure but for `measure`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from iris_operator.api.cluster import DiskSpace
from iris_runtimes.image_gc import DiskUse, Watermarks

# Once refused, Tasks are taken again only this much below the mark: else a disk at the mark would change its mind all day.
_BACK_PERCENT = 1


@dataclass(frozen=True)
class Disk:
    """One file system, by what of ours lies on it: bytes, and files (inodes), which run out on their own."""

    holds: str
    space: DiskUse
    files: DiskUse

    @property
    def worst(self) -> DiskUse:
        """Whichever is fuller."""
        return max(self.space, self.files, key=lambda use: use.percent)

    def over(self, percent: float) -> str:
        """What of it is used beyond so many percent: words; empty: nothing is."""
        if self.space.percent > percent:
            return f"the disk of {self.holds} is {self.space.percent:.0f} % full"
        if self.files.percent > percent:
            return f"the disk of {self.holds} has used {self.files.percent:.0f} % of its inodes"
        return ""


@dataclass(frozen=True)
class Refusal:
    """Why no more Tasks shall come. `text` is of the moment it began: it doesn't change with every byte."""

    holds: str
    limit: int
    text: str


def measure(holds: str, folder: Path) -> Disk:
    """The disk that a folder is on. As df counts it: of what is not kept back for root. OSError when the folder isn't there."""
    found = os.statvfs(folder)
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    files = found.f_files - found.f_ffree
    return Disk(
        holds,
        DiskUse(used + found.f_bavail * found.f_frsize, used),
        DiskUse(files + found.f_favail, files),
    )


def refusal(disks: Iterable[Disk], settings: DiskSpace, before: Refusal | None) -> Refusal | None:
    """Whether the node takes no more Tasks now; None: it does. `before`: what this said the last time."""
    limit = settings.refuse_tasks_above_percent
    held = before is not None and before.limit == limit
    for disk in disks:
        said = disk.over(limit - _BACK_PERCENT if held else limit)
        if said and held and before is not None and before.holds == disk.holds:
            return before
        if said:
            return Refusal(disk.holds, limit, f"{said}, above {limit} % (worker.disk.refuseTasksAbovePercent)")
    return None


def watermarks(settings: DiskSpace) -> Watermarks:
    """When images go; a low mark above the high one counts as the high one."""
    high = settings.collect_images_above_percent
    return Watermarks(high, min(high, settings.collect_images_below_percent))
