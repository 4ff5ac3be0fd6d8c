"""The image that holds a Pod's namespaces open, as an OCI archive: Debian's static busybox, sleeping."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from iris_devcluster.errors import DevclusterError

BUSYBOX = Path("/bin/busybox")
_TAR = "application/vnd.oci.image.layer.v1.tar"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def write_pause_archive(path: Path, reference: str, binary: Path = BUSYBOX) -> None:
    """Write the archive to `path` unless it is there; the same bytes for the same binary.

    Raises DevclusterError when the binary is missing or needs a dynamic loader.
    """
    if path.exists():
        return
    if not is_static(binary):
        raise DevclusterError(f"{binary} is not a static busybox; install busybox-static (iris-devcluster setup)")
    layer = _tar([("busybox", binary.read_bytes(), 0o755)])
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/busybox", "sleep", "infinity"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config),
            "layers": [_descriptor(_TAR, layer)],
        }
    )
    names = {"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": reference}
    index = _json({"schemaVersion": 2, "manifests": [{**_descriptor(_MANIFEST, manifest), "annotations": names}]})
    blobs = [(f"blobs/sha256/{_digest(blob)[7:]}", blob, 0o644) for blob in (layer, config, manifest)]
    layout = ("oci-layout", _json({"imageLayoutVersion": "1.0.0"}), 0o644)
    partial = path.with_suffix(".part")
    partial.write_bytes(_tar([layout, *blobs, ("index.json", index, 0o644)]))
    partial.replace(path)


def is_static(binary: Path) -> bool:
    """Whether the program is there and needs no dynamic loader, which its image would lack."""
    return binary.exists() and b"/ld-linux" not in binary.read_bytes()[:4096]


def _tar(files: list[tuple[str, bytes, int]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content, mode in files:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}
