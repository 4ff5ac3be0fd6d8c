"""Takes away what an attempt left. Nothing that a Task made stops it: depth, modes, owners, links."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path


def remove_tree(path: Path, trash: Path) -> None:
    """Remove a folder of ours and all below it; gone already is success. `trash`: a folder on the same file system."""
    if not path.exists():
        return
    heap = trash / uuid.uuid4().hex
    heap.mkdir(parents=True)
    with contextlib.suppress(FileNotFoundError):
        path.rename(heap / "0")
    _burn(heap)


def empty_trash(trash: Path) -> None:
    """Finish removals that were cut off. Only before others begin."""
    if trash.is_dir():
        for heap in list(trash.iterdir()):
            _burn(heap)


def _burn(heap: Path) -> None:
    """Folders are moved up into the heap before they are emptied: so no path grows long, and no recursion deep."""
    while left := list(heap.iterdir()):
        for folder in left:
            _empty(folder, heap)
    heap.rmdir()


def _empty(folder: Path, heap: Path) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                Path(entry.path).rename(heap / uuid.uuid4().hex)
            else:
                Path(entry.path).unlink()
    folder.rmdir()
