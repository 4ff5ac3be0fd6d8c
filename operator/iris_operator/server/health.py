"""GET /health: alive, and whether this replica leads. GET /metrics: Prometheus text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from aiohttp import web

from iris_operator.server.metrics import CONTENT_TYPE


def health_app(describe: Callable[[], Mapping[str, object]], metrics: Callable[[], str]) -> web.Application:
    """`describe` gives the JSON of /health; a standby replica is healthy too."""

    async def health(_: web.Request) -> web.Response:
        return web.json_response(dict(describe()), dumps=json.dumps)

    async def prometheus(_: web.Request) -> web.Response:
        return web.Response(body=metrics().encode(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.router.add_get("/health", health)
    app.router.add_get("/metrics", prometheus)
    return app


async def serve(app: web.Application, port: int) -> web.AppRunner:
    """Listen on all addresses; the caller cleans the runner up."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    return runner
