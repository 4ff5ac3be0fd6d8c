"""Unpacks what a stranger packed: no path, link or device leaves the folder, and it is bounded. Blocking.

Not tarfile's data filter: Debian's Python 3.11, in the agent's image, is older than it. While files are written the folder
has no symbolic link at all, so none can be followed; links come last.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from iris_operator.agent.inputs.model import InputFault, Whose
from iris_operator.agent.inputs.safe_paths import parts_of

_CHUNK = 2**20
_GIB = 2**30
_BAD_NAMES = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.EISDIR, errno.EMLINK)


@dataclass(frozen=True)
class Limits:
    """Of one bundle, unpacked."""

    unpacked_bytes: int = 32 * _GIB
    entries: int = 500_000


def invalid(words: str) -> InputFault:
    """The archive's fault."""
    return InputFault("BundleInvalid", f"the bundle's archive {words}")


@dataclass
class Tree:
    """The folder being filled; each entry is added once, in the archive's order."""

    root: Path
    limits: Limits = field(default_factory=Limits)
    _bytes: int = 0
    _entries: int = 0
    _links: dict[tuple[str, ...], str] = field(default_factory=dict)

    def folder(self, name: str) -> None:
        """A folder."""
        self._path(name).mkdir(parents=True, exist_ok=True)

    def file(self, name: str, source: BinaryIO, *, executable: bool, modified: float) -> None:
        """A regular file, that all may read."""
        path = self._fresh(name)
        with path.open("xb") as target:
            while block := source.read(_CHUNK):
                self.count(len(block))
                target.write(block)
        path.chmod(0o755 if executable else 0o644)
        if 0 < modified < 2**33:
            os.utime(path, (modified, modified))

    def hard_link(self, name: str, to: str) -> None:
        """The same file once more."""
        source = self.root.joinpath(*_inside(to))
        if not source.is_file():
            raise invalid(f"links {name!r} to {to!r}, which is no file before it")
        if self._path(name) != source:
            os.link(source, self._fresh(name))

    def symbolic_link(self, name: str, to: str) -> None:
        """A link to a path in the folder."""
        parts = self._parts(name)
        end = posixpath.normpath("/".join((*parts[:-1], to)))
        if not parts or not to or to.startswith("/") or end == ".." or end.startswith("../") or "\0" in to:
            raise invalid(f"links {name!r} to {to!r}, outside")
        self._links[parts] = to

    def finish(self) -> None:
        """Make the links, where nothing else is, and let all look in."""
        for parts, to in self._links.items():
            path = self.root
            for part in parts[:-1]:
                path = path / part
                if path.is_symlink():
                    raise invalid(f"has {'/'.join(parts)!r} below a link")
                path.mkdir(exist_ok=True)
            path = path / parts[-1]
            if not (path.is_symlink() or path.exists()):
                path.symlink_to(to)
        for folder, _, _ in os.walk(self.root):
            Path(folder).chmod(0o755)

    def count(self, more: int) -> None:
        """So many bytes more."""
        self._bytes += more
        if self._bytes > self.limits.unpacked_bytes:
            raise InputFault("BundleTooLarge", f"the bundle is above {self.limits.unpacked_bytes // _GIB} GiB unpacked")

    def _fresh(self, name: str) -> Path:
        path = self._path(name)
        if path == self.root or path.is_dir():
            raise invalid(f"has {name!r} as a folder and as a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        return path

    def _path(self, name: str) -> Path:
        return self.root.joinpath(*self._parts(name))

    def _parts(self, name: str) -> tuple[str, ...]:
        self._entries += 1
        if self._entries > self.limits.entries:
            raise InputFault("BundleTooLarge", f"the bundle has more than {self.limits.entries} files")
        return _inside(name)


def _inside(name: str) -> tuple[str, ...]:
    try:
        return parts_of(name.lstrip("/"), "the bundle's archive")
    except InputFault as fault:
        raise InputFault("BundleInvalid", str(fault)) from fault


def unpack(archive: Path, root: Path, limits: Limits | None = None) -> None:
    """Into the empty folder `root`. InputFault BundleInvalid, BundleTooLarge; for a full disk BundleDiskFull."""
    from iris_operator.agent.inputs import unpack_tar, unpack_zip  # what they import few Tasks need

    tree = Tree(root, limits or Limits())
    with archive.open("rb") as file:
        head = file.read(512)
        file.seek(0)
        unpacker: Callable[[BinaryIO, Tree], None] | None = (
            unpack_zip.unpack_zip if head.startswith((b"PK\x03\x04", b"PK\x05\x06")) else unpack_tar.unpacker_of(head)
        )
        if unpacker is None:
            raise invalid("is none of .tar, .tar.gz, .tgz, .tar.zst and .zip")
        try:
            unpacker(file, tree)
            tree.finish()
        except (NotADirectoryError, FileExistsError) as error:
            raise invalid("has one path as a file and as a folder") from error
        except OSError as error:
            if error.errno in _BAD_NAMES:
                raise invalid(f"has a path that can't be made here: {error.strerror}") from error
            raise InputFault("BundleDiskFull", f"unpacking the bundle: {error.strerror}", Whose.PLATFORM) from error
