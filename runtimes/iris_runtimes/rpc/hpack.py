"""HPACK (RFC 7541): the headers of a call as bytes, and those of an answer back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from iris_runtimes.rpc import huffman
from iris_runtimes.rpc.errors import ProtocolError

Header = tuple[str, str]

_NAMES = (
    "accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control"
    " content-disposition content-encoding content-language content-length content-location content-range content-type"
    " cookie date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since"
    " last-modified link location max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after"
    " server set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate"
)
# RFC 7541, appendix A, from 1.
_STATIC: tuple[Header, ...] = (
    ("", ""), (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), *((name, "") for name in _NAMES.split()),
)  # fmt: skip
_TABLE_BYTES = 4096  # the default, which we leave as it is
_ENTRY_BYTES = 32


def encode(headers: Iterable[Header]) -> bytes:
    """Literals, none of them to be remembered: a connection has no state of ours, so blocks can be made beforehand."""
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in headers)


class Decoder:
    """Of one connection: every block it receives must come through here, in order."""

    def __init__(self) -> None:
        self._table: deque[Header] = deque()
        self._size, self._most = 0, _TABLE_BYTES

    def decode(self, block: bytes) -> list[Header]:
        """Names and values. ProtocolError."""
        try:
            return self._decode(block)
        except (IndexError, UnicodeDecodeError) as error:
            raise ProtocolError(f"a header block that can't be read: {error}") from error

    def _decode(self, block: bytes) -> list[Header]:
        found: list[Header] = []
        at = 0
        while at < len(block):
            first = block[at]
            if first & 0x80:  # a known header
                index, at = _integer(block, at, 7)
                found.append(self._entry(index))
            elif first & 0xE0 == 0x20:  # the table's new size
                self._most, at = _integer(block, at, 5)
                self._shrink()
            else:
                header, at = self._literal(block, at, 6 if first & 0x40 else 4)
                if first & 0x40:
                    self._remember(header)
                found.append(header)
        return found

    def _literal(self, block: bytes, at: int, bits: int) -> tuple[Header, int]:
        index, at = _integer(block, at, bits)
        if index:
            name = self._entry(index)[0]
        else:
            name, at = _read_text(block, at)
        value, at = _read_text(block, at)
        return (name, value), at

    def _entry(self, index: int) -> Header:
        if not index:
            raise ProtocolError("a header by number 0")
        return _STATIC[index] if index < len(_STATIC) else self._table[index - len(_STATIC)]

    def _remember(self, header: Header) -> None:
        self._table.appendleft(header)
        self._size += _bytes_of(header)
        self._shrink()

    def _shrink(self) -> None:
        if self._most > _TABLE_BYTES:
            raise ProtocolError(f"a header table of {self._most} bytes")
        while self._size > self._most:
            self._size -= _bytes_of(self._table.pop())


def _bytes_of(header: Header) -> int:
    return len(header[0].encode()) + len(header[1].encode()) + _ENTRY_BYTES


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """A number that begins in the low `bits` of a byte, and where it ends."""
    most = (1 << bits) - 1
    value, at, shift = block[at] & most, at + 1, 0
    if value < most:
        return value, at
    while True:
        byte, at = block[at], at + 1
        value += (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at
        if shift > 28:
            raise ProtocolError("a number without end")


def _read_text(block: bytes, at: int) -> tuple[str, int]:
    packed = block[at] & 0x80
    length, at = _integer(block, at, 7)
    if at + length > len(block):
        raise ProtocolError("a header that is cut off")
    text = block[at : at + length]
    return (huffman.decode(text) if packed else text).decode(), at + length


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) < 0x7F:
        return bytes((len(data),)) + data
    rest, length = len(data) - 0x7F, bytearray((0x7F,))
    while rest >= 0x80:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    length.append(rest)
    return bytes(length) + data
