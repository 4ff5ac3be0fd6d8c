"""The cache of layers: what costs seconds is made once for given inputs, in ~/.cache/iris/images."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from iris_devcluster.binaries.locate import cache_folder

FORMAT = 1
"""Part of every key: raise it when the code that makes a layer changes what it makes."""

_KEEP_DAYS = 14


class Store:
    """Folders by key. A folder that exists is whole: it is made elsewhere and moved into place."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_folder() / "images"

    def path(self, kind: str, *inputs: object) -> Path:
        """Where the thing of this kind made of these JSON-able inputs is, or will be."""
        text = json.dumps([FORMAT, kind, *inputs], sort_keys=True)
        return self.root / "layers" / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty folder on the layers' file system, so that they can be linked into it; gone after the block.

        Its own each time: several clusters of one user push at once.
        """
        folder = self.root / "scratch"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as made:
            yield Path(made)

    @staticmethod
    def has(path: Path) -> bool:
        """Whether it was made already; if so it counts as used now."""
        if not path.exists():
            return False
        os.utime(path)
        return True

    @contextmanager
    def making(self, path: Path) -> Iterator[Path]:
        """A folder to fill, which becomes `path` if the block succeeds and vanishes if it does not."""
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.mkdir(parents=True)
        try:
            yield partial
            shutil.rmtree(path, ignore_errors=True)
            partial.rename(path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One build at a time: a second one then finds all in the cache."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def prune(self, now: float | None = None) -> None:
        """Forget what no build used for two weeks, such as the layers of code as it was then."""
        oldest = (time.time() if now is None else now) - _KEEP_DAYS * 86400
        for path in (*(self.root / "layers").glob("*"), *(self.root / "scratch").glob("*")):
            with suppress(FileNotFoundError):  # another process' scratch, done with since
                if path.stat().st_mtime < oldest:
                    shutil.rmtree(path, ignore_errors=True)
