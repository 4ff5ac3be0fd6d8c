"""The agent's HTTP API on the node's address for whoever asks: /health, /live, /metrics. Streams of Tasks: agent/streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Literal

from aiohttp import web

LogState = Literal["unknown", "waiting", "running", "ended"]
"""unknown: no such Task here. waiting: not started. ended: nothing more will be written."""

OFFSET_HEADER = "Iris-Log-Offset"


def agent_app(
    problem: Callable[[], str], describe: Callable[[], Mapping[str, object]], metrics: Callable[[], str]
) -> web.Application:
    """`problem`: one line, empty when healthy. `describe`: what /health says besides."""

    async def health(_: web.Request) -> web.Response:
        trouble = problem()
        body = {"status": "ok" if not trouble else "problem", "problem": trouble, **describe()}
        return web.json_response(body, status=503 if trouble else 200, dumps=json.dumps)

    async def live(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def prometheus(_: web.Request) -> web.Response:
        return web.Response(text=metrics(), content_type="text/plain")

    app = web.Application()
    app.router.add_get("/health", health)
    app.router.add_get("/live", live)
    app.router.add_get("/metrics", prometheus)
    return app


async def serve(app: web.Application, host: str, port: int) -> web.AppRunner:
    """Listen; the caller cleans the runner up. OSError when the address is taken."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, host or None, port).start()
    return runner
