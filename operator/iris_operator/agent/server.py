"""The agent's HTTP API on the node's address: /health, /live, /metrics, and the logs."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from aiohttp import web

from iris_operator.agent.log_files import is_uid, read_chunk, tail_offset

LogState = Literal["unknown", "waiting", "running", "ended"]
"""unknown: no such Task here. waiting: not started. ended: nothing more will be written."""

OFFSET_HEADER = "Iris-Log-Offset"
_CHUNK = 256 * 1024
# A stat per follower; files tell of appends in no cheaper way that survives a network file system.
_LOOK_SECONDS = 0.1


def agent_app(
    logs_dir: Path,
    log_state: Callable[[str, int], LogState],
    problem: Callable[[], str],
    describe: Callable[[], Mapping[str, object]],
    metrics: Callable[[], str],
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

    async def logs(request: web.Request) -> web.StreamResponse:
        uid, attempt = request.match_info["uid"], int(request.match_info["attempt"])
        if not is_uid(uid):
            raise web.HTTPBadRequest(text=f"{uid} is no Task uid\n")
        path = logs_dir / uid / str(attempt) / "output.log"
        if log_state(uid, attempt) == "unknown":
            if problem():
                raise web.HTTPServiceUnavailable(text=f"{problem()}\n")  # it can't know yet
            if not path.exists():
                raise web.HTTPNotFound(text=f"no log of Task {uid}, attempt {attempt}, on this node\n")
        offset = await _first_byte(request, path)
        response = web.StreamResponse(
            headers={
                OFFSET_HEADER: str(offset),
                "Content-Type": "text/plain; charset=utf-8",
                "Cache-Control": "no-cache",
            }
        )
        response.enable_chunked_encoding()
        await response.prepare(request)
        follow = request.query.get("follow", "0") in ("1", "true")
        with contextlib.suppress(ConnectionResetError):  # the reader has gone
            await _send(response, path, offset, (lambda: log_state(uid, attempt)) if follow else None)
            await response.write_eof()
        return response

    app = web.Application()
    app.router.add_get("/health", health)
    app.router.add_get("/live", live)
    app.router.add_get("/metrics", prometheus)
    app.router.add_get(r"/v1/logs/{uid}/{attempt:[0-9]{1,9}}", logs)
    return app


async def _first_byte(request: web.Request, path: Path) -> int:
    try:
        since, tail = int(request.query.get("sinceBytes", "0")), int(request.query.get("tail", "-1"))
    except ValueError:
        raise web.HTTPBadRequest(text="sinceBytes and tail are whole numbers\n") from None
    if since < 0:
        raise web.HTTPBadRequest(text="sinceBytes is 0 or more\n")
    return max(since, await asyncio.to_thread(tail_offset, path, tail)) if tail >= 0 else since


async def _send(response: web.StreamResponse, path: Path, offset: int, state: Callable[[], LogState] | None) -> None:
    """All from `offset`; with `state`, go on until it says ended and all was sent."""
    while True:
        # Asked before the read: what was written before the end is then read after it.
        over = state is None or state() in ("ended", "unknown")
        chunk = await asyncio.to_thread(read_chunk, path, offset, _CHUNK)
        if chunk:
            offset += len(chunk)
            await response.write(chunk)
        elif over:
            return
        else:
            await asyncio.sleep(_LOOK_SECONDS)


async def serve(app: web.Application, host: str, port: int) -> web.AppRunner:
    """Listen; the caller cleans the runner up. OSError when the address is taken."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, host or None, port).start()
    return runner
