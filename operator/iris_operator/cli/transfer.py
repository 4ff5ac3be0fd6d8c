"""Files as a tar stream between threads, which tarfile needs, and the event loop; and how far it is, for a person."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sys
import tarfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path, PurePosixPath

import click

_CHUNK = 256 * 1024
_QUIET_SECONDS = 2.0
_TELL_SECONDS = 0.5


class Progress:
    """On a terminal, after two seconds: how much, how fast."""

    def __init__(self) -> None:
        self.bytes = 0
        self._began = self._told = time.monotonic()
        self._shown = False

    def add(self, size: int) -> None:
        """So many more."""
        self.bytes += size
        now = time.monotonic()
        if sys.stderr.isatty() and now - self._began > _QUIET_SECONDS and now - self._told > _TELL_SECONDS:
            self._told, self._shown = now, True
            rate = self.bytes / (now - self._began)
            click.echo(f"\r{size_text(self.bytes)}, {size_text(rate)}/s ", err=True, nl=False)

    def end(self) -> None:
        """Leave a clean line."""
        if self._shown:
            click.echo("", err=True)


def size_text(size: float) -> str:
    """`512 B`, `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


class _Writer:
    """A file that tarfile writes to in a thread; what it writes is taken by the loop, no faster than that."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pieces: asyncio.Queue[bytes | BaseException]) -> None:
        self._loop, self._pieces = loop, pieces

    def put(self, piece: bytes | BaseException) -> None:
        asyncio.run_coroutine_threadsafe(self._pieces.put(piece), self._loop).result()

    def write(self, data: bytes) -> int:
        if data:
            self.put(bytes(data))
        return len(data)


async def pack(source: Path, name: str, progress: Progress) -> AsyncIterator[bytes]:
    """A tar stream of a file or a directory, called `name` in it."""
    pieces: asyncio.Queue[bytes | BaseException] = asyncio.Queue(maxsize=4)
    writer = _Writer(asyncio.get_running_loop(), pieces)

    def work() -> None:
        try:
            # What busybox reads too. Owners are of this machine: they mean nothing there.
            with tarfile.open(fileobj=writer, mode="w|", format=tarfile.GNU_FORMAT, bufsize=_CHUNK) as archive:  # type: ignore[call-overload]
                archive.add(source, name, filter=_nobodys)
            writer.put(b"")
        except (OSError, tarfile.TarError) as error:
            with contextlib.suppress(RuntimeError):
                writer.put(error)

    packing = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        while piece := await pieces.get():
            if isinstance(piece, BaseException):
                raise click.ClickException(f"reading {source}: {piece}") from piece
            progress.add(len(piece))
            yield piece
    finally:
        while not packing.done():  # a thread can't be cancelled: let it run dry
            with contextlib.suppress(asyncio.QueueEmpty):
                while True:
                    pieces.get_nowait()
            await asyncio.sleep(0.01)


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


class Unpacker:
    """Takes a tar stream piece by piece (`feed`, then `end`) and writes its members below `folder`.

    The first part of each name becomes `name`. Nothing is written outside: what would be is left out and said.
    """

    def __init__(self, folder: Path, name: str, say: Callable[[str], None], progress: Progress) -> None:
        self._folder, self._name, self._say, self._progress = folder, name, say, progress
        self._pieces: queue.Queue[bytes] = queue.Queue(maxsize=4)
        self._rest = b""
        self._over = False
        self._work = asyncio.ensure_future(asyncio.to_thread(self._unpack))
        self._fed = False

    async def feed(self, data: bytes) -> None:
        """More of the stream. Raises what went wrong with the part before."""
        self._progress.add(len(data))
        self._fed = True
        while not self._work.done():
            try:
                self._pieces.put_nowait(data)
                return
            except queue.Full:
                await asyncio.wait({self._work}, timeout=0.005)
        await self._work

    async def end(self) -> None:
        """Nothing more comes; returns when all is written. ClickException when it could not be."""
        if not self._work.done():
            await asyncio.to_thread(self._pieces.put, b"")
        await self._work

    def read(self, size: int) -> bytes:
        """For tarfile, in its thread."""
        while len(self._rest) < size and not self._over:
            piece = self._pieces.get()
            self._over = not piece
            self._rest += piece
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def _unpack(self) -> None:
        try:
            with tarfile.open(fileobj=self, mode="r|", bufsize=_CHUNK) as archive:  # type: ignore[call-overload]
                for member in archive:
                    self._extract(archive, member)
        except tarfile.ReadError as error:
            if self._fed:
                raise click.ClickException(f"what came is no whole tar stream: {error}") from error
        except OSError as error:
            raise click.ClickException(f"writing below {self._folder}: {error}") from error
        finally:
            while not self._over:  # whoever feeds must not wait for ever
                self._over = not self._pieces.get()

    def _extract(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        first, _, rest = member.name.lstrip("/").removeprefix("./").partition("/")
        if not first:
            return
        member.name = str(PurePosixPath(self._name, rest)) if rest else self._name
        if member.islnk():
            member.linkname = str(
                PurePosixPath(self._name, *PurePosixPath(member.linkname.removeprefix("./")).parts[1:])
            )
        try:
            archive.extract(member, self._folder, filter="data")
        except tarfile.FilterError as error:
            self._say(f"left out: {error}")


def checked_local(path: str) -> Path:
    """A local path to copy from. ClickException when there is none."""
    found = Path(path)
    if not found.exists():
        raise click.ClickException(f"{path} is not here")
    return found if found.name not in ("", "..") else found.resolve()  # a name to give it there
