"""Streams of output, joined and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

from iris_runtimes.execution import Output, Stream

Read = Callable[[], Awaitable[bytes]]


async def merged(reads: Mapping[Stream, Read]) -> AsyncGenerator[Output, None]:
    """Pieces of several streams as they come. Each is read again only when its last piece was taken; none is the end."""
    pending = {asyncio.ensure_future(read()): stream for stream, read in reads.items()}
    try:
        while pending:
            done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                stream, data = pending.pop(one), one.result()
                if data:
                    yield Output(stream, data)
                    pending[asyncio.ensure_future(reads[stream]())] = stream
    finally:
        for one in pending:
            one.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
