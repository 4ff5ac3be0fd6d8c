"""Images: pulled by containerd's transfer service, their configuration read from its content store."""

from __future__ import annotations

import asyncio
import platform
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import call_options, translated, unless_gone
from iris_runtimes.containerd.content import Content
from iris_runtimes.containerd.image_config import Accounts, ImageConfig, parse_config, pick_manifest
from iris_runtimes.containerd.image_records import ImageRecords
from iris_runtimes.containerd.maker import SNAPSHOTTER
from iris_runtimes.containerd.proto import snapshots_pb2, types_pb2
from iris_runtimes.containerd.transfer import STALL_SECONDS, OnProgress, Puller
from iris_runtimes.errors import ImageInUse, ImageInvalid, ImageNotFound, ImagePullFailed, NodeFault
from iris_runtimes.protocol import Credentials, Image, PullPolicy, StoredImage
from iris_runtimes.reference import normalize

HOSTS_DIR = "/etc/containerd/certs.d"  # as containerd sees it; one that is not there is no error
_INDEX_TYPES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_SEEN_SECONDS = 1.0  # a burst of Tasks of one image looks once
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


class Images:
    """The images of one containerd namespace. `hosts_dir`: registries' settings, as containerd's host sees the folder."""

    def __init__(
        self,
        channel: rpc.Channel,
        namespace: str,
        default_registry: str = "",
        hosts_dir: str = HOSTS_DIR,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self.default_registry = default_registry
        self._call = call_options(namespace)
        self._records = ImageRecords(channel, namespace)
        self._snapshots = rpc.Service(channel, snapshots_pb2, "Snapshots")
        self._content = Content(channel, namespace)
        here = types_pb2.Platform(os="linux", architecture=ARCHITECTURE)
        self._puller = Puller(channel, namespace, here, SNAPSHOTTER, hosts_dir, stall_seconds)
        self._configs: dict[str, ImageConfig] = {}
        self._accounts: dict[str, Accounts] = {}
        self._unpacked: set[str] = set()
        self._seen: dict[str, tuple[str, float]] = {}  # name -> digest, and when we looked
        self._pulls: dict[str, asyncio.Lock] = {}
        self._removing = asyncio.Lock()
        self._starting: Counter[str] = Counter()

    async def pull(
        self,
        reference: str,
        policy: PullPolicy,
        credentials: Sequence[Credentials],
        on_progress: OnProgress | None,
    ) -> Image:
        """See protocol.Runtime.pull. Pulls of one image wait for each other; of several, containerd shares the layers."""
        name = normalize(reference, self.default_registry)
        async with self._pulls.setdefault(name, asyncio.Lock()):
            if policy != "Always":
                present = await self._present(name, used=True)
                if present and await self._is_unpacked(present, reference):
                    return Image(reference, present)
            if policy == "Never":
                raise ImageNotFound(f"image {reference} is not on the node, and imagePullPolicy is Never")
            await self._puller.pull(name, reference, credentials, on_progress)
            self._seen.pop(name, None)
            present = await self._present(name, used=True)
            if not present or not await self._is_unpacked(present, reference):  # or, said there: for no such machine
                raise ImagePullFailed(f"image {reference} vanished right after its pull")
            return Image(reference, present)

    async def present(self, reference: str) -> Image | None:
        """See protocol.Runtime.present."""
        digest = await self._present(normalize(reference, self.default_registry))
        return Image(reference, digest) if digest and await self._is_unpacked(digest, reference) else None

    async def all(self) -> list[StoredImage]:
        """See protocol.Runtime.images."""
        async with translated():
            held = {self._full(name) for name in await self._records.held()}
            return [await self._stored(image, image.name in held) for image in await self._records.all()]

    async def remove(self, reference: str, unused_since: datetime | None) -> None:
        """See protocol.Runtime.remove_image."""
        name = normalize(reference, self.default_registry)
        async with self._pulls.setdefault(name, asyncio.Lock()), self._removing, translated():
            image = await self._records.get(name)
            if image is None:
                return
            if self._starting[name] or name in {self._full(one) for one in await self._records.held()}:
                raise ImageInUse(f"image {reference} is not removed: a sandbox stands on it")
            if unused_since is not None and (used := self._records.last_used(image)) > unused_since:
                raise ImageInUse(f"image {reference} is not removed: it was used at {used:%Y-%m-%dT%H:%M:%SZ}")
            self._seen.pop(name, None)
            await self._records.delete(name)
            self._unpacked.discard(image.target.digest)
            self._configs.pop(image.target.digest, None)
            self._accounts.pop(image.target.digest, None)

    @asynccontextmanager
    async def being_started_from(self, reference: str) -> AsyncIterator[None]:
        """While the body runs the image is not removed."""
        name = normalize(reference, self.default_registry)
        async with self._removing:  # wait for a removal's end: then it is seen to be gone
            self._starting[name] += 1
        try:
            yield
        finally:
            self._starting[name] -= 1
            if not self._starting[name]:
                del self._starting[name]

    async def config(self, reference: str) -> ImageConfig:
        """The configuration of an image on the node; cached by digest."""
        digest = await self._present(normalize(reference, self.default_registry))
        if not digest:
            raise ImageNotFound(f"image {reference} is not on the node")
        return await self._config_of(digest, reference)

    async def accounts(self, config: ImageConfig) -> Accounts:
        """passwd and group of an image, out of its topmost layers that hold them; cached by digest."""
        if config.digest not in self._accounts:
            found: dict[str, str] = {}
            async with translated():
                for layer in reversed(config.layers):
                    missing = {"etc/passwd", "etc/group"} - set(found)
                    if missing:
                        found.update(await self._content.files(layer, missing))
            self._accounts[config.digest] = Accounts(found.get("etc/passwd", ""), found.get("etc/group", ""))
        return self._accounts[config.digest]

    def forget_unpacked(self, config: ImageConfig) -> None:
        """Its snapshot turned out to be missing: the next pull looks again."""
        self._unpacked.discard(config.digest)

    async def _present(self, name: str, *, used: bool = False) -> str:
        """Its digest; empty when it is not here. `used`: it is about to be."""
        now = asyncio.get_running_loop().time()
        digest, at = self._seen.get(name, ("", 0.0))
        if digest and now - at < _SEEN_SECONDS:
            if used:
                self._records.note_use(name, datetime.now(UTC))
            return digest
        async with translated():
            found = await self._records.get(name)
            if found is not None and used:
                await self._records.touch(found, datetime.now(UTC))
        if found is None:
            return ""
        self._seen[name] = (str(found.target.digest), now)
        return str(found.target.digest)

    async def _stored(self, image: Any, in_use: bool) -> StoredImage:
        digest, size = str(image.target.digest), 0
        with suppress(ImageInvalid, NodeFault):  # a pull that was cut off has left a part
            config = await self._config_of(digest, image.name)
            size = config.blob_bytes + await self._records.unpacked_bytes(config)
        held = in_use or bool(self._starting[image.name])
        return StoredImage(image.name, digest, size, self._records.last_used(image), held)

    def _full(self, written: str) -> str:
        try:
            return normalize(written, self.default_registry)
        except ImageInvalid:  # a sandbox of an agent with another default registry
            return written

    async def _is_unpacked(self, digest: str, reference: str) -> bool:
        """Whether a sandbox can start from it: a pull that was cut off, or an import, may have left the blobs alone."""
        if digest not in self._unpacked:
            config = await self._config_of(digest, reference)
            request = snapshots_pb2.StatSnapshotRequest(snapshotter=SNAPSHOTTER, key=config.chain_id)
            async with translated():
                if await unless_gone(self._snapshots.Stat(request, **self._call)) is None:
                    return False
            self._unpacked.add(digest)
        return True

    async def _config_of(self, digest: str, reference: str) -> ImageConfig:
        if digest not in self._configs:
            async with translated():
                manifest = await self._content.document(digest)
                if "manifests" in manifest or manifest.get("mediaType") in _INDEX_TYPES:
                    manifest = await self._content.document(pick_manifest(manifest, ARCHITECTURE))
                if "config" not in manifest:
                    raise ImageInvalid(f"{reference} is no container image (media type {manifest.get('mediaType')})")
                config = await self._content.document(manifest["config"]["digest"])
            self._configs[digest] = parse_config(digest, manifest, config)
        return self._configs[digest]
