"""The keeper of a shared shim: a container that does nothing and needs no image, so that the shim stays. Pure."""

from __future__ import annotations

import platform
import struct
from collections.abc import Mapping
from typing import Any

from iris_runtimes.containerd.oci_spec import cgroups_path
from iris_runtimes.protocol import CgroupParent

PROGRAM = "keep"
_BASE = 0x400000
# Wait for signals for ever: pause() and, where there is none, ppoll() of nothing; then again
_CODE = {
    "x86_64": (62, bytes.fromhex("b822000000" "0f05" "ebf7")),
    "aarch64": (183, struct.pack("<7I", 0xD2800000, 0xD2800001, 0xD2800002, 0xD2800003, 0xD2800928, 0xD4000001,
                                 0x17FFFFFA)),
}  # fmt: skip
_HEADERS = 64 + 56


def keeper_program(machine: str = platform.machine()) -> bytes | None:
    """A program of some hundred bytes that waits; None for a processor that we can't write one for."""
    if machine not in _CODE:
        return None
    kind, code = _CODE[machine]
    size = _HEADERS + len(code)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, kind, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + segment + code


def keeper_spec(
    keeper_id: str, root: str, cgroup: CgroupParent, annotations: Mapping[str, str], *, cgroup_v2: bool
) -> dict[str, Any]:
    """Its OCI spec; `root`: the folder with the program and an empty `proc`, as containerd sees it."""
    kinds = ["pid", "ipc", "uts", "mount", *(["cgroup"] if cgroup_v2 else [])]
    return {
        "ociVersion": "1.2.0",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": [f"/{PROGRAM}"],
            "env": [],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {},
        },
        "annotations": dict(annotations),
        "root": {"path": root, "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]}
        ],
        "linux": {
            "cgroupsPath": cgroups_path(cgroup, keeper_id),
            "namespaces": [{"type": kind} for kind in kinds],
            "resources": {"devices": [{"allow": False, "access": "rwm"}], "cpu": {"shares": 2}},
        },
    }
