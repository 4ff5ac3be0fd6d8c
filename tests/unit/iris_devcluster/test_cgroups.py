"""Against folders that look like cgroup trees: what is written where."""

from __future__ import annotations

from pathlib import Path

import pytest

from iris_devcluster import cgroups
from iris_devcluster.cgroups import Hierarchy

V1 = """\
24 23 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
30 24 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
31 24 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
32 24 0:32 / /sys/fs/cgroup/systemd rw - cgroup systemd rw,xattr,release_agent=/bin/x,name=systemd
33 24 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
40 99 0:31 /docker/abc /somewhere/else rw - cgroup cgroup rw,cpuset
"""
V2 = "25 24 0:23 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"


def test_hierarchies_of_a_hybrid_machine() -> None:
    found = {one.options: (str(one.mountpoint), one.unified) for one in cgroups.hierarchies(V1)}
    assert found == {
        "cpu,cpuacct": ("/sys/fs/cgroup/cpu,cpuacct", False),
        "cpuset": ("/sys/fs/cgroup/cpuset", False),
        "name=systemd": ("/sys/fs/cgroup/systemd", False),
        "": ("/sys/fs/cgroup/unified", True),
    }


def test_hierarchies_of_a_v2_machine() -> None:
    assert cgroups.hierarchies(V2) == [Hierarchy(Path("/sys/fs/cgroup"), True)]


def test_a_v1_cpuset_is_filled_at_every_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Path.mkdir

    def mkdir_as_the_kernel_does(self: Path, exist_ok: bool = False) -> None:
        make(self, exist_ok=exist_ok)
        for name in ("cpuset.cpus", "cpuset.mems", "cgroup.clone_children"):
            (self / name).write_text("\n")

    for name, value in (("cpuset.cpus", "0-7\n"), ("cpuset.mems", "0-1\n")):
        (tmp_path / name).write_text(value)
    monkeypatch.setattr(Path, "mkdir", mkdir_as_the_kernel_does)
    group = cgroups.create(Hierarchy(tmp_path, False, "cpuset"), "iris-1/node")
    assert group == tmp_path / "iris-1" / "node"
    for folder in (group.parent, group):
        assert (folder / "cpuset.cpus").read_text() == "0-7"
        assert (folder / "cpuset.mems").read_text() == "0-1"
        assert (folder / "cgroup.clone_children").read_text() == "1"


def test_a_v2_group_passes_its_controllers_down(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    cgroups.delegate(tmp_path)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+pids"


def test_members_and_removal_cover_the_whole_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [Hierarchy(tmp_path, True)])
    deep = tmp_path / "iris-1" / "node" / "kubepods"
    deep.mkdir(parents=True)
    (deep / "cgroup.procs").write_text("11\n12\n")
    (deep.parent / "cgroup.procs").write_text("10\n")
    assert cgroups.members("iris-1") == {10, 11, 12}
    assert cgroups.members("iris-2") == set()
    assert set(cgroups.remove("iris-1")) == {deep, deep.parent, deep.parent.parent}  # files keep these busy
    for group in (deep, deep.parent):
        (group / "cgroup.procs").unlink()
    assert cgroups.remove("iris-1") == []
    assert not (tmp_path / "iris-1").exists()
