"""The person's terminal, on a pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import termios
from collections.abc import Iterator

import pytest

from iris_operator.cli.terminal import keys, raw_mode


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def test_what_was_typed_ahead_stays_and_the_mode_comes_back(ends: tuple[int, int]) -> None:
    ours, theirs = ends
    before = termios.tcgetattr(theirs)
    os.write(ours, b"ahead\n")
    with pytest.raises(ZeroDivisionError), raw_mode(theirs):
        os.write(ours, b"\x03")  # Ctrl-C is a byte like any other
        found = b""
        while len(found) < 7:
            found += os.read(theirs, 100)
        assert found == b"ahead\n\x03"
        raise ZeroDivisionError
    assert termios.tcgetattr(theirs) == before


async def test_keys_of_a_pipe_until_its_end() -> None:
    out, into = os.pipe()
    os.write(into, b"one")
    reading = keys(out)
    assert await anext(reading) == b"one"
    os.write(into, b"two")
    os.close(into)
    assert [piece async for piece in reading] == [b"two"]
    os.close(out)


async def test_keys_of_a_closed_file_are_an_error() -> None:
    out, into = os.pipe()
    os.close(into)
    os.close(out)
    with pytest.raises(OSError):
        async with asyncio.timeout(5):
            async for _ in keys(out):
                pass
