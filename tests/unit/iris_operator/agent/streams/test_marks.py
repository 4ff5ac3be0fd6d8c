"""Times of a log's bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_operator.agent.streams.marks import STAMP_BYTES, Mark, Stamper, offset_since, seen_at, stamp, thinned, unpack

MARKS = [Mark(100, 10), Mark(101, 20), Mark(105, 50)]


@pytest.mark.parametrize(
    ("since", "last_write", "offset"),
    [(50, 105, 0), (100, 105, 0), (100.5, 105, 10), (101, 105, 10), (103, 105, 20), (106, 107, 50), (106, 105, -1)],
)
def test_where_a_time_begins(since: float, last_write: float, offset: int) -> None:
    assert offset_since(MARKS, since, last_write) == offset


@pytest.mark.parametrize(("last_write", "offset"), [(99, -1), (101, 0)])
def test_a_log_without_marks_has_its_last_write(last_write: float, offset: int) -> None:
    assert offset_since([], 100, last_write) == offset


@pytest.mark.parametrize(
    ("offset", "found"),
    [(0, (100, 10)), (9, (100, 10)), (10, (101, 20)), (49, (105, 50)), (50, (None, None)), (99, (None, None))],
)
def test_when_a_byte_was_written(offset: int, found: tuple[float | None, int | None]) -> None:
    assert seen_at(MARKS, offset) == found


def test_a_cut_mark_is_left_out() -> None:
    data = b"".join(one.pack() for one in MARKS)
    assert unpack(data) == MARKS
    assert unpack(data[:-1]) == MARKS[:-1]


def test_thinning_keeps_the_newer_half_and_the_order() -> None:
    marks = [Mark(at, at * 10) for at in range(1, 101)]
    fewer = thinned(marks)
    assert fewer[25:] == marks[50:]
    assert fewer[:25] == marks[1:50:2]


def test_each_line_has_the_time_of_its_first_byte() -> None:
    text = Stamper().stamped(b"12345678\nab\ncdefghijklm\nend", 0, MARKS, 200.0).decode()
    times = [line[:STAMP_BYTES].encode() for line in text.splitlines()]
    assert times == [stamp(100), stamp(100), stamp(101), stamp(105)]
    assert [line[STAMP_BYTES:] for line in text.splitlines()] == ["12345678", "ab", "cdefghijklm", "end"]


@given(st.binary(max_size=200), st.lists(st.integers(1, 40), max_size=8), st.integers(1, 64))
def test_any_bytes_in_any_pieces_are_all_there(data: bytes, steps: list[int], piece: int) -> None:
    marks, size = list[Mark](), 0
    for at, step in enumerate(steps):
        size += step
        marks.append(Mark(at, size))
    stamper = Stamper()
    out = b"".join(stamper.stamped(data[at : at + piece], at, marks, 999.0) for at in range(0, len(data), piece))
    lines = data.split(b"\n")
    lines = lines[:-1] if not lines[-1] else lines
    assert len(out) == len(data) + STAMP_BYTES * len(lines)
    found = [line[STAMP_BYTES:] for line in out.removesuffix(b"\n").split(b"\n")] if data else []
    assert found == lines
