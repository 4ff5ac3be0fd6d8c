"""Images: pulled by containerd's transfer service, their configuration read from its content store."""

from __future__ import annotations

import asyncio
import io
import json
import platform
import tarfile
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage

from iris_runtimes.containerd.channel import call_options, in_namespace, is_not_found, status_of, translate, translated
from iris_runtimes.containerd.image_config import Accounts, ImageConfig, parse_config, pick_manifest
from iris_runtimes.containerd.proto import (
    content_pb2,
    content_pb2_grpc,
    images_pb2,
    images_pb2_grpc,
    streaming_pb2,
    streaming_pb2_grpc,
    transfer_pb2,
    transfer_service_pb2,
    transfer_service_pb2_grpc,
    types_pb2,
)
from iris_runtimes.errors import ImageInvalid, ImageNotFound, ImagePullFailed, ImageUnauthorized
from iris_runtimes.protocol import Credentials, Image, PullPolicy, PullProgress

SNAPSHOTTER = "overlayfs"
_PULL_SECONDS = 3600.0
_HOSTS_DIR = "/etc/containerd/certs.d"  # as containerd sees it; one that is not there is no error
_INDEX_TYPES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def normalize(reference: str, default_registry: str) -> str:
    """A reference with its registry and tag, as containerd stores them: `task` -> `<default registry>/task:latest`.

    ImageInvalid when it names no registry and there is no default.
    """
    name, digest_sign, digest = reference.partition("@")
    first, slash, _ = name.partition("/")
    if not slash or ("." not in first and ":" not in first and first != "localhost"):
        if not default_registry:
            raise ImageInvalid(
                f"image {reference} names no registry: write HOST/{name}, "
                "or set spec.defaults.imageRegistry of the IrisCluster"
            )
        name = f"{default_registry}/{name}"
    if ":" not in name.rsplit("/", 1)[-1] and not digest_sign:
        name += ":latest"
    return name + digest_sign + digest


class Images:
    """The images of one containerd namespace."""

    def __init__(self, channel: grpc.aio.Channel, namespace: str, default_registry: str = "") -> None:
        self._namespace = namespace
        self.default_registry = default_registry
        self._images = images_pb2_grpc.ImagesStub(channel)
        self._content = content_pb2_grpc.ContentStub(channel)
        self._transfer = transfer_service_pb2_grpc.TransferStub(channel)
        self._streaming = streaming_pb2_grpc.StreamingStub(channel)
        self._configs: dict[str, ImageConfig] = {}
        self._accounts: dict[str, Accounts] = {}
        self._pulls: dict[str, asyncio.Lock] = {}

    async def pull(
        self,
        reference: str,
        policy: PullPolicy,
        credentials: Sequence[Credentials],
        on_progress: Callable[[PullProgress], None] | None,
    ) -> Image:
        """See protocol.Runtime.pull. Pulls of one image wait for each other; of several, containerd shares the layers."""
        name = normalize(reference, self.default_registry)
        async with self._pulls.setdefault(name, asyncio.Lock()):
            if policy != "Always":
                present = await self._present(name)
                if present:
                    return Image(reference, present)
            if policy == "Never":
                raise ImageNotFound(f"image {reference} is not on the node, and imagePullPolicy is Never")
            await self._try_pull(name, reference, credentials, on_progress)
            present = await self._present(name)
            if not present:
                raise ImagePullFailed(f"image {reference} vanished right after its pull")
            return Image(reference, present)

    async def config(self, reference: str) -> ImageConfig:
        """The configuration of an image on the node; cached by digest."""
        digest = await self._present(normalize(reference, self.default_registry))
        if not digest:
            raise ImageNotFound(f"image {reference} is not on the node")
        if digest not in self._configs:
            async with translated():
                self._configs[digest] = await self._read_config(digest, reference)
        return self._configs[digest]

    async def accounts(self, config: ImageConfig) -> Accounts:
        """passwd and group of an image, out of its topmost layers that hold them; cached by digest."""
        if config.digest not in self._accounts:
            async with translated():
                self._accounts[config.digest] = await self._read_accounts(config)
        return self._accounts[config.digest]

    async def _present(self, name: str) -> str:
        try:
            found = await self._images.Get(images_pb2.GetImageRequest(name=name), **call_options(self._namespace))
        except grpc.aio.AioRpcError as error:
            if is_not_found(error):
                return ""
            raise translate(error) from error
        return str(found.image.target.digest)

    async def _try_pull(
        self,
        name: str,
        reference: str,
        credentials: Sequence[Credentials],
        on_progress: Callable[[PullProgress], None] | None,
    ) -> None:
        attempts: list[Credentials | None] = [*credentials] or [None]
        for number, one in enumerate(attempts, 1):
            try:
                await self._pull_once(name, one, on_progress)
                return
            except grpc.aio.AioRpcError as error:
                failure = _pull_error(reference, error)
                if isinstance(failure, ImageUnauthorized) and number < len(attempts):
                    continue
                raise failure from error

    async def _pull_once(
        self, name: str, credentials: Credentials | None, on_progress: Callable[[PullProgress], None] | None
    ) -> None:
        resolver = transfer_pb2.RegistryResolver(host_dir=_HOSTS_DIR)
        progress_id, auth_id = uuid.uuid4().hex, uuid.uuid4().hex
        helpers = [asyncio.create_task(self._watch_progress(progress_id, on_progress))]
        if credentials is not None:
            resolver.auth_stream = auth_id
            ready = asyncio.Event()
            helpers.append(asyncio.create_task(self._authenticate(auth_id, credentials, ready)))
            await asyncio.wait([asyncio.create_task(ready.wait()), helpers[-1]], return_when=asyncio.FIRST_COMPLETED)
        here = types_pb2.Platform(os="linux", architecture=ARCHITECTURE)
        source = transfer_pb2.OCIRegistry(reference=name, resolver=resolver)
        target = transfer_pb2.ImageStore(
            name=name,
            platforms=[here],
            unpacks=[transfer_pb2.UnpackConfiguration(platform=here, snapshotter=SNAPSHOTTER)],
        )
        request = transfer_service_pb2.TransferRequest(
            source=_pack(source),
            destination=_pack(target),
            options=transfer_service_pb2.TransferOptions(progress_stream=progress_id),
        )
        try:
            await asyncio.sleep(0)
            await self._transfer.Transfer(request, **call_options(self._namespace, _PULL_SECONDS))
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)

    async def _open_stream(self, stream_id: str) -> Any:
        """A stream by that id, acknowledged."""
        stream = self._streaming.Stream(metadata=in_namespace(self._namespace))
        await stream.write(_pack(streaming_pb2.StreamInit(id=stream_id)))
        await stream.read()
        return stream

    async def _watch_progress(self, stream_id: str, on_progress: Callable[[PullProgress], None] | None) -> None:
        stream = await self._open_stream(stream_id)
        done: dict[str, tuple[int, int]] = {}
        async for message in _messages(stream):
            progress = transfer_pb2.Progress()
            if message.type_url.endswith("Progress"):
                progress.ParseFromString(message.value)
                if progress.total:
                    done[progress.name] = (progress.progress, progress.total)
                if on_progress is not None and done:
                    sums = [sum(column) for column in zip(*done.values(), strict=True)]
                    on_progress(PullProgress(sums[0], sums[1]))

    async def _authenticate(self, stream_id: str, credentials: Credentials, ready: asyncio.Event) -> None:
        stream = await self._open_stream(stream_id)
        ready.set()
        answer = transfer_pb2.AuthResponse(
            authType=transfer_pb2.CREDENTIALS, username=credentials.username, secret=credentials.password
        )
        async for _ in _messages(stream):
            await stream.write(_pack(answer))

    async def _read(self, digest: str) -> bytes:
        chunks = self._content.Read(
            content_pb2.ReadContentRequest(digest=digest), metadata=in_namespace(self._namespace), timeout=_PULL_SECONDS
        )
        return b"".join([chunk.data async for chunk in chunks])

    async def _read_config(self, digest: str, reference: str) -> ImageConfig:
        manifest = json.loads(await self._read(digest))
        if "manifests" in manifest or manifest.get("mediaType") in _INDEX_TYPES:
            manifest = json.loads(await self._read(pick_manifest(manifest, ARCHITECTURE)))
        if "config" not in manifest:
            raise ImageInvalid(f"{reference} is no container image (media type {manifest.get('mediaType')})")
        return parse_config(digest, manifest, json.loads(await self._read(manifest["config"]["digest"])))

    async def _read_accounts(self, config: ImageConfig) -> Accounts:
        wanted = {"etc/passwd": "", "etc/group": ""}
        missing = set(wanted)
        for layer in reversed(config.layers):
            if not missing:
                break
            found = await asyncio.to_thread(_extract, await self._read(layer), missing)
            wanted.update(found)
            missing -= set(found)
        return Accounts(wanted["etc/passwd"], wanted["etc/group"])


async def _messages(stream: Any) -> AsyncIterator[AnyMessage]:
    """Messages until the other side closes."""
    while (message := await stream.read()) is not grpc.aio.EOF:
        yield message


def _pack(message: Any) -> AnyMessage:
    """containerd's typeurl: the bare full name."""
    return AnyMessage(type_url=message.DESCRIPTOR.full_name, value=message.SerializeToString())


def _extract(layer: bytes, names: set[str]) -> dict[str, str]:
    """Text files of a layer (plain or gzip)."""
    found: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(layer), mode="r:*") as archive:
        for member in archive:
            name = member.name.removeprefix("./").lstrip("/")
            if name in names and member.isfile():
                content = archive.extractfile(member)
                found[name] = content.read().decode(errors="replace") if content else ""
    return found


def _pull_error(reference: str, error: grpc.aio.AioRpcError) -> Exception:
    """The registry's answer, by who must act."""
    code, words = status_of(error)
    text = words.lower()
    if any(sign in text for sign in ("401", "403", "unauthorized", "forbidden", "authorization failed", "denied")):
        return ImageUnauthorized(f"the registry refuses image {reference}: {words}")
    if code is grpc.StatusCode.NOT_FOUND or "not found" in text or "404" in text:
        return ImageNotFound(f"the registry has no image {reference}: {words}")
    if code is grpc.StatusCode.INVALID_ARGUMENT or "invalid reference" in text:
        return ImageInvalid(f"{reference}: {words}")
    unavailable = translate(error)
    if code is grpc.StatusCode.UNAVAILABLE and "connect" in text and ".sock" in text:
        return unavailable
    return ImagePullFailed(f"image {reference} could not be pulled: {words or code.name}")
