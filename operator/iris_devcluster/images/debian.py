"""The base layer: Debian's Python as mmdebstrap fetches and verifies it, less all that Python does not need."""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from iris_devcluster import command
from iris_devcluster.errors import DevclusterError
from iris_devcluster.images import compiled
from iris_devcluster.images.oci import Layer, architecture
from iris_devcluster.images.recipe import Base
from iris_devcluster.images.store import Store
from iris_devcluster.images.tree import Entry, directory, read_folder, write_folder, write_tar

# 65532 is the uid that distroless images made usual for "not root".
_USERS = """root:x:0:0:root:/:/sbin/nologin
nobody:x:65534:65534:nobody:/:/sbin/nologin
iris:x:65532:65532:iris:/:/sbin/nologin
"""
_GROUPS = "root:x:0:\nnogroup:x:65534:\niris:x:65532:\n"
_MERGED = re.compile(r"^(bin|sbin|lib|lib64)/")
_CERTIFICATES = "usr/share/ca-certificates/"


@dataclass(frozen=True)
class DebianBase:
    """The layer, and the same files on disk: their Python compiles what goes on top."""

    layer: Layer
    python: compiled.Python


def base_layer(base: Base, store: Store) -> DebianBase:
    """The base, from the cache or newly fetched; raises DevclusterError when that can't be done."""
    path = store.path("base", asdict(base), architecture())
    if not store.has(path):
        with store.making(path) as partial:
            _make(base, partial)
    layer = Layer.of(path / "layer.tar", f"Debian {base.suite}: Python {base.python}")
    return DebianBase(layer, compiled.Python(path / "files", base.python))


def _make(base: Base, folder: Path) -> None:
    fetched = folder / "debian.tar"
    _fetch(base, fetched)
    entries = {entry.path: entry for entry in select(base, fetched)}
    entries |= {entry.path: entry for entry in _join_certificates(entries)}
    fetched.unlink()
    files = folder / "files"
    write_folder(files, entries.values())
    compiled.Python(files, base.python).compile(files, [f"usr/lib/python{base.python}"])
    write_tar(folder / "layer.tar", [*read_folder(files), *_own_files(base)])


def _fetch(base: Base, target: Path) -> None:
    if shutil.which("mmdebstrap") is None:
        raise DevclusterError("mmdebstrap is missing; run: apt-get install mmdebstrap debian-archive-keyring")
    # `extract`: packages are fetched, verified and unpacked, their maintainer scripts never run.
    argv = ["mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(base.packages)}"]
    command.run([*argv, base.suite, str(target)])


def select(base: Base, archive: Path) -> Iterator[Entry]:
    """The entries of a Debian root file system that belong into the base, with /usr merged."""
    with tarfile.open(archive) as tar:
        for member in tar:
            path = _MERGED.sub(r"usr/\1/", member.name.removeprefix("./"))
            if not base.selection.takes(path):
                continue
            if member.issym():
                yield Entry(path, link=member.linkname)
            elif member.isfile():
                file = tar.extractfile(member)
                yield Entry(path, file.read() if file else b"", 0o755 if member.mode & 0o111 else 0o644)


def _join_certificates(entries: dict[str, Entry]) -> list[Entry]:
    """One bundle where OpenSSL looks, as update-ca-certificates would make it."""
    single = sorted(path for path in entries if path.startswith(_CERTIFICATES))
    bundle = b"".join(entries.pop(path).content.rstrip() + b"\n" for path in single)
    name = "etc/ssl/certs/ca-certificates.crt"
    return [Entry(name, bundle), Entry("usr/lib/ssl/cert.pem", link=f"/{name}")]


def _own_files(base: Base) -> list[Entry]:
    links = [Entry(name, link=f"usr/{name}") for name in ("bin", "lib", "lib64", "sbin")]
    return [
        *links,
        *(directory(name) for name in ("usr/sbin", "usr/lib64", "proc", "sys", "dev", "run", "var/tmp")),
        directory("tmp", 0o1777),
        Entry("usr/bin/python3", link=f"python{base.python}"),
        Entry("etc/passwd", _USERS.encode()),
        Entry("etc/group", _GROUPS.encode()),
        Entry("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n"),
        Entry("etc/os-release", b'PRETTY_NAME="Iris (Debian, minimal)"\nID=debian\n'),
    ]
