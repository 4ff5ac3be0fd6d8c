"""The files of one layer, and a tar of them that depends on nothing but them."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath

EPOCH = 0
"""Modification time of every file, seconds since 1970: two builds of the same files are the same bytes."""


@dataclass(frozen=True)
class Entry:
    """One file, directory or symbolic link of a layer; `path` is relative to the image's root."""

    path: str
    content: bytes = b""
    mode: int = 0o644
    link: str = ""
    directory: bool = False
    uid: int = 0
    gid: int = 0

    def info(self) -> tarfile.TarInfo:
        info = tarfile.TarInfo(self.path)
        info.mtime, info.uid, info.gid = EPOCH, self.uid, self.gid
        if self.directory:
            info.type, info.mode = tarfile.DIRTYPE, self.mode
        elif self.link:
            info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, self.link
        else:
            info.size, info.mode = len(self.content), self.mode
        return info


def directory(path: str, mode: int = 0o755) -> Entry:
    """A directory of its own, where its mode matters or it stays empty."""
    return Entry(path, mode=mode, directory=True)


def write_tar(path: Path, entries: Iterable[Entry]) -> None:
    """Write the entries in the order of their paths, each parent directory before what it holds."""
    by_path = {entry.path: entry for entry in entries}
    for entry in list(by_path.values()):
        for parent in PurePosixPath(entry.path).parents:
            if parent.name:
                by_path.setdefault(str(parent), directory(str(parent)))
    partial = path.with_name(path.name + ".part")
    with tarfile.open(partial, "w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(by_path):
            archive.addfile(by_path[name].info(), BytesIO(by_path[name].content))
    partial.replace(path)


def read_folder(folder: Path, prefix: str = "") -> list[Entry]:
    """Every file and link below a folder, at `prefix` in the image. Executable or not is all that stays of a mode."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = f"{prefix}/{path.relative_to(folder)}".lstrip("/")
        if path.is_symlink():
            found.append(Entry(name, link=str(path.readlink())))
        elif path.is_file():
            mode = 0o755 if path.stat().st_mode & 0o111 else 0o644
            found.append(Entry(name, path.read_bytes(), mode))
    return found


def write_folder(folder: Path, entries: Iterable[Entry]) -> None:
    """The entries as files on disk, owned by who runs this."""
    for entry in entries:
        target = folder / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.link:
            target.symlink_to(entry.link)
        elif not entry.directory:
            target.write_bytes(entry.content)
            target.chmod(entry.mode)
