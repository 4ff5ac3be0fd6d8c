"""The node's images: what is there, fetch one ahead of its Tasks, remove one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from iris_operator.agent.credentials import BadSecret
from iris_operator.agent.streams.source import StreamSource, refusal
from iris_operator.ports.errors import ApiError
from iris_runtimes.errors import ImageInUse, RuntimeFault, RuntimeUnavailable
from iris_runtimes.protocol import Image, PullProgress, StoredImage

_TELL_SECONDS = 0.5


def add_images(app: web.Application, source: StreamSource) -> None:
    """GET /v1/images; POST and DELETE /v1/images?image="""

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
        seen: list[PullProgress] = []
        pulling = asyncio.ensure_future(source.runtime.pull(image, "IfNotPresent", credentials, seen.append))
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-cache"})
        try:
            await response.prepare(request)
            await _tell(response, pulling, seen)
            await response.write_eof()
        except ConnectionResetError:
            pass  # whoever asked has gone
        finally:
            pulling.cancel()
            await asyncio.gather(pulling, return_exceptions=True)
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

    app.router.add_get("/v1/images", images)
    app.router.add_post("/v1/images", pull)
    app.router.add_delete("/v1/images", remove)


async def _tell(response: web.StreamResponse, pulling: asyncio.Future[Image], seen: list[PullProgress]) -> None:
    """How far it is, each as a line of JSON; the last line says how it ended."""
    while not pulling.done():
        await asyncio.wait({pulling}, timeout=_TELL_SECONDS)
        if seen and not pulling.done():
            await _line(response, {"doneBytes": seen[-1].done_bytes, "totalBytes": seen[-1].total_bytes})
    try:
        image = pulling.result()
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
