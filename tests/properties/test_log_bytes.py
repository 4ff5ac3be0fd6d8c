"""Any bytes in a log: from the file, through the agent's handlers and the CLI, to the person, unchanged and in order."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from iris_operator.agent.logs.files import last_line
from iris_operator.cli.log_bytes import STAMP_BYTES, Prefixed
from iris_operator.cli.log_stream import LogStream, Wanted
from tests.unit.iris_operator.agent.streams.kit import Gateway, stream_node

# Short ones find the edges of lines; a huge one those of buffers (64 KiB, 1 MiB).
# Huge ones are kept as (byte, length): Hypothesis shows what it has drawn.
_HUGE = st.tuples(st.integers(0, 255), st.sampled_from([65535, 65536, 2**20 + 1]))
PIECES = st.lists(
    st.binary(max_size=30)
    | st.sampled_from([b"\n", b"\n\n", b"\r\n", b"\x00", b"\xff\xfe", b"\x1b[2J", "ä€".encode()])
    | _HUGE,
    max_size=8,
)
Drawn = list[bytes | tuple[int, int]]


def made(drawn: Drawn) -> list[bytes]:
    """The bytes themselves."""
    return [one if isinstance(one, bytes) else bytes([one[0]]) * one[1] for one in drawn]


def shown(pieces: list[bytes], wanted: Wanted, live: int | None = None) -> tuple[bytes, list[str]]:
    """What the person sees. `live`: so many pieces are there before the reader comes, the rest is written under it."""

    async def see() -> tuple[bytes, list[str]]:
        got, said = bytearray(), list[str]()
        # A unix socket's path is short, and Hypothesis runs many cases in one test.
        with tempfile.TemporaryDirectory(prefix="iris-log-") as folder:
            async with stream_node(Path(folder)) as node:
                gateway = Gateway(node)
                uid = await gateway.task()
                node.write(b"".join(pieces[:live]), uid)
                node.state = "ended" if live is None else "running"
                stream = LogStream(gateway.cli, "t", got.extend, said.append, wanted)
                reading = asyncio.create_task(stream.print(follow=live is not None))
                for piece in pieces[live:] if live is not None else ():
                    node.write(piece, uid)
                    await asyncio.sleep(0)
                node.state = "ended"
                await reading
        return bytes(got), said

    return asyncio.run(see())


@given(PIECES)
def test_what_was_written_is_shown(drawn: Drawn) -> None:
    pieces = made(drawn)
    assert shown(pieces, Wanted())[0] == b"".join(pieces)


@given(PIECES, st.integers(0, 8))
def test_what_is_written_meanwhile_is_shown_too(drawn: Drawn, live: int) -> None:
    pieces = made(drawn)
    assert shown(pieces, Wanted(), live)[0] == b"".join(pieces)


@given(PIECES, st.integers(0, 5))
def test_the_last_lines_are_whole(drawn: Drawn, tail: int) -> None:
    pieces = made(drawn)
    log = b"".join(pieces)
    assert shown(pieces, Wanted(tail=tail))[0] == b"".join(_lines(log)[-tail:] if tail else [])


@given(PIECES)
def test_times_stand_before_lines_and_nothing_else_changes(drawn: Drawn) -> None:
    pieces = made(drawn)
    lines = _lines(shown(pieces, Wanted(timestamps=True))[0])
    assert [line[STAMP_BYTES:] for line in lines] == _lines(b"".join(pieces))


@given(PIECES, st.integers(4000, 70000))
def test_names_stand_before_lines_of_any_bytes(drawn: Drawn, size: int) -> None:
    log, taker = b"".join(made(drawn)), Prefixed(b"> ")
    out = b"".join(taker.take(log[at : at + size]) for at in range(0, len(log), size)) + taker.end()
    assert all(line.startswith(b"> ") and len(line) <= Prefixed.MOST + size + 3 for line in _lines(out))
    assert b"".join(line[2:-1] for line in _lines(out)) == log.replace(b"\n", b"")


@given(st.binary(max_size=3000))
def test_any_last_line_is_short(log: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(log)
        file.flush()
        assert len(last_line(Path(file.name))) <= 200


def _lines(log: bytes) -> list[bytes]:
    """With their newlines; other ends of lines are bytes like any."""
    found = [line + b"\n" for line in log.split(b"\n")]
    return [*found[:-1], *([found[-1][:-1]] if found[-1] != b"\n" else [])]
