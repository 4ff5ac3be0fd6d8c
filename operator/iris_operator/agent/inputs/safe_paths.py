"""Paths that users write, below folders that users fill: opened part by part, through no symbolic link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iris_operator.agent.inputs.model import InputFault

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 64
_ANY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def parts_of(path: str, where: str) -> tuple[str, ...]:
    """A relative path's parts, without '.'. InputFault InvalidPath for '..', NUL and absolute ones; `where`: the field."""
    if path.startswith("/") or "\0" in path:
        raise InputFault("InvalidPath", f"{where}: {path!r} is not a relative path")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts or len(parts) > _DEEPEST:
        raise InputFault("InvalidPath", f"{where}: {path!r} has a '..', or more than {_DEEPEST} parts")
    return parts


@contextmanager
def opened_beneath(root: Path, parts: tuple[str, ...], flags: int = _ANY) -> Iterator[int]:
    """A descriptor of what is at that path. FileNotFoundError; NotADirectoryError, also for a link on the way;
    OSError ELOOP for a link at its end (`flags` hold O_NOFOLLOW, and O_PATH descriptors of links count as such)."""
    held = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, part in enumerate(parts, 1):
            last = number == len(parts)
            inner = os.open(part, (flags | os.O_NOFOLLOW) if last else _FOLDER, dir_fd=held)
            os.close(held)
            held = inner
        if stat.S_ISLNK(os.fstat(held).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        yield held
    finally:
        os.close(held)


def make_beneath(root: Path, parts: tuple[str, ...], mode: int) -> None:
    """Folders down to that path, those that are missing made with `mode`. NotADirectoryError as in opened_beneath."""
    held = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            made = _made(part, held)
            inner = os.open(part, _FOLDER, dir_fd=held)
            os.close(held)
            held = inner
            if made:
                os.fchmod(held, mode)  # whatever the umask
    finally:
        os.close(held)


def _made(part: str, folder: int) -> bool:
    try:
        os.mkdir(part, dir_fd=folder)
    except FileExistsError:
        return False
    return True
