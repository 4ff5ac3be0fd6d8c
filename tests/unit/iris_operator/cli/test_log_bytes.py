"""Bytes of logs on their way to the person."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_operator.agent.streams.marks import STAMP_BYTES as AGENTS_STAMP_BYTES
from iris_operator.agent.streams.marks import Mark, Stamper
from iris_operator.cli.log_bytes import STAMP_BYTES, Prefixed, Stamped


def test_both_ends_mean_the_same_stamp() -> None:
    assert STAMP_BYTES == AGENTS_STAMP_BYTES


@given(st.binary(max_size=120), st.integers(1, 50), st.integers(0, 300))
def test_a_connection_that_breaks_anywhere_loses_and_doubles_nothing(log: bytes, piece: int, breaks_at: int) -> None:
    marks = [Mark(1000, 40), Mark(2000, 1000)]
    stream = Stamper().stamped(log, 0, marks, 3000.0)
    taker, shown, sent = Stamped(), b"", 0
    taker.connected()
    for at in range(0, min(breaks_at, len(stream)), piece):
        whole, size = taker.take(stream[:breaks_at][at : at + piece])
        shown, sent = shown + whole, sent + size
    taker.connected()
    starts = sent == 0 or log[sent - 1 : sent] == b"\n"
    again = Stamper(starts).stamped(log[sent:], sent, marks, 3000.0)
    whole, size = taker.take(again)
    assert shown + whole == stream
    assert sent + size == len(log)


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"a\nb", b"c\n"], b"> a\n> bc\n"),
        ([b"no newline"], b"> no newline\n"),
        ([b"\n\n"], b"> \n> \n"),
        ([b"\xff\x00\n"], b"> \xff\x00\n"),
        ([b"x" * (Prefixed.MOST + 1), b"y\n"], b"> " + b"x" * Prefixed.MOST + b"\n> xy\n"),
        ([], b""),
    ],
)
def test_names_before_lines(pieces: list[bytes], lines: bytes) -> None:
    taker = Prefixed(b"> ")
    assert b"".join([taker.take(piece) for piece in pieces]) + taker.end() == lines
