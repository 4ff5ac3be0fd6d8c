"""The node's images: what is there, fetch one ahead of its Tasks, remove one."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from iris_operator.agent.sandbox.credentials import BadSecret
from iris_operator.agent.streams.source import StreamSource, refusal
from iris_operator.ports.errors import ApiError
from iris_runtimes.errors import ImageInUse, RuntimeFault, RuntimeUnavailable
from iris_runtimes.protocol import Credentials, Image, PullProgress, Runtime, StoredImage

_TELL_SECONDS = 0.5


@dataclass(frozen=True)
class _Pull:
    """One pull and how far it has come."""

    future: asyncio.Future[Image]
    seen: list[PullProgress]


class _Pulls:
    """Pulls under way. The API server ends a request after a minute: a pull goes on, and who asks again finds it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._under_way: dict[tuple[str, ...], _Pull] = {}

    def of(self, wanted: tuple[str, ...], credentials: Sequence[Credentials]) -> _Pull:
        """`wanted`: the image, then the secrets' names."""
        found = self._under_way.get(wanted)
        if found is None:
            seen: list[PullProgress] = []
            pulling = self._runtime.pull(wanted[0], "IfNotPresent", credentials, seen.append)
            found = self._under_way[wanted] = _Pull(asyncio.ensure_future(pulling), seen)
            found.future.add_done_callback(lambda ended: self._ended(wanted, ended))
        return found

    def _ended(self, wanted: tuple[str, ...], ended: asyncio.Future[Image]) -> None:
        del self._under_way[wanted]
        if not ended.cancelled():
            ended.exception()  # perhaps nobody asks for it any more

    async def close(self, _: web.Application) -> None:
        for found in list(self._under_way.values()):
            found.future.cancel()


def add_images(app: web.Application, source: StreamSource) -> None:
    """GET /v1/images; POST and DELETE /v1/images?image="""

    pulls = _Pulls(source.runtime)

    async def images(_: web.Request) -> web.Response:
        try:
            found = await source.runtime.images()
        except RuntimeFault as fault:
            raise refusal(503, str(fault)) from fault
        return web.json_response([_wire(one) for one in sorted(found, key=lambda one: one.reference)])

    async def pull(request: web.Request) -> web.StreamResponse:
        image = _image(request)
        try:
            credentials = await source.credentials(image, request.query.getall("secret", []))
        except (ApiError, BadSecret) as error:
            raise refusal(409, f"reading the pull secret: {error}") from error
        way = pulls.of((image, *request.query.getall("secret", [])), credentials)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-cache"})
        with contextlib.suppress(ConnectionResetError):  # whoever asked has gone
            await response.prepare(request)
            await _tell(response, way)
            await response.write_eof()
        return response

    async def remove(request: web.Request) -> web.Response:
        image = _image(request)
        try:
            await source.runtime.remove_image(image)
        except ImageInUse as fault:
            raise refusal(409, str(fault)) from fault
        except RuntimeUnavailable as fault:
            raise refusal(503, str(fault)) from fault
        except RuntimeFault as fault:
            raise refusal(400, str(fault)) from fault
        return web.json_response({"removed": image})

    app.on_cleanup.append(pulls.close)
    app.router.add_get("/v1/images", images)
    app.router.add_post("/v1/images", pull)
    app.router.add_delete("/v1/images", remove)


async def _tell(response: web.StreamResponse, way: _Pull) -> None:
    """How far it is, each as a line of JSON; the last line says how it ended."""
    while not way.future.done():
        await asyncio.wait({way.future}, timeout=_TELL_SECONDS)
        if way.seen and not way.future.done():
            await _line(response, {"doneBytes": way.seen[-1].done_bytes, "totalBytes": way.seen[-1].total_bytes})
    try:
        image = way.future.result()
        await _line(response, {"image": image.reference, "digest": image.digest})
    except RuntimeFault as fault:
        await _line(response, {"error": str(fault), "reason": fault.reason})


async def _line(response: web.StreamResponse, entry: dict[str, Any]) -> None:
    await response.write(json.dumps(entry).encode() + b"\n")


def _image(request: web.Request) -> str:
    image = request.query.get("image", "").strip()
    if not image:
        raise refusal(400, "image is missing: which one")
    return image


def _wire(image: StoredImage) -> dict[str, Any]:
    return {
        "image": image.reference,
        "digest": image.digest,
        "sizeBytes": image.size_bytes,
        "lastUsed": image.last_used.isoformat(),
        "inUse": image.in_use,
    }
