"""The Engine's way to send two streams over one connection: a header of eight bytes before each piece.

The first byte is 1 for standard output and 2 for standard error, the last four the piece's length, big-endian.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Protocol

from iris_runtimes.execution import Output, Stream

_HEADER = struct.Struct(">BxxxL")
_CHUNK_BYTES = 2**16
_STREAMS = {2: Stream.STDERR}


class Reader(Protocol):
    """What asyncio's and aiohttp's streams have in common."""

    async def readexactly(self, n: int) -> bytes: ...

    async def read(self, n: int = -1) -> bytes: ...


async def next_frame(reader: Reader) -> Output | None:
    """The next piece; None at the end, also at one in the middle of a piece."""
    try:
        number, length = _HEADER.unpack(await reader.readexactly(_HEADER.size))
        return Output(_STREAMS.get(number, Stream.STDOUT), await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def next_raw(reader: Reader) -> Output | None:
    """The same of a terminal, which has one stream and no headers."""
    try:
        data = await reader.read(_CHUNK_BYTES)
    except ConnectionError:
        return None
    return Output(Stream.STDOUT, data) if data else None
