"""A proxy before the API server that kills an operator at its next write: the write is done, its answer never comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
from aiohttp import web

from iris_devcluster.coreweave.kube import Connection
from iris_devcluster.coreweave.testing.api_server import free_ports
from tests.cluster.controller.operators import Operator

# Not Leases, by which it lives; not its Events and an IrisCluster's counts: nothing hangs on them.
DEADLY = {"slices", "nodepools", "pods", "tasks"}
_WRITES = {"POST", "PUT", "PATCH", "DELETE"}
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5)


class KillingProxy:
    """`victim` dies at its first deadly write. `deaths`: those writes."""

    def __init__(self, upstream: Connection, session: aiohttp.ClientSession, port: int) -> None:
        self.victim: Operator | None = None
        self.deaths: list[str] = []
        self._one_write = asyncio.Lock()
        self._upstream, self._session, self._port = upstream, session, port

    def kubeconfig(self, folder: Path) -> Path:
        """A file by which an operator speaks to us instead of the API server."""
        path = folder / "kubeconfig-through-proxy"
        cluster = {"server": f"http://127.0.0.1:{self._port}"}
        body = {
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": cluster}],
            "users": [{"name": "x", "user": {"token": self._upstream.token}}],
        }  # fmt: skip
        path.write_text(json.dumps(body))
        return path

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One call: what is not deadly is passed on; of the victim's deadly writes one is done, others never arrive."""
        deadly = request.method in _WRITES and not DEADLY.isdisjoint(request.path.split("/"))
        if not deadly or self.victim is None:
            async with self._call(request) as answer:
                return await _pass_on(request, answer)
        async with self._one_write:
            if self.victim.exit_code is None:
                async with self._call(request) as answer:
                    await answer.read()
                self.victim.kill()
                self.deaths.append(f"{request.method} {request.path}")
        return web.Response(status=503)

    @asynccontextmanager
    async def _call(self, request: web.Request) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {name: request.headers[name] for name in ("Content-Type", "Accept") if name in request.headers}
        headers["Authorization"] = f"Bearer {self._upstream.token}"
        async with self._session.request(
            request.method,
            f"{self._upstream.server}{request.rel_url}",
            headers=headers,
            ssl=self._upstream.context or True,
            data=await request.read() or None,
        ) as answer:
            yield answer


async def _pass_on(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
    with suppress(ConnectionResetError, aiohttp.ClientConnectionError):  # who asked is dead
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
    return response


@asynccontextmanager
async def killing_proxy(upstream: Connection) -> AsyncIterator[KillingProxy]:
    """Serves until the block ends."""
    (port,) = free_ports(1)
    async with aiohttp.ClientSession(timeout=_TIMEOUT, auto_decompress=True) as session:
        proxy = KillingProxy(upstream, session, port)
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield proxy
        finally:
            with suppress(asyncio.CancelledError):
                await runner.cleanup()
