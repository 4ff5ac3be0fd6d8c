"""Tar archives, plain, gzip or zstd, read as a stream."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable
from typing import BinaryIO, cast

import zstandard

from iris_operator.agent.inputs.unpack import Tree, invalid

# A tar header that says how long a name is: tarfile would read it whole into memory.
_LONGEST_HEADER = 2**20
_LARGEST_WINDOW = 2**27  # what `zstd -d` takes without being told to take more


def unpacker_of(head: bytes) -> Callable[[BinaryIO, Tree], None] | None:
    """By its first 512 bytes; None: no tar."""
    if head.startswith(b"\x1f\x8b"):
        return lambda file, tree: _unpack(cast(BinaryIO, gzip.GzipFile(fileobj=file)), tree)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return _unpack_zstd
    return _unpack if head[257:262] == b"ustar" or _is_old_tar(head) else None


def _is_old_tar(head: bytes) -> bool:
    try:
        return len(head) == 512 and bool(tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape").name)
    except tarfile.HeaderError:
        return False


def _unpack_zstd(file: BinaryIO, tree: Tree) -> None:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    with decompressor.stream_reader(file, read_across_frames=True) as plain:
        _unpack(cast(BinaryIO, plain), tree)


class _BoundedInfo(tarfile.TarInfo):
    """A header of bounded length."""

    def _bounded(self) -> None:
        if self.size > _LONGEST_HEADER:
            raise invalid("has a header of more than 1 MiB")

    def _proc_gnulong(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        self._bounded()
        return super()._proc_gnulong(archive)  # type: ignore[misc,no-any-return]

    def _proc_pax(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        self._bounded()
        return super()._proc_pax(archive)  # type: ignore[misc,no-any-return]


def _unpack(plain: BinaryIO, tree: Tree) -> None:
    members = 0
    try:
        with tarfile.open(fileobj=plain, mode="r|", tarinfo=_BoundedInfo) as archive:
            while (member := archive.next()) is not None:
                members += 1
                _add(archive, member, tree)
                vars(archive)["members"] = []  # it would keep them all
    except (tarfile.TarError, zlib.error, zstandard.ZstdError, EOFError, gzip.BadGzipFile, ValueError) as error:
        raise invalid(f"is damaged after {members} entries: {error}") from error


def _add(archive: tarfile.TarFile, member: tarfile.TarInfo, tree: Tree) -> None:
    if member.isdir():
        tree.folder(member.name)
    elif member.issym():
        tree.symbolic_link(member.name, member.linkname)
    elif member.islnk():
        tree.hard_link(member.name, member.linkname)
    elif member.isreg():
        content = archive.extractfile(member)
        assert content is not None
        executable = bool(member.mode & 0o111)
        tree.file(member.name, cast(BinaryIO, content), executable=executable, modified=float(member.mtime))
    else:
        raise invalid(f"has {member.name!r}, which is neither file nor folder nor link")
