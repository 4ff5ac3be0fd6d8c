"""Images: pulled by containerd's transfer service, their configuration read from its content store."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Sequence

import grpc

from iris_runtimes.containerd.channel import call_options, translated, unless_gone
from iris_runtimes.containerd.content import Content
from iris_runtimes.containerd.image_config import Accounts, ImageConfig, parse_config, pick_manifest
from iris_runtimes.containerd.maker import SNAPSHOTTER
from iris_runtimes.containerd.proto import images_pb2, images_pb2_grpc, snapshots_pb2, snapshots_pb2_grpc, types_pb2
from iris_runtimes.containerd.reference import normalize
from iris_runtimes.containerd.transfer import STALL_SECONDS, OnProgress, Puller
from iris_runtimes.errors import ImageInvalid, ImageNotFound, ImagePullFailed
from iris_runtimes.protocol import Credentials, Image, PullPolicy

HOSTS_DIR = "/etc/containerd/certs.d"  # as containerd sees it; one that is not there is no error
_INDEX_TYPES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


class Images:
    """The images of one containerd namespace. `hosts_dir`: registries' settings, as containerd's host sees the folder."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        namespace: str,
        default_registry: str = "",
        hosts_dir: str = HOSTS_DIR,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self.default_registry = default_registry
        self._call = call_options(namespace)
        self._images = images_pb2_grpc.ImagesStub(channel)
        self._snapshots = snapshots_pb2_grpc.SnapshotsStub(channel)
        self._content = Content(channel, namespace)
        here = types_pb2.Platform(os="linux", architecture=ARCHITECTURE)
        self._puller = Puller(channel, namespace, here, SNAPSHOTTER, hosts_dir, stall_seconds)
        self._configs: dict[str, ImageConfig] = {}
        self._accounts: dict[str, Accounts] = {}
        self._unpacked: set[str] = set()
        self._pulls: dict[str, asyncio.Lock] = {}

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
                present = await self._present(name)
                if present and await self._is_unpacked(present, reference):
                    return Image(reference, present)
            if policy == "Never":
                raise ImageNotFound(f"image {reference} is not on the node, and imagePullPolicy is Never")
            await self._puller.pull(name, reference, credentials, on_progress)
            present = await self._present(name)
            if not present or not await self._is_unpacked(present, reference):  # or, said there: for no such machine
                raise ImagePullFailed(f"image {reference} vanished right after its pull")
            return Image(reference, present)

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

    async def _present(self, name: str) -> str:
        async with translated():
            found = await unless_gone(self._images.Get(images_pb2.GetImageRequest(name=name), **self._call))
        return "" if found is None else str(found.image.target.digest)

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
