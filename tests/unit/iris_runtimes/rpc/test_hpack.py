"""Header blocks, by the examples of RFC 7541, appendix C."""

from __future__ import annotations

import pytest

from iris_runtimes.rpc.errors import ProtocolError
from iris_runtimes.rpc.hpack import Decoder, encode

_PLAIN = ("828684410f7777772e6578616d706c652e636f6d", "828684be58086e6f2d6361636865")
_HUFFMAN = ("828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf")
_FIRST = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")]


@pytest.mark.parametrize("blocks", [_PLAIN, _HUFFMAN], ids=["plain", "Huffman"])
def test_two_requests_of_one_connection(blocks: tuple[str, str]) -> None:
    decoder = Decoder()
    assert decoder.decode(bytes.fromhex(blocks[0])) == _FIRST
    assert decoder.decode(bytes.fromhex(blocks[1])) == [*_FIRST, ("cache-control", "no-cache")]


def test_what_does_not_fit_the_table_is_forgotten() -> None:
    decoder = Decoder()
    shrunk = "3f21"  # to 64 bytes: one short header
    remembered = "40" + "0161" + "0162"
    assert decoder.decode(bytes.fromhex(shrunk + remembered + "be")) == [("a", "b"), ("a", "b")]
    assert decoder.decode(bytes.fromhex("40" + "0163" + "0164" + "be")) == [("c", "d"), ("c", "d")]
    with pytest.raises(ProtocolError):
        decoder.decode(bytes.fromhex("bf"))  # the one before


@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 300, 20_000])
def test_what_is_written_is_read(length: int) -> None:
    headers = [(":path", "/a/b"), ("x", "y" * length)]
    assert Decoder().decode(encode(headers)) == headers


@pytest.mark.parametrize(
    "block",
    ["80", "00", "000561", "0085ffffffffff0161", "ff" * 12, "c6", "3fe2ff7f", "0001610181", "00016102c328"],
    ids=[
        "number 0", "no name", "cut off", "the end within a text", "a number without end", "nothing at that place",
        "a huge table", "padding of zeros", "no text",
    ],
)  # fmt: skip
def test_what_can_not_be_read_is_said_to_be(block: str) -> None:
    with pytest.raises(ProtocolError):
        Decoder().decode(bytes.fromhex(block))
