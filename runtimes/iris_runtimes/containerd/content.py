"""containerd's content store: blobs by digest, whole (JSON) or as a stream (layers, which may be many GiB)."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from typing import Any, BinaryIO

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import in_namespace
from iris_runtimes.containerd.proto import content_pb2
from iris_runtimes.errors import ImageInvalid

_READ_SECONDS = 600.0
_MAX_FILE_BYTES = 2**20
_MAX_JSON_BYTES = 8 * 2**20


class Content:
    """The blobs of one containerd namespace. Calls raise rpc.RpcError."""

    def __init__(self, channel: rpc.Channel, namespace: str) -> None:
        self._namespace = namespace
        self._content = rpc.Service(channel, content_pb2, "Content")

    async def document(self, digest: str) -> dict[str, Any]:
        """A manifest, index or configuration. ImageInvalid when it is none."""
        chunks = bytearray()
        async for chunk in self._open(digest):
            chunks += chunk.data
            if len(chunks) > _MAX_JSON_BYTES:
                raise ImageInvalid(f"{digest} is too large for an image's description")
        try:
            found = json.loads(chunks)
        except ValueError as error:
            raise ImageInvalid(f"{digest} can't be read: {error}") from error
        if not isinstance(found, dict):
            raise ImageInvalid(f"{digest} can't be read: it is no JSON object")
        return found

    async def files(self, layer: str, names: set[str]) -> dict[str, str]:
        """Those of the named text files that a layer holds; memory stays small, reading ends with the last one found."""
        call = self._open(layer)
        reader = io.BufferedReader(_Stream(call, asyncio.get_running_loop()), 2**16)
        try:
            return await asyncio.to_thread(_extract, reader, names)
        except tarfile.ReadError as error:
            raise ImageInvalid(
                f"layer {layer} can't be searched for the image's user ({error}): set securityContext.runAsUser"
            ) from error
        finally:
            call.cancel()

    def _open(self, digest: str) -> Any:
        request = content_pb2.ReadContentRequest(digest=digest)
        return self._content.Read(request, metadata=in_namespace(self._namespace), timeout=_READ_SECONDS)


class _Stream(io.RawIOBase):
    """A gRPC stream of chunks as a file, for a thread: each read asks the event loop for the next chunk."""

    def __init__(self, call: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            chunk = asyncio.run_coroutine_threadsafe(self._next(), self._loop).result()
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    async def _next(self) -> bytes:
        message = await self._call.read()
        return b"" if message is rpc.EOF else bytes(message.data)


def _extract(layer: BinaryIO, names: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    with tarfile.open(fileobj=layer, mode="r|*") as archive:
        for member in archive:
            name = member.name.removeprefix("./").lstrip("/")
            content = archive.extractfile(member) if name in names and member.isfile() else None
            if content is not None:
                found[name] = content.read(_MAX_FILE_BYTES).decode(errors="replace")
            if len(found) == len(names):
                break
    return found
