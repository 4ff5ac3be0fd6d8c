"""Archives of every kind, good and hostile."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from iris_operator.agent.inputs.model import InputFault
from iris_operator.agent.inputs.unpack import Limits, unpack


def tar(*members: tuple[str, Any], kind: bytes = tarfile.REGTYPE, mode: int = 0o640) -> bytes:
    """A plain tar; a member's second part: content, or the target of a link."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.mode, info.mtime, info.type = mode, 1700000000, kind
            if isinstance(content, bytes):
                info.type, info.size = tarfile.REGTYPE, len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                info.linkname = content or ""
                archive.addfile(info)
    return out.getvalue()


def zip_(*members: tuple[str, bytes], mode: int = stat.S_IFREG | 0o640, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, method
            archive.writestr(info, content)
    return out.getvalue()


_GOOD = (("./pkg/a.py", b"a"), ("pkg/deep/b.py", b"b"))
KINDS: dict[str, bytes] = {
    ".tar": tar(*_GOOD),
    ".tar.gz": gzip.compress(tar(*_GOOD)),
    ".tar.zst": zstandard.compress(tar(*_GOOD)),
    ".zip": zip_(*_GOOD),
    ".tar, absolute names": tar(("/pkg/a.py", b"a"), ("//pkg/deep/b.py", b"b")),
    ".tar, a file twice": tar(("pkg/a.py", b"old"), *_GOOD),
}


@pytest.fixture
def into(tmp_path: Path) -> Callable[[bytes], Path]:
    def run(archive: bytes, **limits: int) -> Path:
        (tmp_path / "archive").write_bytes(archive)
        (tmp_path / "tree").mkdir()
        unpack(tmp_path / "archive", tmp_path / "tree", Limits(**limits))
        return tmp_path / "tree"

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_unpacks_for_all_to_read(into: Callable[[bytes], Path], kind: str) -> None:
    tree = into(KINDS[kind])
    assert {str(path.relative_to(tree)): path.read_text() for path in tree.rglob("*.py")} == {
        "pkg/a.py": "a",
        "pkg/deep/b.py": "b",
    }
    assert (tree / "pkg/a.py").stat().st_mode & 0o777 == 0o644
    assert (tree / "pkg/deep").stat().st_mode & 0o777 == 0o755


def test_programs_stay_so_and_lose_set_uid(into: Callable[[bytes], Path]) -> None:
    tree = into(tar(("run", b"#!"), mode=0o6710))
    assert stat.S_IMODE((tree / "run").stat().st_mode) == 0o755
    assert (tree / "run").stat().st_mtime == 1700000000


def test_links_inside_stay(into: Callable[[bytes], Path]) -> None:
    tree = into(tar(("a/f", b"x"), ("b/link", "../a/f"), kind=tarfile.SYMTYPE))
    assert (tree / "b/link").readlink() == Path("../a/f")
    assert (tree / "b/link").read_text() == "x"


def test_hard_links_are_the_same_file(into: Callable[[bytes], Path]) -> None:
    tree = into(tar(("a", b"x"), ("b", "a"), kind=tarfile.LNKTYPE))
    assert (tree / "b").samefile(tree / "a")


def test_links_in_a_zip(into: Callable[[bytes], Path]) -> None:
    tree = into(zip_(("link", b"target"), mode=stat.S_IFLNK | 0o777))
    assert (tree / "link").readlink() == Path("target")


def _long_header() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("x" * (2**20 + 1)))
    return out.getvalue()


def _gnu_long_header() -> bytes:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2**20 + 1
    return info.tobuf() + b"x" * (2**20 + 512)


def _zip64_claim() -> bytes:
    plain = bytearray(zip_(("a", b"x")))
    at = plain.rfind(b"PK\x05\x06")
    plain[at + 12 : at + 16] = (2**31).to_bytes(4, "little")
    return bytes(plain)


HOSTILE: dict[str, tuple[bytes, str]] = {
    "no archive": (b"hello" * 200, "none of .tar"),
    "empty": (b"", "none of .tar"),
    "a path that leaves": (tar(("../x", b"x")), "'..'"),
    "a path that leaves later": (tar(("a/../../x", b"x")), "'..'"),
    "a zip's path that leaves": (zip_(("../x", b"x")), "'..'"),
    "a link that leaves": (tar(("a/l", "../../x"), kind=tarfile.SYMTYPE), "outside"),
    "a link to the root": (tar(("l", "/etc"), kind=tarfile.SYMTYPE), "outside"),
    "a zip's link that leaves": (zip_(("l", b"../x"), mode=stat.S_IFLNK | 0o777), "outside"),
    "a file through a link": (tar(("d", "e"), ("d/f", b"x"), kind=tarfile.SYMTYPE), ""),
    "a link below a link": (tar(("e/f", b"x"), ("d", "e"), ("d/g", "f"), kind=tarfile.SYMTYPE), "below a link"),
    "a hard link that leaves": (tar(("l", "../../etc/passwd"), kind=tarfile.LNKTYPE), "'..'"),
    "a hard link to nothing": (tar(("l", "etc/passwd"), kind=tarfile.LNKTYPE), "no file before it"),
    "a device": (tar(("d", None), kind=tarfile.CHRTYPE), "neither file nor folder"),
    "a FIFO": (tar(("d", None), kind=tarfile.FIFOTYPE), "neither file nor folder"),
    "a file and a folder": (tar(("a", b"x"), ("a/b", b"x")), "as a file and as a folder"),
    "a folder and a file": (tar(("a/b", b"x"), ("a", b"x")), "as a folder and as a file"),
    "a name of a megabyte": (_long_header(), "header of more than"),
    "a GNU name of a megabyte": (_gnu_long_header(), "header of more than"),
    "a zip with a vast directory": (_zip64_claim(), "zip64"),
    "a zip of another method": (zip_(("a", b"x"), method=zipfile.ZIP_LZMA), "another method"),
    "gzip cut off": (gzip.compress(tar(*_GOOD))[:-20], "damaged"),
    "zstd cut off": (zstandard.compress(tar(("a", bytes(range(256)) * 99)))[:-20], "damaged"),
    "gzip of no tar": (gzip.compress(b"hello" * 200), "damaged"),
    "a zip without its end": (zip_(*_GOOD)[:-30], "without its end"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_refuses(into: Callable[[bytes], Path], tmp_path: Path, name: str) -> None:
    archive, words = HOSTILE[name]
    if not words:  # it is no harm: the folder takes the link's place
        assert (into(archive) / "d/f").is_file()
        return
    with pytest.raises(InputFault, match=words) as caught:
        into(archive)
    assert caught.value.reason == "BundleInvalid"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "tree"]


@pytest.mark.parametrize("limits", [{"unpacked_bytes": 1000}, {"entries": 1}])
def test_is_bounded(into: Callable[..., Path], limits: dict[str, int]) -> None:
    """What is counted is what comes out: a megabyte of zeros is a kilobyte of gzip."""
    with pytest.raises(InputFault) as caught:
        into(gzip.compress(tar(("a", bytes(999)), ("b", bytes(2**20)))), **limits)
    assert caught.value.reason == "BundleTooLarge"


_NAMES = st.lists(st.sampled_from(["a", "b", "..", ".", "", "link", "c" * 300]), min_size=1, max_size=4).map("/".join)
_MEMBERS = st.lists(
    st.tuples(_NAMES, st.one_of(st.binary(max_size=8), _NAMES), st.sampled_from([tarfile.SYMTYPE, tarfile.LNKTYPE])),
    max_size=8,
)


@settings(max_examples=150, deadline=None)
@given(_MEMBERS)
def test_whatever_it_has_nothing_gets_out(members: list[tuple[str, Any, bytes]]) -> None:
    """Links, files and folders of any names in any order: an InputFault, or a tree whose links stay inside."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content, kind in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = kind, content
                archive.addfile(info)
    with tempfile.TemporaryDirectory() as made:
        home, tree = Path(made), Path(made, "home", "tree")
        tree.mkdir(parents=True)
        (home / "archive").write_bytes(out.getvalue())
        try:
            unpack(home / "archive", tree)
        except InputFault as fault:
            assert fault.reason == "BundleInvalid"
        assert sorted(path.name for path in home.iterdir()) == ["archive", "home"]
        assert [path.name for path in (home / "home").iterdir()] == ["tree"]
        for path in tree.rglob("*"):
            if path.is_symlink():
                end = os.path.normpath(path.parent / path.readlink())
                assert Path(end).is_relative_to(tree)
