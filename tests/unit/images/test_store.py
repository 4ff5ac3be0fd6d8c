"""The cache of layers: whole things only, and not for ever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iris_devcluster.images.store import Store

_DAY = 86400.0


def test_a_thing_appears_when_it_is_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.path("base", {"suite": "bookworm"})
    with store.making(path) as partial:
        (partial / "layer.tar").touch()
        assert not store.has(path)
    assert store.has(path)
    assert [each.name for each in (tmp_path / "layers").iterdir()] == [path.name]


def test_what_failed_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.path("base", 1)
    with pytest.raises(RuntimeError), store.making(path):
        raise RuntimeError
    assert not list((tmp_path / "layers").iterdir())


def test_other_inputs_are_another_thing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    paths = {
        store.path("base", 1),
        store.path("base", 2),
        store.path("wheels", 1),
        store.path("base", {"a": 1, "b": 2}),
    }
    assert len(paths) == 4
    assert store.path("base", {"b": 2, "a": 1}) in paths


def test_what_nobody_used_for_two_weeks_goes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old, used = store.path("project", "old"), store.path("project", "used")
    for path in (old, used):
        path.mkdir(parents=True)
        os.utime(path, (0, 0))
    assert store.has(used)
    store.prune(now=used.stat().st_mtime + 13 * _DAY)
    assert (old.exists(), used.exists()) == (False, True)
