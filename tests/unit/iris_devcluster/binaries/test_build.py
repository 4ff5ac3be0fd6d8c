"""Builds of tiny Go modules of the test's own; nothing is fetched."""

from __future__ import annotations

import subprocess
import time
import zipfile
from pathlib import Path

import pytest

from iris_devcluster.binaries.build import BuildError, build, go_toolchain, go_version
from iris_devcluster.binaries.catalogue import Binary

MAIN = 'package main\n\nimport "os"\n\nfunc main() { os.Stdout.WriteString("tiny\\n") }\n'


@pytest.fixture
def go(tmp_path: Path) -> str:
    return go_toolchain(tmp_path / "cache", lambda _: None)


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """gomod/tiny, with the program at its top."""
    folder = tmp_path / "gomod" / "tiny"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module example.test/tiny\n\ngo 1.26.0\n")
    (folder / "main.go").write_text(f"// {tmp_path} {time.time_ns()}\n{MAIN}")  # new to Go's own cache
    return folder.parent


def test_a_program_of_a_pinned_module(go: str, modules: Path, tmp_path: Path) -> None:
    said: list[str] = []
    target = tmp_path / "store" / "tiny-v1"
    target.parent.mkdir()
    build(Binary("tiny", "v1", "example.test/tiny", "tiny"), modules, go, target, said.append)
    assert subprocess.run([str(target)], capture_output=True, text=True, check=True).stdout == "tiny\n"
    assert [path.name for path in target.parent.iterdir()] == ["tiny-v1"]
    assert any("example.test/tiny" in line for line in said)


def test_a_program_by_its_version(go: str, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a module proxy that is a folder."""
    proxy = tmp_path / "proxy" / "example.test" / "tiny" / "@v"
    proxy.mkdir(parents=True)
    (proxy / "list").write_text("v1.2.3\n")
    (proxy / "v1.2.3.info").write_text('{"Version":"v1.2.3"}')
    (proxy / "v1.2.3.mod").write_text((modules / "tiny" / "go.mod").read_text())
    with zipfile.ZipFile(proxy / "v1.2.3.zip", "w") as archive:
        for name in ("go.mod", "main.go"):
            archive.write(modules / "tiny" / name, f"example.test/tiny@v1.2.3/{name}")
    monkeypatch.setenv("GOPROXY", f"file://{tmp_path / 'proxy'}")
    monkeypatch.setenv("GOSUMDB", "off")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modcache"))
    target = tmp_path / "tiny"
    build(Binary("tiny", "v1.2.3", "example.test/tiny"), modules, go, target, lambda _: None)
    assert subprocess.run([str(target)], capture_output=True, text=True, check=True).stdout == "tiny\n"


def test_a_failing_build_shows_what_go_said(go: str, modules: Path, tmp_path: Path) -> None:
    (modules / "tiny" / "main.go").write_text("package main\n\nfunc main() { undefinedThing() }\n")
    with pytest.raises(BuildError, match=r"(?s)building tiny v1 failed.*undefinedThing"):
        build(Binary("tiny", "v1", "example.test/tiny", "tiny"), modules, go, tmp_path / "tiny", lambda _: None)
    assert not (tmp_path / "tiny").exists()


def test_the_toolchain_is_new_enough(go: str) -> None:
    assert go_version(go) >= (1, 26)


def test_an_old_go_on_path_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "path" / "go"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho go1.19.8\n")
    old.chmod(0o755)
    private = tmp_path / "cache" / "go-toolchain" / "bin" / "go"
    private.parent.mkdir(parents=True)
    private.touch()
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    assert go_toolchain(tmp_path / "cache", lambda _: None) == str(private)
