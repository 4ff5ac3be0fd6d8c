"""Where the cluster's programs are, and how they get there."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iris_devcluster.binaries import build, catalogue
from iris_devcluster.binaries.catalogue import Binary, Catalogue
from iris_devcluster.binaries.download import Downloader, NotDownloadableError
from iris_devcluster.errors import DevclusterError
from iris_devcluster.progress import Progress, Step


def cache_folder() -> Path:
    """Everything that is kept between clusters, per user."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(base) / "iris"


def binaries_folder() -> Path:
    """IRIS_BIN_DIR when set, else the complete set in the cache; raises DevclusterError when there is none yet."""
    override = os.environ.get("IRIS_BIN_DIR")
    if override:
        return Path(override)
    wanted = catalogue.load()
    folder = cache_folder() / "bin" / wanted.key
    missing = [each.name for each in wanted.binaries if not (folder / each.name).exists()]
    if missing:
        raise DevclusterError(f"{folder} lacks {', '.join(missing)}; run: iris-devcluster setup")
    return folder


def ensure_binaries(progress: Progress) -> Path:
    """The folder with every program, fetched or built as far as missing; at once when it is complete."""
    if os.environ.get("IRIS_BIN_DIR"):
        return binaries_folder()
    return Provider(catalogue.load(), cache_folder()).ensure(progress)


class Provider:
    """Fills `<cache>/bin/<key>` from a catalogue.

    Each program is kept in `<cache>/bin/store` under a key of its own, so that a new version of one leaves the
    others as they are, and a run that was cut off goes on with the next missing one.
    """

    def __init__(self, wanted: Catalogue, cache: Path) -> None:
        self._wanted, self._cache = wanted, cache
        self._store = cache / "bin" / "store"
        self._folder = cache / "bin" / wanted.key
        self._downloader = Downloader(cache / "downloads")
        self._go = ""

    def ensure(self, progress: Progress) -> Path:
        """The complete folder. Raises ChecksumError, BuildError."""
        if not self._missing():
            return self._folder
        for folder in (self._store, self._folder):
            folder.mkdir(parents=True, exist_ok=True)
        with self._alone(progress):
            for binary in self._missing():
                with progress.step(f"{binary.name} {binary.version}") as step:
                    self._provide(binary, step)
        return self._folder

    def _missing(self) -> list[Binary]:
        return [each for each in self._wanted.binaries if not (self._folder / each.name).exists()]

    def _provide(self, binary: Binary, step: Step) -> None:
        stored = self._store / binary.key
        if not stored.exists():
            try:
                self._downloader.fetch(binary, stored, lambda text: step.update(f"downloading, {text}"))
                step.note = "downloaded"
            except NotDownloadableError as why:
                step.note = f"built: {why}"
                self._build(binary, stored, step)
        link = self._folder / f".{binary.name}.part"
        link.unlink(missing_ok=True)
        link.hardlink_to(stored)
        link.replace(self._folder / binary.name)

    def _build(self, binary: Binary, target: Path, step: Step) -> None:
        self._go = self._go or build.go_toolchain(self._cache, step.update)
        report = step.update
        build.build(binary, self._wanted.modules, self._go, target, lambda text: report(f"building, {text}"))

    @contextmanager
    def _alone(self, progress: Progress) -> Iterator[None]:
        """One run at a time; the second finds everything done."""
        with (self._cache / "bin" / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress.say("another run prepares the programs; waiting for it")
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
