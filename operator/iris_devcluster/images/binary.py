"""Images of one static program: CoreDNS, pause, and the examples' busybox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from iris_devcluster import command
from iris_devcluster.errors import DevclusterError
from iris_devcluster.images.oci import Config, Image, Layer, architecture, assemble, digest_of
from iris_devcluster.images.store import Store
from iris_devcluster.images.tree import Entry, directory, write_tar

_BUSYBOX = Path("/bin/busybox")
_COPYRIGHT = Path("/usr/share/doc/busybox-static/copyright")
_REMEDY = "apt-get install busybox-static"
_LOADERS = (b"/ld-linux", b"/ld-musl")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def image_from_binary(
    name: str,
    binary: Path,
    entrypoint: Sequence[str] = (),
    cmd: Sequence[str] = (),
    user: str = "65532:65532",
    store: Store | None = None,
) -> Image:
    """An image with nothing but `binary`, as /<name>; it is started by default, or by `entrypoint` if given.

    Raises DevclusterError when the program is missing or needs libraries that the image would not have.
    """
    files = [Entry(name, _static(binary), 0o755), Entry("etc/passwd", b"nonroot:x:65532:65532::/:/sbin/nologin\n")]
    layer = _layer(store or Store(), name, files)
    return assemble([layer], Config(entrypoint=entrypoint or (f"/{name}",), cmd=cmd, user=user, env={"PATH": _PATH}))


def task_image(labels: Mapping[str, str], busybox: Path = _BUSYBOX, store: Store | None = None) -> Image:
    """The examples' image: a static busybox under the names of all its commands, and nothing more."""
    content = _static(busybox, _REMEDY)
    applets = command.run([str(busybox), "--list-full"]).split()
    links = [Entry(applet, link="/bin/busybox") for applet in applets if applet != "bin/busybox"]
    folders = [
        directory("tmp", 0o1777),
        *(directory(name) for name in ("proc", "sys", "dev", "run", "var/tmp", "root")),
    ]
    accounts = [
        Entry("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"),
        Entry("etc/group", b"root:x:0:\nnogroup:x:65534:\n"),
    ]
    layer = _layer(store or Store(), "busybox", [Entry("bin/busybox", content, 0o755), *links, *folders, *accounts])
    return assemble([layer], Config(cmd=("/bin/sh",), env={"PATH": _PATH}, labels=labels))


def busybox_layer(path: str, busybox: Path = _BUSYBOX, store: Store | None = None) -> Layer:
    """A static busybox at `path`, with the words that its licence wants beside it."""
    entries = [Entry(path, _static(busybox, _REMEDY), 0o755)]
    if _COPYRIGHT.exists():
        entries.append(Entry(str(_COPYRIGHT).lstrip("/"), _COPYRIGHT.read_bytes()))
    return _layer(store or Store(), "busybox", entries)


def _layer(store: Store, name: str, entries: Sequence[Entry]) -> Layer:
    # Keyed by its content, which is at hand: a new version of the program is a new layer.
    facts = [(entry.path, entry.mode, entry.link, entry.directory, digest_of(entry.content)) for entry in entries]
    path = store.path("binary", facts, architecture())
    if not store.has(path):
        with store.making(path) as partial:
            write_tar(partial / "layer.tar", entries)
    return Layer.of(path / "layer.tar", name)


def _static(binary: Path, remedy: str = "build it with CGO_ENABLED=0") -> bytes:
    if not binary.exists():
        raise DevclusterError(f"{binary} is missing; {remedy}")
    content = binary.read_bytes()
    # The name of the loader, when there is one, stands right behind the program headers.
    if any(loader in content[:4096] for loader in _LOADERS):
        raise DevclusterError(f"{binary} needs shared libraries, an image of it alone could not start; {remedy}")
    return content
