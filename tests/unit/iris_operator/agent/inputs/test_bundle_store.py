"""Bundles on a node: fetched once, whole or not at all, kept while used."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from iris_operator.agent.inputs.bundle_store import BundleStore, Sink, Wanted, sweep_unfinished
from iris_operator.agent.inputs.layout import Layout
from iris_operator.agent.inputs.model import Fetching, InputFault, Whose
from tests.unit.iris_operator.agent.inputs.test_unpack import tar

_ARCHIVE = tar(("run.py", b"print(1)"))
_DIGEST = f"sha256:{hashlib.sha256(_ARCHIVE).hexdigest()}"
_LATER = datetime.now(UTC) + timedelta(days=1)


class Source:
    """Gives the archive once it is let; counts."""

    def __init__(self, content: bytes = _ARCHIVE) -> None:
        self.content, self.asked, self.cancelled = content, 0, 0
        self.let = asyncio.Event()
        self.let.set()
        self.fault: Exception | None = None

    async def fetch(self, sink: Sink) -> None:
        self.asked += 1
        try:
            await self.let.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.fault is not None:
            raise self.fault
        await asyncio.to_thread(sink.take, self.content)

    def wanted(self, digest: str = _DIGEST, key: str = "k") -> Wanted:
        return Wanted(digest, "bundle b", key, self.fetch)


def _tell(_: Fetching) -> None: ...


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def _left(layout: Layout) -> list[str]:
    return sorted(path.name for path in layout.bundles.iterdir())


async def test_is_unpacked_under_its_digest(layout: Layout) -> None:
    told: list[Fetching] = []
    path = await BundleStore(layout).get(Source().wanted(), "uid", 1, told.append)
    await asyncio.sleep(0)
    assert path == layout.bundles / _DIGEST.removeprefix("sha256:")
    assert (path / "run.py").read_text() == "print(1)"
    assert told == [Fetching("bundle b", len(_ARCHIVE))]
    assert _left(layout) == [path.name]


async def test_many_fetch_once(layout: Layout) -> None:
    store, source = BundleStore(layout), Source()
    paths = await asyncio.gather(*(store.get(source.wanted(), f"uid-{number}", 1, _tell) for number in range(9)))
    assert (len(set(paths)), source.asked) == (1, 1)
    await store.get(source.wanted(), "later", 1, _tell)
    assert source.asked == 1


async def test_who_leaves_does_not_take_it_from_others(layout: Layout) -> None:
    store, source = BundleStore(layout), Source()
    source.let.clear()
    leaves, stays = (asyncio.create_task(store.get(source.wanted(), uid, 1, _tell)) for uid in ("a", "b"))
    await _until(lambda: source.asked == 1)
    leaves.cancel()
    await asyncio.gather(leaves, return_exceptions=True)
    source.let.set()
    assert (await stays).is_dir()
    assert (source.asked, source.cancelled) == (1, 0)


async def test_when_all_leave_it_ends_and_leaves_nothing(layout: Layout) -> None:
    store, source = BundleStore(layout), Source()
    source.let.clear()
    only = asyncio.create_task(store.get(source.wanted(), "a", 1, _tell))
    await _until(lambda: source.asked == 1)
    only.cancel()
    await asyncio.gather(only, return_exceptions=True)
    assert source.cancelled == 1
    assert _left(layout) == []
    source.let.set()
    assert (await store.get(source.wanted(), "b", 1, _tell)).is_dir()


async def test_another_digest_is_the_users(layout: Layout) -> None:
    with pytest.raises(InputFault, match=_DIGEST) as caught:
        await BundleStore(layout).get(Source(_ARCHIVE + bytes(512)).wanted(), "uid", 1, _tell)
    assert (caught.value.reason, caught.value.whose) == ("BundleDigestMismatch", Whose.USER)
    assert _left(layout) == []


async def test_a_failed_source_is_no_others(layout: Layout) -> None:
    """Two Tasks name one digest at different places: one place's failure is not the other's."""
    store, bad, good = BundleStore(layout), Source(), Source()
    bad.fault = InputFault("BundleNotFound", "404")
    failed, found = await asyncio.gather(
        store.get(bad.wanted(key="bad"), "a", 1, _tell),
        store.get(good.wanted(key="good"), "b", 1, _tell),
        return_exceptions=True,
    )
    assert isinstance(failed, InputFault)
    assert isinstance(found, Path)
    assert _left(layout) == [found.name]


async def test_collected_when_no_attempt_has_it(layout: Layout) -> None:
    store = BundleStore(layout)
    await store.get(Source().wanted(), "uid", 1, _tell)
    assert store.collect(_LATER) == []
    (layout.attempt("uid", 1) / "bundle.digest").unlink()
    assert store.collect(datetime.now(UTC) - timedelta(minutes=1)) == []
    assert store.collect(_LATER) == [_DIGEST]
    assert _left(layout) == []


async def test_what_a_killed_agent_was_fetching_is_swept(layout: Layout) -> None:
    (layout.bundles / ".new-x" / "tree").mkdir(parents=True)
    path = await BundleStore(layout).get(Source().wanted(), "uid", 1, _tell)
    sweep_unfinished(layout)
    assert _left(layout) == [path.name]


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)
