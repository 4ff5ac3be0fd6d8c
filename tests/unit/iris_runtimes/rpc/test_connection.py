"""What servers hardly ever do: a connection driven frame by frame."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from iris_runtimes import rpc
from iris_runtimes.rpc import frames
from iris_runtimes.rpc.connection import Connection
from iris_runtimes.rpc.hpack import encode
from iris_runtimes.rpc.stream import framed

pytestmark = pytest.mark.asyncio

_HEAD = encode([(":status", "200")])
_WELL = encode([("grpc-status", "0")])


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def frames(self) -> list[tuple[int, int, int, bytes]]:
        """(kind, flags, stream, payload) since the last time."""
        data = bytes(self.written).removeprefix(frames.PREFACE)
        self.written.clear()
        found, at = [], 0
        while at < len(data):
            end = at + 9 + int.from_bytes(data[at : at + 3])
            found.append((data[at + 3], data[at + 4], int.from_bytes(data[at + 5 : at + 9]), data[at + 9 : end]))
            at = end
        return found


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
async def connection(wire: Wire) -> Connection:
    one = Connection()
    one.connection_made(wire)
    wire.frames()
    return one


def end_of(stream: Any) -> tuple[rpc.StatusCode, str]:
    assert isinstance(stream.end, rpc.RpcError)
    return stream.end.code(), stream.end.details()


def good_answer(number: int, message: bytes = b"m") -> bytes:
    return b"".join(
        [
            frames.frame(frames.HEADERS, frames.END_HEADERS, number, _HEAD),
            frames.frame(frames.DATA, 0, number, framed(message)),
            frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, number, _WELL),
        ]
    )


async def test_an_answer_may_come_byte_by_byte(connection: Connection) -> None:
    stream = connection.open(b"", b"request", last=True)
    for byte in good_answer(stream.id):
        connection.data_received(bytes((byte,)))
    assert stream.end is True
    assert list(stream.messages) == [b"m"]


async def test_padding_priority_and_unknown_frames_are_passed_over(connection: Connection) -> None:
    stream = connection.open(b"", b"", last=True)
    head = frames.frame(
        frames.HEADERS,
        frames.END_HEADERS | frames.PADDED | frames.PRIORITY,
        stream.id,
        b"\x02" + b"p" * 5 + _HEAD + b"\0\0",
    )
    data = frames.frame(frames.DATA, frames.PADDED, stream.id, b"\x03" + framed(b"m") + b"\0\0\0")
    connection.data_received(head + frames.frame(0xEE, 0xFF, stream.id, b"?") + data)
    assert list(stream.messages) == [b"m"]


async def test_headers_may_go_on(connection: Connection) -> None:
    stream = connection.open(b"", b"", last=True)
    connection.data_received(frames.frame(frames.HEADERS, frames.END_STREAM, stream.id, _WELL[:3]))
    connection.data_received(frames.frame(frames.CONTINUATION, frames.END_HEADERS, stream.id, _WELL[3:]))
    assert stream.end is True


async def test_what_is_sent_keeps_to_the_windows(connection: Connection, wire: Wire) -> None:
    stream, size = connection.open(b"", b"x" * 100_000, last=True), 100_005
    first = [payload for kind, _, _, payload in wire.frames() if kind == frames.DATA]
    assert (sum(map(len, first)), max(map(len, first))) == (frames.WINDOW, frames.FRAME_BYTES)
    connection.data_received(frames.window_update(0, 1000))
    assert wire.frames() == []  # the stream's own is used up as well
    connection.data_received(frames.window_update(stream.id, 10**6))
    assert [len(payload) for _, _, _, payload in wire.frames()] == [1000]
    connection.data_received(frames.settings({frames.MAX_FRAME_SIZE: 10**6}) + frames.window_update(0, 10**6))
    answered, last = wire.frames()
    assert answered[:2] == (frames.SETTINGS, frames.ACK)
    assert (len(last[3]), last[1]) == (size - frames.WINDOW - 1000, frames.END_STREAM)


async def test_a_new_window_counts_for_calls_under_way(connection: Connection, wire: Wire) -> None:
    connection.data_received(frames.settings({frames.INITIAL_WINDOW_SIZE: 10}))
    connection.open(b"", b"x" * 20, last=True)
    assert [len(payload) for kind, _, _, payload in wire.frames() if kind == frames.DATA] == [10]
    connection.data_received(frames.settings({frames.INITIAL_WINDOW_SIZE: 1000}))
    assert [len(payload) for kind, _, _, payload in wire.frames() if kind == frames.DATA] == [15]


async def test_a_ping_is_answered_with_the_next_call_or_soon(connection: Connection, wire: Wire) -> None:
    ping = frames.frame(frames.PING, 0, 0, b"12345678")
    connection.data_received(ping)
    assert wire.frames() == []
    connection.open(b"", b"", last=True)
    assert [kind for kind, _, _, _ in wire.frames()] == [frames.PING, frames.HEADERS, frames.DATA]
    connection.data_received(ping)
    async with asyncio.timeout(10):
        while not (sent := wire.frames()):
            await asyncio.sleep(0.05)
    assert sent == [(frames.PING, frames.ACK, 0, b"12345678")]


async def test_a_server_that_ends_carries_out_what_it_took(connection: Connection, wire: Wire) -> None:
    taken, late = connection.open(b"", b"", last=True), connection.open(b"", b"", last=True)
    connection.data_received(frames.frame(frames.GOAWAY, 0, 0, taken.id.to_bytes(4) + bytes(4)))
    assert not connection.takes_calls
    assert end_of(late)[0] is rpc.StatusCode.UNAVAILABLE
    assert (taken.end, wire.closed) == (None, False)
    connection.data_received(good_answer(taken.id))
    assert (taken.end, wire.closed) == (True, True)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (frames.CANCEL, rpc.StatusCode.CANCELLED),
        (frames.REFUSED_STREAM, rpc.StatusCode.UNAVAILABLE),
        (frames.ENHANCE_YOUR_CALM, rpc.StatusCode.RESOURCE_EXHAUSTED),
        (1, rpc.StatusCode.INTERNAL),
    ],
)
async def test_a_reset_is_a_failure(connection: Connection, number: int, code: rpc.StatusCode) -> None:
    stream = connection.open(b"", b"", last=True)
    connection.data_received(frames.frame(frames.RST_STREAM, 0, stream.id, number.to_bytes(4)))
    assert end_of(stream)[0] is code


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((frames.HEADERS, encode([(":status", "503")])), rpc.StatusCode.UNKNOWN),
        ((frames.HEADERS, encode([(":status", "200"), ("grpc-status", "nonsense")])), rpc.StatusCode.UNKNOWN),
        ((frames.HEADERS, _HEAD), rpc.StatusCode.INTERNAL),
        ((frames.DATA, framed(b"m")), rpc.StatusCode.INTERNAL),
        ((frames.DATA, b"\1\0\0\0\1x"), rpc.StatusCode.RESOURCE_EXHAUSTED),
        ((frames.DATA, b"\0\xff\0\0\0"), rpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
    ids=["an HTTP error", "no number", "no status", "no trailers", "compressed", "4 GB"],
)
async def test_an_answer_that_is_none(connection: Connection, answer: tuple[int, bytes], code: rpc.StatusCode) -> None:
    stream = connection.open(b"", b"", last=True)
    kind, payload = answer
    connection.data_received(frames.frame(kind, frames.END_STREAM | frames.END_HEADERS, stream.id, payload))
    assert end_of(stream)[0] is code


@pytest.mark.parametrize(
    "nonsense",
    [
        frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\x80"),
        frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, b""),
        frames.frame(frames.DATA, frames.PADDED, 1, b"\x09x"),
    ],
    ids=["headers", "headers from nowhere", "padding"],
)
async def test_nonsense_ends_the_connection_and_its_calls(connection: Connection, wire: Wire, nonsense: bytes) -> None:
    stream = connection.open(b"", b"", last=True)
    connection.data_received(nonsense)
    assert (wire.closed, connection.takes_calls) == (True, False)
    assert end_of(stream)[0] is rpc.StatusCode.UNAVAILABLE


async def test_answers_that_nobody_waits_for_any_more_do_no_harm(connection: Connection, wire: Wire) -> None:
    stream = connection.open(b"", b"", last=True)
    stream.cancel()
    assert wire.frames()[-1] == (frames.RST_STREAM, 0, stream.id, frames.CANCEL.to_bytes(4))
    connection.data_received(good_answer(stream.id))
    other = connection.open(b"", b"", last=True)
    connection.data_received(good_answer(other.id))
    assert other.end is True
