"""A proxy before a registry that counts what is fetched of each blob, and lets blobs through one by one if told to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web


class BlobCounter:
    """`fetched`: digest -> GETs answered with its content. `delay_seconds`: before each, so that pulls overlap."""

    def __init__(self, registry: str) -> None:
        self.fetched: Counter[str] = Counter()
        self.delay_seconds = 0.0
        self._registry = registry
        self._session = aiohttp.ClientSession()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on."""
        if "/blobs/" in request.path and request.method == "GET":
            await asyncio.sleep(self.delay_seconds)
            self.fetched[request.path.rsplit("/", 1)[1]] += 1
        url = f"http://{self._registry}{request.path_qs}"
        headers = {name: value for name, value in request.headers.items() if name in ("Accept", "Range")}
        async with self._session.request(request.method, url, headers=headers) as answer:
            kept = ("Content-Type", "Docker-Content-Digest", "Content-Range", "Content-Length")
            passed = {name: value for name, value in answer.headers.items() if name in kept}
            response = web.StreamResponse(status=answer.status, headers=passed)
            await response.prepare(request)
            if request.method != "HEAD":
                async for chunk in answer.content.iter_chunked(2**16):
                    await response.write(chunk)
            await response.write_eof()
            return response

    async def close(self) -> None:
        """Let go."""
        await self._session.close()


@asynccontextmanager
async def counting(registry: str, address: str) -> AsyncIterator[BlobCounter]:
    """One that listens at `address` (host:port) before the registry at `registry`."""
    counter = BlobCounter(registry)
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", counter.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    host, _, port = address.partition(":")
    await web.TCPSite(runner, host, int(port)).start()
    try:
        yield counter
    finally:
        await runner.cleanup()
        await counter.close()
