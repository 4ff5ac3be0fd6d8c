"""logs.maxBytes: what is dropped, and that nothing else changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iris_operator.agent.logs.bounds import (
    LogBounds,
    drop_oldest,
    dropped_line,
    read_kept,
    room_taken,
    size_text,
)

_MOST = 256 * 1024
_LINE = b"%015d\n"  # 16 bytes: a line's number tells its offset


def _grown(path: Path, size: int, begin: int = 0) -> Path:
    with path.open("ab") as file:  # as the shim does
        file.write(b"".join(_LINE % (at // 16) for at in range(begin, begin + size, 16)))
    return path


def _all(path: Path) -> tuple[int, bytes]:
    return read_kept(path, 0, 2**24)


def test_a_log_within_its_bound_is_left_alone(tmp_path: Path) -> None:
    path = _grown(tmp_path / "log", _MOST // 2)
    assert drop_oldest(path, _MOST) == 0
    assert _all(path) == (0, path.read_bytes())


def test_the_oldest_goes_and_offsets_stay_true(tmp_path: Path) -> None:
    path = _grown(tmp_path / "log", 4 * _MOST)
    begin = drop_oldest(path, _MOST)
    assert 3 * _MOST <= begin < 4 * _MOST
    assert room_taken(path) <= _MOST
    assert path.stat().st_size == 4 * _MOST
    at, kept = _all(path)
    assert at == begin
    assert kept == b"".join(_LINE % (one // 16) for one in range(begin, 4 * _MOST, 16))
    # the writer goes on where it was
    _grown(path, 160, begin=4 * _MOST)
    assert read_kept(path, 4 * _MOST, 16) == (4 * _MOST, _LINE % (4 * _MOST // 16))


def test_a_log_at_its_bound_is_not_cut_at_every_look(tmp_path: Path) -> None:
    path = _grown(tmp_path / "log", 4 * _MOST)
    first = drop_oldest(path, _MOST)
    _grown(path, 1024, begin=4 * _MOST)
    assert drop_oldest(path, _MOST) == first


@pytest.mark.parametrize("offset", [0, 17, 3 * _MOST])
def test_reading_in_the_hole_begins_after_it(tmp_path: Path, offset: int) -> None:
    path = _grown(tmp_path / "log", 4 * _MOST)
    begin = drop_oldest(path, _MOST)
    assert read_kept(path, offset, 16) == (begin, _LINE % (begin // 16))


def test_zeros_that_the_command_wrote_are_no_hole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" + bytes(200_000) + b"b")
    assert _all(path) == (0, b"a" + bytes(200_000) + b"b")


def test_no_log_and_an_empty_one(tmp_path: Path) -> None:
    assert _all(tmp_path / "absent") == (0, b"")
    assert room_taken(tmp_path / "absent") == 0
    (tmp_path / "empty").touch()
    assert _all(tmp_path / "empty") == (0, b"")
    assert drop_oldest(tmp_path / "empty", 1) == 0


async def test_only_with_a_bound_and_gone_logs_are_no_matter(tmp_path: Path) -> None:
    most = 0
    path = _grown(tmp_path / "log", 4 * _MOST)
    bounds = LogBounds(lambda: most, lambda: [tmp_path / "gone", path])
    await bounds.look()
    assert _all(path)[0] == 0
    most = _MOST
    await bounds.look()
    assert _all(path)[0] > 0


async def test_a_disk_that_can_not_drop_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(file: int, end: int) -> None:
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr("iris_operator.agent.logs.bounds._punch", refuse)
    path = _grown(tmp_path / "log", 4 * _MOST)
    bounds = LogBounds(lambda: _MOST, lambda: [path])
    await bounds.look()
    await bounds.look()
    assert [one.message for one in caplog.records if "maxBytes" in one.message] == [
        f"logs.maxBytes can't be kept on this node's file system: {path}: [Errno 95] Operation not supported"
    ]


@pytest.mark.parametrize(
    ("number", "text"), [(12, "12 bytes"), (12 * 2**20, "12 MiB"), (1536, "1.5 KiB"), (5 * 2**40, "5120 GiB")]
)
def test_sizes(number: int, text: str) -> None:
    assert size_text(number) == text
    assert dropped_line(number) == f"... {text} dropped: logs.maxBytes\n".encode()
