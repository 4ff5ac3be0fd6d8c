"""Room on the node's disk: which images to give up. The decision is pure; `collect_images` carries it out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from iris_runtimes.errors import ImageInUse
from iris_runtimes.protocol import Runtime, StoredImage


@dataclass(frozen=True)
class DiskUse:
    """Of the file system that the runtime keeps images on."""

    total_bytes: int
    used_bytes: int

    @property
    def percent(self) -> float:
        """Used, of 100."""
        return 100 * self.used_bytes / self.total_bytes if self.total_bytes else 0.0


@dataclass(frozen=True)
class Watermarks:
    """Above `high_percent` images go until use is at `low_percent`. Defaults are the kubelet's (KubeletConfiguration)."""

    high_percent: float = 85
    low_percent: float = 80
    least_age_seconds: float = 120

    def __post_init__(self) -> None:
        if not 0 <= self.low_percent <= self.high_percent <= 100:
            raise ValueError(f"watermarks must be 0 <= low <= high <= 100, not {self.low_percent}, {self.high_percent}")


@dataclass(frozen=True)
class Kept:
    """An image that may not go, and why."""

    reference: str
    reason: str


@dataclass(frozen=True)
class CollectionPlan:
    """What may go, in this order, until use is at the low mark; what may not. `needed`: whether anything must go."""

    needed: bool
    candidates: tuple[StoredImage, ...]
    kept: tuple[Kept, ...]
    unused_since: datetime
    reason: str


@dataclass(frozen=True)
class Collected:
    """What was done. `freed_bytes`: by the disk's own count. `enough`: whether use is at the low mark or below it."""

    removed: tuple[StoredImage, ...]
    kept: tuple[Kept, ...]
    before: DiskUse
    after: DiskUse
    enough: bool
    reason: str

    @property
    def freed_bytes(self) -> int:
        """0 when others have filled the disk faster."""
        return max(0, self.before.used_bytes - self.after.used_bytes)


def plan_collection(
    images: Sequence[StoredImage], disk: DiskUse, marks: Watermarks, keep: Collection[str], now: datetime
) -> CollectionPlan:
    """Least recently used first; never what a sandbox stands on, what is in `keep` (full names: what is about to be
    started), or what was used within the least age."""
    unused_since = now - timedelta(seconds=marks.least_age_seconds)
    kept: list[Kept] = []
    free: list[StoredImage] = []
    for image in images:
        if why := _why_kept(image, keep, unused_since, now):
            kept.append(Kept(image.reference, why))
        else:
            free.append(image)
    needed = disk.percent > marks.high_percent
    bound = f"above the high mark, {marks.high_percent:g} %" if needed else f"within {marks.high_percent:g} %"
    return CollectionPlan(
        needed,
        tuple(sorted(free, key=lambda one: (one.last_used, one.reference))) if needed else (),
        tuple(kept),
        unused_since,
        f"the disk is {disk.percent:.1f} % full, {bound}",
    )


def _why_kept(image: StoredImage, keep: Collection[str], unused_since: datetime, now: datetime) -> str:
    if image.in_use:
        return "a sandbox stands on it"
    if image.reference in keep:
        return "it is about to be started from"
    if image.last_used > unused_since:
        return f"it was used {(now - image.last_used).total_seconds():.0f} s ago"
    return ""


async def collect_images(
    runtime: Runtime, measure: Callable[[], DiskUse], marks: Watermarks, keep: Collection[str], now: datetime
) -> Collected:
    """Remove images, one after another, until the disk is at the low mark. `measure` is asked after each removal."""
    before = measure()
    images = await runtime.images() if before.percent > marks.high_percent else []
    plan = plan_collection(images, before, marks, keep, now)
    removed: list[StoredImage] = []
    kept = [*plan.kept]
    after = before
    for image in plan.candidates:
        if after.percent <= marks.low_percent:
            break
        try:
            await runtime.remove_image(image.reference, plan.unused_since)
        except ImageInUse as error:  # since it was looked at
            kept.append(Kept(image.reference, str(error)))
            continue
        removed.append(image)
        after = measure()
    enough = not plan.needed or after.percent <= marks.low_percent
    return Collected(tuple(removed), tuple(kept), before, after, enough, plan.reason)
