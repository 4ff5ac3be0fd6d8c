"""Layers and a configuration put together to an image, as the OCI image specification 1.1 has it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from iris_devcluster.errors import DevclusterError

_PREFIX = "application/vnd.oci.image"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CREATED = "1970-01-01T00:00:00Z"


def architecture() -> str:
    """This machine's, in the words of OCI; raises DevclusterError for one that nothing here supports."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise DevclusterError(f"images can be built on {' and '.join(_ARCHITECTURES)}, not on {machine}")
    return _ARCHITECTURES[machine]


def digest_of(content: bytes) -> str:
    """`sha256:` and the hash."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Layer:
    """An uncompressed tar: unpacking it is fast, and its digest depends on no compressor's version."""

    path: Path
    digest: str
    size: int
    comment: str = ""

    @classmethod
    def of(cls, path: Path, comment: str = "") -> Layer:
        """Describe a finished tar file."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return cls(path, f"sha256:{digest}", path.stat().st_size, comment)


@dataclass(frozen=True)
class Config:
    """How a container of the image starts."""

    entrypoint: Sequence[str] = ()
    cmd: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    working_dir: str = "/"
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Image:
    """A whole image; its `digest` is that of its manifest, so equal inputs mean equal digests."""

    layers: tuple[Layer, ...]
    config: bytes
    manifest: bytes

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)

    @property
    def tag(self) -> str:
        """A tag that changes whenever the content does."""
        return f"sha-{self.digest.removeprefix('sha256:')[:16]}"

    @property
    def size(self) -> int:
        """Bytes of all layers, unpacked."""
        return sum(layer.size for layer in self.layers)


def assemble(layers: Sequence[Layer], config: Config) -> Image:
    """The image of these layers, bottom first."""
    wanted = {
        "Entrypoint": list(config.entrypoint),
        "Cmd": list(config.cmd),
        "Env": [f"{key}={value}" for key, value in sorted(config.env.items())],
        "User": config.user,
        "WorkingDir": config.working_dir,
        "Labels": dict(config.labels),
    }
    raw_config = _json(
        {
            "architecture": architecture(),
            "os": "linux",
            "created": _CREATED,
            "config": {key: value for key, value in wanted.items() if value},
            "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
            "history": [{"created": _CREATED, "created_by": "iris", "comment": layer.comment} for layer in layers],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_PREFIX}.manifest.v1+json",
            "config": _descriptor(f"{_PREFIX}.config.v1+json", digest_of(raw_config), len(raw_config)),
            "layers": [_descriptor(f"{_PREFIX}.layer.v1.tar", layer.digest, layer.size) for layer in layers],
        }
    )
    return Image(tuple(layers), raw_config, manifest)


def write_layout(folder: Path, image: Image) -> None:
    """An OCI image layout, which crane and skopeo read; layers are hard links where the file system allows."""
    shutil.rmtree(folder, ignore_errors=True)
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for layer in image.layers:
        _link_or_copy(layer.path, blobs / layer.digest.removeprefix("sha256:"))
    for blob in (image.config, image.manifest):
        (blobs / digest_of(blob).removeprefix("sha256:")).write_bytes(blob)
    (folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    (folder / "index.json").write_bytes(_index(image, ()))


def write_archive(path: Path, image: Image, references: Sequence[str]) -> None:
    """One tar for `ctr images import`, `docker load` and `kind load image-archive`, under these full names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    blobs = {digest_of(blob): blob for blob in (image.config, image.manifest)}
    with tarfile.open(partial, "w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _index(image, references))
        _add(archive, "manifest.json", _docker_manifest(image, references))
        for digest, blob in sorted(blobs.items()):
            _add(archive, _blob(digest), blob)
        for layer in {layer.digest: layer for layer in image.layers}.values():
            info = tarfile.TarInfo(_blob(layer.digest))
            info.size, info.mode = layer.size, 0o644
            with layer.path.open("rb") as file:
                archive.addfile(info, file)
    partial.replace(path)


def _index(image: Image, references: Sequence[str]) -> bytes:
    plain = _descriptor(f"{_PREFIX}.manifest.v1+json", image.digest, len(image.manifest))
    plain["platform"] = {"architecture": architecture(), "os": "linux"}
    names = [
        {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
        for name in references
    ]
    manifests = [{**plain, "annotations": name} for name in names] or [plain]
    return _json({"schemaVersion": 2, "mediaType": f"{_PREFIX}.index.v1+json", "manifests": manifests})


def _docker_manifest(image: Image, references: Sequence[str]) -> bytes:
    """What `docker load` and kind read beside the OCI index."""
    layers = [_blob(layer.digest) for layer in image.layers]
    return _json([{"Config": _blob(digest_of(image.config)), "RepoTags": list(references), "Layers": layers}])


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    archive.addfile(info, BytesIO(content))


def _link_or_copy(source: Path, target: Path) -> None:
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(source, target)


def _descriptor(media_type: str, digest: str, size: int) -> dict[str, object]:
    return {"mediaType": media_type, "digest": digest, "size": size}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
