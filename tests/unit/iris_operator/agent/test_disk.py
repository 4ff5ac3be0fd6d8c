"""The node's disk: what is said of it, what goes when it fills, and when Tasks are refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from iris_operator.agent.node.disk import Disk, Refusal, measure, refusal, watermarks
from iris_operator.agent.node.images import ImagesKeeper
from iris_operator.api.cluster import DiskSpace
from iris_runtimes.errors import RuntimeUnavailable
from iris_runtimes.fake import FakeRuntime
from iris_runtimes.image_gc import DiskUse
from tests.unit.iris_operator.agent.build import NOW

_OLD = NOW - timedelta(days=1)
_MARKS = DiskSpace(collect_images_above_percent=80, collect_images_below_percent=60, refuse_tasks_above_percent=90)


def _disk(percent: int, files: int = 1, holds: str = "images") -> Disk:
    return Disk(holds, DiskUse(100, percent), DiskUse(100, files))


_SINCE = Refusal("images", 90, "as it began")
REFUSALS: dict[str, tuple[list[Disk], Refusal | None, str]] = {
    "room": ([_disk(90)], None, ""),
    "full": ([_disk(91)], None, "the disk of images is 91 % full, above 90 % (worker.disk.refuseTasksAbovePercent)"),
    "no inodes": (
        [_disk(5, files=99)], None,
        "the disk of images has used 99 % of its inodes, above 90 % (worker.disk.refuseTasksAbovePercent)",
    ),
    "the second is full": (
        [_disk(5), _disk(95, holds="cache")], None,
        "the disk of cache is 95 % full, above 90 % (worker.disk.refuseTasksAbovePercent)",
    ),
    "fuller than it was: the same words": ([_disk(97)], _SINCE, "as it began"),
    "a hair below the mark is not enough": ([_disk(90)], _SINCE, "as it began"),
    "room again": ([_disk(89)], _SINCE, ""),
    "another mark, other words": ([_disk(97)], Refusal("images", 95, "as it began"),
        "the disk of images is 97 % full, above 90 % (worker.disk.refuseTasksAbovePercent)"),
    "a higher mark, and room": ([_disk(90)], Refusal("images", 80, "as it began"), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal(name: str) -> None:
    disks, before, wanted = REFUSALS[name]
    found = refusal(disks, _MARKS, before)
    assert (found.text if found is not None else "") == wanted


def test_marks_the_wrong_way_round_are_one_mark() -> None:
    marks = watermarks(DiskSpace(collect_images_above_percent=50, collect_images_below_percent=75))
    assert (marks.high_percent, marks.low_percent) == (50, 50)


def test_measured_as_df_does(tmp_path: Path) -> None:
    found = measure("cache", tmp_path)
    assert found.holds == "cache"
    assert 0 < found.space.used_bytes < found.space.total_bytes
    with pytest.raises(OSError, match="absent"):
        measure("cache", tmp_path / "absent")


class Kept:
    """A keeper whose images take 10 % of the disk each, beside `base` of other things."""

    def __init__(self, base: int, *images: str, settings: DiskSpace = _MARKS) -> None:
        self.base, self.settings = base, settings
        self.now, self.wanted, self.changes = NOW, set[str](), 0
        self.runtime = FakeRuntime()
        self.runtime.stored = {name: _OLD + timedelta(minutes=at) for at, name in enumerate(images)}
        self.keeper = ImagesKeeper(
            self.runtime, lambda: self.settings, {"images": Path("/images"), "cache": Path("/cache")},
            lambda: self.wanted, self._changed, measure=self._measure, now=lambda: self.now,
        )  # fmt: skip

    def _changed(self) -> None:
        self.changes += 1

    def _measure(self, holds: str, folder: Path) -> Disk:
        assert folder == Path("/") / holds
        return Disk(holds, DiskUse(100, self.base + 10 * len(self.runtime.stored)), DiskUse(100, 1))


async def test_unused_images_go_oldest_first_down_to_the_low_mark() -> None:
    node = Kept(45, "a", "b", "c", "d")
    await node.keeper.look()
    assert list(node.runtime.stored) == ["d"]
    assert node.keeper.problem == ""
    assert node.keeper.collected_bytes == 30


async def test_within_the_mark_all_stays() -> None:
    node = Kept(40, "a", "b", "c", "d")
    await node.keeper.look()
    assert len(node.runtime.stored) == 4


async def test_what_is_about_to_start_stays() -> None:
    node = Kept(45, "a", "b", "c", "d")
    node.wanted = {"a", "b"}
    await node.keeper.look()
    assert list(node.runtime.stored) == ["a", "b"]


async def test_tasks_are_refused_only_when_collecting_was_not_enough() -> None:
    node = Kept(85, "a")
    await node.keeper.look()
    assert (node.keeper.problem, node.changes) == ("", 0)
    node.base = 99
    await node.keeper.look()
    assert "99 % full" in node.keeper.problem
    node.base = 100
    await node.keeper.look()
    assert "99 % full" in node.keeper.problem
    assert node.changes == 1
    node.base = 50
    await node.keeper.look()
    assert (node.keeper.problem, node.changes) == ("", 2)


async def test_other_settings_count_at_the_next_look() -> None:
    node = Kept(50)
    await node.keeper.look()
    node.settings = DiskSpace(refuse_tasks_above_percent=40)
    await node.keeper.look()
    assert "above 40 %" in node.keeper.problem


async def test_collecting_in_vain_is_not_repeated_at_once() -> None:
    node = Kept(95)
    asked: list[str] = []
    node.keeper.collectors.append(lambda settings, disk: asked.append(disk.holds))
    await node.keeper.look()
    await node.keeper.look()
    assert asked == ["cache"]
    node.now += timedelta(seconds=61)
    await node.keeper.look()
    assert asked == ["cache", "cache"]


async def test_a_runtime_that_is_away_does_not_hide_a_full_disk() -> None:
    node = Kept(95)
    node.runtime.break_down()
    with pytest.raises(RuntimeUnavailable):
        await node.keeper.look()
    assert "95 % full" in node.keeper.problem
