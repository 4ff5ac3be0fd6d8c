"""The container that keeps a shared shim."""

from __future__ import annotations

import struct

import pytest

from iris_runtimes.containerd.keeper import keeper_program, keeper_spec
from iris_runtimes.protocol import CgroupParent


@pytest.mark.parametrize(("machine", "kind"), [("x86_64", 62), ("aarch64", 183)])
def test_the_program_is_all_of_its_one_segment(machine: str, kind: int) -> None:
    program = keeper_program(machine)
    assert program is not None
    assert program[:5] == b"\x7fELF\x02"
    assert struct.unpack_from("<HH", program, 16) == (2, kind)
    entry, headers = struct.unpack_from("<QQ", program, 24)
    _, flags, offset, address, _, size, _, _ = struct.unpack_from("<IIQQQQQQ", program, headers)
    assert (flags, offset, size) == (5, 0, len(program))
    assert address < entry < address + size


def test_no_program_for_an_unknown_machine() -> None:
    assert keeper_program("pdp11") is None


@pytest.mark.parametrize(
    ("cgroup", "path"),
    [
        (CgroupParent("/kubepods/podx"), "/kubepods/podx/iris-shim-1"),
        (CgroupParent("x.slice", True), "x.slice:iris:shim-1"),
    ],
)
def test_it_lies_in_the_workers_cgroup_with_no_rights(cgroup: CgroupParent, path: str) -> None:
    found = keeper_spec("shim-1", "/root", cgroup, {"group": "shim-1"}, cgroup_v2=True)
    assert found["linux"]["cgroupsPath"] == path
    assert found["process"]["capabilities"] == {}
    assert found["annotations"] == {"group": "shim-1"}
    assert {"type": "cgroup"} in found["linux"]["namespaces"]
