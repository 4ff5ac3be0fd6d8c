"""What of Debian, of a wheel and of a program ends up in a layer."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from iris_devcluster.errors import DevclusterError
from iris_devcluster.images import debian
from iris_devcluster.images.binary import image_from_binary
from iris_devcluster.images.recipe import Base, Selection
from iris_devcluster.images.store import Store
from iris_devcluster.images.wheels import unpack

_DYNAMIC = b"\x7fELF" + b"\0" * 400 + b"/lib64/ld-linux-x86-64.so.2\0"
_STATIC = b"\x7fELF" + b"\0" * 400


def _tar(path: Path, members: dict[str, bytes | str]) -> Path:
    """A root file system as mmdebstrap writes it; a str is a link's target."""
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(f"./{name}")
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size, info.mode = len(content), 0o755
                archive.addfile(info, io.BytesIO(content))
    return path


def test_debian_files_are_chosen_after_merging_usr(tmp_path: Path) -> None:
    base = Base("bookworm", "3.11", ["x"], Selection([r"usr/(lib|bin)/.*", r"usr/lib64/.*"], [r".*/doc/.*"]))
    members: dict[str, bytes | str] = {
        "lib/libc.so.6": b"libc",
        "lib64/ld.so": "/lib/ld.so",
        "usr/bin/python3.11": b"python",
        "usr/lib/doc/readme": b"",
        "etc/passwd": b"",
    }
    found = {entry.path: entry for entry in debian.select(base, _tar(tmp_path / "debian.tar", members))}
    assert set(found) == {"usr/lib/libc.so.6", "usr/lib64/ld.so", "usr/bin/python3.11"}
    assert found["usr/lib64/ld.so"].link == "/lib/ld.so"
    assert found["usr/bin/python3.11"].mode == 0o755


def test_a_wheel_is_unpacked_without_scripts_and_unwanted_files(tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in (
            "x/__init__.py",
            "x/a.pyi",
            "x-1.data/platlib/y.py",
            "x-1.data/scripts/x",
            "x-1.dist-info/METADATA",
        ):
            archive.writestr(name, name)
    found = {entry.path for entry in unpack(wheel, "site", Selection([".*"], [r".*\.pyi"]))}
    assert found == {"site/x/__init__.py", "site/y.py", "site/x-1.dist-info/METADATA"}


def test_a_wheels_program_is_kept(tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("x-1.data/scripts/x", _STATIC)
        archive.writestr("x-1.data/scripts/y", "#!python\n")
    [found] = unpack(wheel, "site", Selection([".*"], []))
    assert (found.path, found.content, found.mode) == ("usr/local/bin/x", _STATIC, 0o755)


class TestImageFromBinary:
    def test_starts_the_program_as_nobody_in_particular(self, tmp_path: Path) -> None:
        (tmp_path / "coredns").write_bytes(_STATIC)
        image = image_from_binary("coredns", tmp_path / "coredns", cmd=("-conf", "x"), store=Store(tmp_path / "store"))
        config = json.loads(image.config)["config"]
        assert (config["Entrypoint"], config["Cmd"], config["User"]) == (["/coredns"], ["-conf", "x"], "65532:65532")
        with tarfile.open(image.layers[0].path) as archive:
            assert archive.getnames() == ["coredns", "etc", "etc/passwd"]

    def test_refuses_a_program_that_needs_libraries(self, tmp_path: Path) -> None:
        (tmp_path / "tool").write_bytes(_DYNAMIC)
        with pytest.raises(DevclusterError, match=r"needs shared libraries.*CGO_ENABLED=0"):
            image_from_binary("tool", tmp_path / "tool", store=Store(tmp_path / "store"))

    def test_says_what_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(DevclusterError, match="nothing is missing"):
            image_from_binary("nothing", tmp_path / "nothing", store=Store(tmp_path / "store"))

    def test_gives_the_same_digest_for_the_same_program(self, tmp_path: Path) -> None:
        (tmp_path / "tool").write_bytes(_STATIC)
        stores = [Store(tmp_path / name) for name in ("a", "b")]
        first, second = (image_from_binary("tool", tmp_path / "tool", store=store) for store in stores)
        assert first.digest == second.digest
