"""Filling the cache: download, else build; once; from where it stopped."""

from __future__ import annotations

import io
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from iris_devcluster.binaries import catalogue, locate
from iris_devcluster.binaries.build import BuildError
from iris_devcluster.binaries.catalogue import Binary, Catalogue
from iris_devcluster.binaries.locate import Provider
from iris_devcluster.errors import DevclusterError
from iris_devcluster.progress import Progress
from tests.unit.iris_devcluster.binaries.conftest import Upstream


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the programs built; a build writes a file in no time."""
    done: list[str] = []

    def fake_build(binary: Binary, modules: Path, go: str, target: Path, report: object) -> None:
        if binary.name == "broken":
            raise BuildError("broken does not compile")
        done.append(binary.name)
        target.write_text(f"built {binary.name}")

    monkeypatch.setattr("iris_devcluster.binaries.build.build", fake_build)
    monkeypatch.setattr("iris_devcluster.binaries.build.go_toolchain", lambda cache, report: "go")
    return done


def quiet() -> Progress:
    return Progress(Console(file=io.StringIO()))


def provider(tmp_path: Path, *binaries: Binary) -> Provider:
    return Provider(Catalogue(binaries, tmp_path / "gomod"), tmp_path / "cache")


PLAIN = Binary("plain", "v1", "example.test/plain")


def test_what_can_be_downloaded_is_not_built(upstream: Upstream, tmp_path: Path, builds: list[str]) -> None:
    folder = provider(tmp_path, upstream.release("/tool", b"tool")).ensure(quiet())
    assert (folder / "tool").read_bytes() == b"tool"
    assert builds == []


def test_a_404_falls_back_to_a_build(upstream: Upstream, tmp_path: Path, builds: list[str]) -> None:
    binary = upstream.release("/tool", b"tool")
    upstream.files.clear()
    folder = provider(tmp_path, binary).ensure(quiet())
    assert (folder / "tool").read_text() == "built tool"


def test_a_complete_folder_is_used_at_once(tmp_path: Path, builds: list[str]) -> None:
    for _ in range(2):
        provider(tmp_path, PLAIN).ensure(quiet())
    assert builds == ["plain"]


def test_a_run_that_broke_off_goes_on_where_it_stopped(tmp_path: Path, builds: list[str]) -> None:
    broken = replace(PLAIN, name="broken")
    with pytest.raises(BuildError):
        provider(tmp_path, PLAIN, broken).ensure(quiet())
    with pytest.raises(BuildError):
        provider(tmp_path, PLAIN, broken).ensure(quiet())
    assert builds == ["plain"]


def test_a_new_version_of_one_leaves_the_others(tmp_path: Path, builds: list[str]) -> None:
    other = replace(PLAIN, name="other")
    first = provider(tmp_path, PLAIN, other).ensure(quiet())
    second = provider(tmp_path, PLAIN, replace(other, version="v2")).ensure(quiet())
    assert first != second
    assert builds == ["plain", "other", "other"]


def test_two_runs_at_once_build_once(tmp_path: Path, builds: list[str]) -> None:
    runs = [threading.Thread(target=provider(tmp_path, PLAIN).ensure, args=(quiet(),)) for _ in range(4)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert builds == ["plain"]


def test_progress_names_each_program_and_how_it_came(tmp_path: Path, builds: list[str]) -> None:
    out = io.StringIO()
    provider(tmp_path, PLAIN).ensure(Progress(Console(file=out)))
    assert "plain v1" in out.getvalue()
    assert "built: no release with a published checksum" in out.getvalue()


def test_an_incomplete_cache_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IRIS_BIN_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DevclusterError, match=r"lacks etcd.*iris-devcluster setup"):
        locate.binaries_folder()


def test_the_folder_can_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_BIN_DIR", str(tmp_path))
    assert locate.binaries_folder() == tmp_path


def test_the_catalogue_is_whole() -> None:
    found = catalogue.load()
    names = [binary.name for binary in found.binaries]
    assert {"etcd", "kube-apiserver", "kubelet", "containerd", "coredns", "helm", "registry"} <= set(names)
    for binary in found.binaries:
        assert not binary.module or (found.modules / binary.module / "go.sum").exists()
        assert binary.release is None or len(binary.release.sha256) == 64
    assert found.key.startswith("kubernetes-v1.")


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_releases_are_those_of_the_architecture(arch: str) -> None:
    other = {"amd64": "arm64", "arm64": "amd64"}[arch]
    releases = {each.name: each.release for each in catalogue.load(arch=arch).binaries if each.release}
    assert {"etcd", "kubelet", "kubectl", "helm"} <= releases.keys()
    for release in releases.values():
        assert arch in release.url
        assert not {"{", other} & {*release.url.split("-"), *release.url.split("/"), *release.member}
    assert releases["etcd"].member == f"etcd-v3.6.8-linux-{arch}/etcd"


def test_each_architecture_has_its_own_checksums() -> None:
    found = [
        {each.release.sha256 for each in catalogue.load(arch=arch).binaries if each.release}
        for arch in ("amd64", "arm64")
    ]
    assert found[0].isdisjoint(found[1])


def test_without_a_checksum_for_the_architecture_it_is_built() -> None:
    assert all(each.release is None for each in catalogue.load(arch="riscv64").binaries)
