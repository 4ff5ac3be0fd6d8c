from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from iris_runtimes.fake import FakeRuntime
from iris_runtimes.image_gc import DiskUse, Watermarks, collect_images, plan_collection
from iris_runtimes.protocol import CgroupParent, SandboxSpec, StoredImage

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
MARKS = Watermarks(85, 80, least_age_seconds=120)


def image(name: str, minutes_ago: float, in_use: bool = False) -> StoredImage:
    return StoredImage(name, f"sha256:{name}", 10, NOW - timedelta(minutes=minutes_ago), in_use)


@pytest.mark.parametrize(
    ("used", "needed"), [(80, False), (85, False), (86, True), (100, True)], ids=lambda one: str(one)
)
def test_only_above_the_high_mark(used: int, needed: bool) -> None:
    plan = plan_collection([image("a", 10)], DiskUse(100, used), MARKS, (), NOW)
    assert plan.needed is needed
    assert bool(plan.candidates) is needed
    assert f"{used}.0 % full" in plan.reason


def test_least_recently_used_first() -> None:
    images = [image("young", 3), image("old", 100), image("middle", 50)]
    plan = plan_collection(images, DiskUse(100, 90), MARKS, (), NOW)
    assert [one.reference for one in plan.candidates] == ["old", "middle", "young"]


def test_what_may_not_go_says_why() -> None:
    images = [image("runs", 500, in_use=True), image("comes", 500), image("fresh", 1), image("free", 500)]
    plan = plan_collection(images, DiskUse(100, 90), MARKS, {"comes"}, NOW)
    assert [one.reference for one in plan.candidates] == ["free"]
    assert {one.reference: one.reason for one in plan.kept} == {
        "runs": "a sandbox stands on it",
        "comes": "it is about to be started from",
        "fresh": "it was used 60 s ago",
    }


@pytest.mark.parametrize(("high", "low"), [(80, 85), (101, 80), (85, -1)])
def test_marks_that_make_no_sense(high: float, low: float) -> None:
    with pytest.raises(ValueError, match="watermarks"):
        Watermarks(high, low)


def test_an_empty_disk() -> None:
    assert DiskUse(0, 0).percent == 0


def disk_of(runtime: FakeRuntime, each: int, base: int = 60) -> Callable[[], DiskUse]:
    return lambda: DiskUse(100, base + each * len(runtime.stored))


async def test_it_stops_at_the_low_mark() -> None:
    runtime = FakeRuntime()
    runtime.stored = {name: NOW - timedelta(hours=hours) for name, hours in (("a", 3), ("b", 2), ("c", 1))}
    done = await collect_images(runtime, disk_of(runtime, 10), MARKS, (), NOW)
    assert [one.reference for one in done.removed] == ["a"]
    assert (done.freed_bytes, done.enough) == (10, True)


async def test_what_runs_stays_though_the_disk_is_full() -> None:
    runtime = FakeRuntime()
    await runtime.pull("a")
    runtime.stored["a"] = NOW - timedelta(hours=3)
    await runtime.start(SandboxSpec("s", "a", log_path=__file__, cgroup=CgroupParent("/x"), command=["sleep", "9"]))  # type: ignore[arg-type]
    done = await collect_images(runtime, disk_of(runtime, 40), MARKS, (), NOW)
    assert (done.removed, done.enough, done.freed_bytes) == ((), False, 0)
    assert [one.reference for one in done.kept] == ["a"]


class Late(FakeRuntime):
    """A pull comes between the look and the removal."""

    async def images(self) -> list[StoredImage]:
        found = await super().images()
        self.stored["a"] = NOW + timedelta(seconds=1)
        return found


async def test_used_since_the_look_is_kept() -> None:
    runtime = Late()
    runtime.stored = {"a": NOW - timedelta(hours=1)}
    done = await collect_images(runtime, disk_of(runtime, 40), MARKS, (), NOW)
    assert done.removed == ()
    assert "in use" in done.kept[0].reason


async def test_below_the_mark_nothing_is_asked() -> None:
    runtime = FakeRuntime()
    runtime.available = False
    done = await collect_images(runtime, lambda: DiskUse(100, 10), MARKS, (), NOW)
    assert done.enough
