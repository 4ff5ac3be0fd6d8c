"""Downloads against a server on loopback: verified, resumable, and given up quickly."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from iris_devcluster.binaries.catalogue import Binary, Release
from iris_devcluster.binaries.download import ChecksumError, Downloader, NotDownloadableError
from tests.unit.iris_devcluster.binaries.conftest import Upstream, tarball

PROGRAM = b"#!/bin/sh\necho tool\n" + bytes(range(256)) * 40


def fetch(binary: Binary, folder: Path) -> Path:
    target = folder / "tool"
    Downloader(folder / "downloads").fetch(binary, target, lambda _: None)
    return target


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_good_download_is_installed_executable(upstream: Upstream, tmp_path: Path) -> None:
    target = fetch(upstream.release("/tool", PROGRAM), tmp_path)
    assert target.read_bytes() == PROGRAM
    assert os.access(target, os.X_OK)
    assert leftovers(tmp_path) == ["tool"]


def test_a_member_is_taken_out_of_its_archive(upstream: Upstream, tmp_path: Path) -> None:
    binary = upstream.release("/tool.tar.gz", tarball("dist/tool", PROGRAM), member="dist/tool")
    assert fetch(binary, tmp_path).read_bytes() == PROGRAM
    assert leftovers(tmp_path) == ["tool"]


def test_a_bad_checksum_is_an_error_and_leaves_no_file(upstream: Upstream, tmp_path: Path) -> None:
    binary = upstream.release("/tool", PROGRAM, sha256="0" * 64)
    with pytest.raises(ChecksumError, match=r"/tool has sha256 [0-9a-f]{64}, not 0{64}"):
        fetch(binary, tmp_path)
    assert leftovers(tmp_path) == []


def test_a_cut_connection_is_resumed_where_it_broke(upstream: Upstream, tmp_path: Path) -> None:
    binary = upstream.release("/tool", PROGRAM)
    upstream.cuts, upstream.cut_after = 2, 1000
    assert fetch(binary, tmp_path).read_bytes() == PROGRAM
    assert [asked for _, asked in upstream.requests] == ["", "bytes=1000-", "bytes=2000-"]


def test_a_later_run_goes_on_from_the_part_that_came(upstream: Upstream, tmp_path: Path) -> None:
    binary = upstream.release("/tool", PROGRAM)
    upstream.cuts, upstream.cut_after = 99, 100
    with pytest.raises(NotDownloadableError, match="again and again"):
        fetch(binary, tmp_path)
    upstream.cuts = 0
    upstream.requests.clear()
    assert fetch(binary, tmp_path).read_bytes() == PROGRAM
    assert upstream.requests == [("/tool", "bytes=400-")]


def test_a_server_without_ranges_starts_over(upstream: Upstream, tmp_path: Path) -> None:
    binary = upstream.release("/tool", PROGRAM)
    upstream.cuts, upstream.cut_after, upstream.ranges = 1, 1000, False
    assert fetch(binary, tmp_path).read_bytes() == PROGRAM


def test_a_complete_part_is_only_verified(upstream: Upstream, tmp_path: Path) -> None:
    binary = upstream.release("/tool", PROGRAM)
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / f"{binary.key}.part").write_bytes(PROGRAM)
    assert fetch(binary, tmp_path).read_bytes() == PROGRAM


def test_a_missing_release_is_to_be_built(upstream: Upstream, tmp_path: Path) -> None:
    binary = upstream.release("/tool", PROGRAM)
    upstream.files.clear()
    with pytest.raises(NotDownloadableError, match="answers 404"):
        fetch(binary, tmp_path)


def test_an_unreachable_host_is_tried_once(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    downloader = Downloader(tmp_path)
    for name in ("one", "two"):
        binary = Binary(name, "v1", "p", "", Release(f"http://127.0.0.1:{port}/{name}", "0" * 64))
        with pytest.raises(NotDownloadableError, match="can't be reached"):
            downloader.fetch(binary, tmp_path / name, lambda _: None)
    assert downloader.unreachable == {f"127.0.0.1:{port}"}


def test_a_silent_host_costs_seconds_not_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iris_devcluster.binaries.download.CONNECT_SECONDS", 0.2)
    with socket.socket() as silent:  # accepts by its backlog, never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/tool"
        began = time.monotonic()
        with pytest.raises(NotDownloadableError):
            fetch(Binary("tool", "v1", "p", "", Release(url, "0" * 64)), tmp_path)
        assert time.monotonic() - began < 2


def test_progress_is_reported(upstream: Upstream, tmp_path: Path) -> None:
    said: list[str] = []
    Downloader(tmp_path).fetch(upstream.release("/tool", b"x" * 3_000_000), tmp_path / "tool", said.append)
    assert said[-1] == "3 of 3 MB"
