"""HTTP/2's frames (RFC 9113, section 6), as far as a gRPC client meets them."""

from __future__ import annotations

from iris_runtimes.rpc.errors import ProtocolError

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
MAX_FRAME_SIZE, INITIAL_WINDOW_SIZE, ENABLE_PUSH = 5, 4, 2  # settings
NO_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 7, 8, 11
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9
WINDOW = 65535
"""How much may be sent before the other side says more, of a stream and of a connection."""
FRAME_BYTES = 16384
LARGEST_FRAME_BYTES = 2**24 - 1


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def settings(values: dict[int, int]) -> bytes:
    """A SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(key.to_bytes(2) + value.to_bytes(4) for key, value in values.items()))


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """(setting, value), in their order."""
    return [
        (int.from_bytes(payload[at : at + 2]), int.from_bytes(payload[at + 2 : at + 6]))
        for at in range(0, len(payload), 6)
    ]


def window_update(stream: int, size: int) -> bytes:
    """So much more may be sent to us."""
    return frame(WINDOW_UPDATE, 0, stream, size.to_bytes(4))


def body(flags: int, payload: bytes) -> bytes:
    """What a DATA or HEADERS frame has but for padding and priority. ProtocolError."""
    begin = end = 0
    if flags & PADDED:
        begin, end = 1, payload[0] if payload else 0
    if flags & PRIORITY:
        begin += 5
    if begin + end > len(payload):
        raise ProtocolError("a frame with more padding than bytes")
    return payload[begin : len(payload) - end] if begin or end else payload
