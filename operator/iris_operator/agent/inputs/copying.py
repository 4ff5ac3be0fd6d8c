"""Bundles that lie on a volume: a folder is copied, an archive read; through no link, for others may write there. Blocking."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from iris_operator.agent.inputs.bundle_store import LARGEST_ARCHIVE_BYTES, Sink
from iris_operator.agent.inputs.model import InputFault
from iris_operator.agent.inputs.safe_paths import opened_beneath
from iris_operator.agent.inputs.unpack import Limits

_CHUNK = 2**20
_DEEPEST = 64
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO must not hold us


def is_folder(root: Path, parts: tuple[str, ...], what: str) -> bool:
    """Whether a folder is there, or a file. InputFault BundleNotFound, BundleInvalid."""
    mode = _stat(root, parts, what).st_mode
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise InputFault("BundleInvalid", f"{what} is neither a folder nor a file")
    return stat.S_ISDIR(mode)


def digest_of(root: Path, parts: tuple[str, ...], what: str) -> str:
    """sha256 of a file. InputFault."""
    found, size = hashlib.sha256(), 0
    with _opened(root, parts, what) as file:
        while block := os.read(file, _CHUNK):
            found.update(block)
            size += len(block)
            if size > LARGEST_ARCHIVE_BYTES:
                raise InputFault("BundleTooLarge", f"{what} is above {LARGEST_ARCHIVE_BYTES // 2**30} GiB")
    return f"sha256:{found.hexdigest()}"


def pour(root: Path, parts: tuple[str, ...], what: str, sink: Sink) -> None:
    """A file into the sink. InputFault."""
    with _opened(root, parts, what) as file:
        sink.expect(os.fstat(file).st_size)
        while block := os.read(file, _CHUNK):
            sink.take(block)


def copy_folder(root: Path, parts: tuple[str, ...], target: Path, what: str, limits: Limits | None = None) -> None:
    """Files, folders and links as they are, into the new folder `target`. InputFault."""
    target.mkdir(parents=True)
    target.chmod(0o755)
    with _opened(root, parts, what) as folder:
        _Copy(what, limits or Limits()).folder(folder, target, 0)


class _Copy:
    def __init__(self, what: str, limits: Limits) -> None:
        self._what, self._limits = what, limits
        self._bytes = self._entries = 0

    def folder(self, held: int, target: Path, depth: int) -> None:
        if depth > _DEEPEST:
            raise InputFault("BundleTooLarge", f"{self._what} is more than {_DEEPEST} folders deep")
        with os.scandir(held) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            self._count(1, 0)
            self._entry(held, name, target / name, depth)

    def _entry(self, held: int, name: str, target: Path, depth: int) -> None:
        try:
            file = os.open(name, _OPEN, dir_fd=held)
        except FileNotFoundError:
            return  # it went meanwhile
        except OSError as error:
            if error.errno == errno.ELOOP:
                target.symlink_to(os.readlink(name, dir_fd=held))
                return
            if error.errno == errno.ENXIO:
                return  # a socket
            raise
        try:
            mode = os.fstat(file).st_mode
            if stat.S_ISDIR(mode):
                target.mkdir()
                target.chmod(0o755)
                self.folder(file, target, depth + 1)
            elif stat.S_ISREG(mode):
                self._file(file, target, executable=bool(mode & 0o111))
        finally:
            os.close(file)

    def _file(self, source: int, target: Path, *, executable: bool) -> None:
        with target.open("xb") as file:
            while block := os.read(source, _CHUNK):
                self._count(0, len(block))
                file.write(block)
        target.chmod(0o755 if executable else 0o644)

    def _count(self, entries: int, size: int) -> None:
        self._entries += entries
        self._bytes += size
        if self._bytes > self._limits.unpacked_bytes or self._entries > self._limits.entries:
            raise InputFault("BundleTooLarge", f"{self._what} is larger than a bundle may be: mount the volume")


def _stat(root: Path, parts: tuple[str, ...], what: str) -> os.stat_result:
    if not parts:
        return root.stat()
    with _opened(root, parts, what, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC) as found:
        return os.fstat(found)


@contextmanager
def _opened(root: Path, parts: tuple[str, ...], what: str, flags: int = _OPEN) -> Iterator[int]:
    """opened_beneath with the user's errors."""
    with ExitStack() as stack:
        try:
            held = stack.enter_context(opened_beneath(root, parts, flags))
        except FileNotFoundError as error:
            raise InputFault("BundleNotFound", f"{what} is not there") from error
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            raise InputFault("BundleInvalid", f"{what} leads through a symbolic link or a file") from error
        yield held
