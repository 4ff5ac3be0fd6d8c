"""Paths of users below folders of users."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iris_operator.agent.inputs.model import InputFault
from iris_operator.agent.inputs.safe_paths import make_beneath, opened_beneath, parts_of

PARTS = {"a/b": ("a", "b"), "./a//b/": ("a", "b"), "": (), "..a/b..": ("..a", "b..")}


@pytest.mark.parametrize("path", PARTS)
def test_parts(path: str) -> None:
    assert parts_of(path, "x") == PARTS[path]


@pytest.mark.parametrize("path", ["..", "a/../b", "/a", "a\0b", "/".join("a" * 65)])
def test_no_parts(path: str) -> None:
    with pytest.raises(InputFault) as caught:
        parts_of(path, "volume v")
    assert caught.value.reason == "InvalidPath"
    assert str(caught.value).startswith("volume v: ")


def test_what_is_there_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/f").write_text("x")
    with opened_beneath(tmp_path, ("a", "f"), os.O_RDONLY) as found:
        assert os.read(found, 9) == b"x"


LINKS = {
    "out, on the way": ("out", "secret"),
    "out, at the end": ("a", "out"),
    "inside, on the way": ("in", "f"),
    "inside, at the end": ("in",),
    "to a file": ("a", "link"),
}


@pytest.mark.parametrize("name", LINKS)
def test_no_link_is_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("x")
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a/f").write_text("x")
    for link, to in {"out": "../outside", "a/out": "../../outside", "in": "a", "a/link": "f"}.items():
        (root / link).symlink_to(to)
    with pytest.raises(OSError, match=r"symbolic|directory"), opened_beneath(root, LINKS[name]):
        pass
    if name != "to a file":
        with pytest.raises(NotADirectoryError):
            make_beneath(root, (*LINKS[name], "new"), 0o777)
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == ["secret"]


def test_makes_what_is_missing_with_its_mode(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o700)
    make_beneath(tmp_path, ("a", "b", "c"), 0o777)
    modes = [(tmp_path / path).stat().st_mode & 0o777 for path in ("a", "a/b", "a/b/c")]
    assert modes == [0o700, 0o777, 0o777]
