"""Fetch a release: resumable, verified, and quick to give up where there is no way out to the internet."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from iris_devcluster.binaries.catalogue import Binary, Release
from iris_devcluster.errors import DevclusterError

CONNECT_SECONDS = 5.0
_ATTEMPTS = 4
_CHUNK = 1 << 18


class ChecksumError(DevclusterError):
    """What came is not what upstream published; nothing of it is kept."""


class NotDownloadableError(Exception):
    """The release can't be had from here; it has to be built. Says why."""


class Downloader:
    """Remembers for its lifetime which hosts do not answer, so that each is tried once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unreachable: dict[str, str] = {}

    @property
    def unreachable(self) -> set[str]:
        """Hosts that did not answer, as host:port."""
        return set(self._unreachable)

    def fetch(self, binary: Binary, target: Path, report: Callable[[str], None]) -> None:
        """Put the program at `target`. Raises NotDownloadableError, or ChecksumError with nothing left behind."""
        release = binary.release
        if release is None:
            raise NotDownloadableError("no release with a published checksum")
        host = urlsplit(release.url).netloc
        if host in self._unreachable:
            raise NotDownloadableError(self._unreachable[host])
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = self._folder / f"{binary.key}.part"
        self._complete(release, partial, report)
        actual = hashlib.sha256(partial.read_bytes()).hexdigest()
        if actual != release.sha256:
            partial.unlink()
            raise ChecksumError(
                f"{release.url} has sha256 {actual}, not {release.sha256} as pinned; "
                "nothing was installed. If a proxy stands in between, ask its owner; else report it"
            )
        _install(release, partial, target)
        partial.unlink()

    def _complete(self, release: Release, partial: Path, report: Callable[[str], None]) -> None:
        """Ask again from where the connection broke, a few times."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                if _fetch_rest(release.url, partial, report):
                    return
            except urllib.error.HTTPError as error:
                raise NotDownloadableError(f"{release.url} answers {error.code}") from error
            except (OSError, http.client.HTTPException) as error:
                if not partial.exists() or attempt == _ATTEMPTS:
                    self._give_up(release.url, error)
        raise NotDownloadableError(f"{release.url} breaks off again and again; the part that came is kept")

    def _give_up(self, url: str, error: Exception) -> None:
        host = urlsplit(url).netloc
        self._unreachable[host] = f"{host} can't be reached ({getattr(error, 'reason', error)})"
        raise NotDownloadableError(self._unreachable[host]) from error


def _fetch_rest(url: str, partial: Path, report: Callable[[str], None]) -> bool:
    """Append what is missing; whether the file is complete now."""
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(request, timeout=CONNECT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is missing; the checksum has the last word
            return True
        raise
    with answer:
        if have and answer.status != 206:
            have = 0  # the server knows no ranges and sends all of it
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else 0
        with partial.open("ab" if have else "wb") as out:
            while chunk := answer.read(_CHUNK):
                out.write(chunk)
                have += len(chunk)
                report(f"{have / 1e6:.0f} of {total / 1e6:.0f} MB" if total else f"{have / 1e6:.0f} MB")
    return not total or have >= total


def _install(release: Release, archive: Path, target: Path) -> None:
    """The program out of its archive, executable, in place at once or not at all."""
    partial = target.with_name(f".{target.name}.part")
    if release.member:
        with tarfile.open(archive) as tar:
            source = tar.extractfile(release.member)
            if source is None:
                raise DevclusterError(f"{release.url} has no file {release.member}")
            with source, partial.open("wb") as out:
                shutil.copyfileobj(source, out)
    else:
        shutil.copyfile(archive, partial)
    partial.chmod(0o755)
    partial.replace(target)
