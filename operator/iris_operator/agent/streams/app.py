"""All routes, for the app that serves the TLS port."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import web

from iris_operator.agent.sandbox.inotify import Inotify
from iris_operator.agent.streams.execute import add_exec
from iris_operator.agent.streams.images import add_images
from iris_operator.agent.streams.logs import add_logs
from iris_operator.agent.streams.port_forward import add_port_forward
from iris_operator.agent.streams.profiles import add_profile
from iris_operator.agent.streams.source import NOTIFY, StreamSource
from iris_operator.agent.streams.stats import add_stats


def add_stream_routes(app: web.Application, source: StreamSource) -> None:
    """Everything below /v1. The app must let in only who may ask: see docs/designs/004."""
    app.cleanup_ctx.append(_notify)
    for add in (add_logs, add_exec, add_port_forward, add_stats, add_images, add_profile):
        add(app, source)


async def _notify(app: web.Application) -> AsyncIterator[None]:
    app[NOTIFY] = Inotify()
    yield
    app[NOTIFY].close()
