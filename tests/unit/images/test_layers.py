"""Layers: the same files give the same bytes, whatever the order or the day."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from iris_devcluster.images.tree import Entry, directory, read_folder, write_folder, write_tar

_FILES = [
    Entry("usr/bin/tool", b"#!", 0o755),
    Entry("etc/config", b"x=1\n"),
    Entry("bin/tool", link="/usr/bin/tool"),
    directory("tmp", 0o1777),
]


def test_the_order_of_the_entries_does_not_matter(tmp_path: Path) -> None:
    write_tar(tmp_path / "a", _FILES)
    write_tar(tmp_path / "b", reversed(_FILES))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_every_parent_comes_before_what_it_holds(tmp_path: Path) -> None:
    write_tar(tmp_path / "layer", _FILES)
    with tarfile.open(tmp_path / "layer") as archive:
        members = archive.getmembers()
    names = [member.name for member in members]
    assert names == ["bin", "bin/tool", "etc", "etc/config", "tmp", "usr", "usr/bin", "usr/bin/tool"]
    assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, 0)}
    assert oct(members[names.index("tmp")].mode) == "0o1777"


def test_times_on_disk_are_left_out_and_links_and_modes_kept(tmp_path: Path) -> None:
    write_folder(tmp_path / "files", _FILES)
    first = read_folder(tmp_path / "files", "opt")
    os.utime(tmp_path / "files/etc/config", (1, 1))
    assert read_folder(tmp_path / "files", "opt") == first
    assert {entry.path: (entry.mode, entry.link) for entry in first} == {
        "opt/bin/tool": (0o644, "/usr/bin/tool"),
        "opt/etc/config": (0o644, ""),
        "opt/usr/bin/tool": (0o755, ""),
    }
