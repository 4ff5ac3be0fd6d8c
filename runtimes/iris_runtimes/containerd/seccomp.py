"""containerd's default seccomp profile (v2.2.9, contrib/seccomp), for the capabilities that a sandbox is granted. Pure.

seccomp.json lists the system calls that are allowed without conditions; the conditional ones are here, with their reasons.
x32 is left out, which containerd allows: kernels have it off, and each architecture costs a start 5 ms of processor time.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

_ALLOW = "SCMP_ACT_ALLOW"
_ERRNO = "SCMP_ACT_ERRNO"
_ENOSYS = 38
_ADMIN = "CAP_SYS_ADMIN"
_AF_ALG = 38  # the kernel's crypto sockets: a steady source of privilege escalations
_AF_VSOCK = 40  # reaches the hypervisor around the network's rules
# NEWNS | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | NEWCGROUP: no new namespaces without CAP_SYS_ADMIN
_CLONE_NAMESPACES = 0x7E020000
# PER_LINUX, PER_LINUX32, UNAME26 with either, and "tell me which"
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
_SOCKETS = (("SCMP_CMP_LT", _AF_ALG), ("SCMP_CMP_EQ", _AF_ALG + 1), ("SCMP_CMP_GT", _AF_VSOCK))


@cache
def default_profile(machine: str, capabilities: tuple[str, ...] = ()) -> dict[str, Any] | None:
    """linux.seccomp for a machine (`uname -m`); None for one that the profile does not know, as with containerd.

    `capabilities`: full names of those granted; some open system calls of their own.
    """
    data = json.loads((resources.files(__package__) / "seccomp.json").read_text())
    architecture = data["architectures"].get(machine)
    if architecture is None:
        return None
    conditional = [_allow_if("socket", comparison, value) for comparison, value in _SOCKETS]
    conditional += [_allow_if("personality", "SCMP_CMP_EQ", value) for value in _PERSONALITIES]
    for capability in capabilities:
        if calls := data["capabilities"].get(capability):
            conditional.append({"names": calls, "action": _ALLOW})
    if _ADMIN not in capabilities:
        conditional.append(_allow_if("clone", "SCMP_CMP_MASKED_EQ", _CLONE_NAMESPACES))
        # clone3 hides its flags in memory: "no such call" makes the C library fall back to clone
        conditional.append({"names": ["clone3"], "action": _ERRNO, "errnoRet": _ENOSYS})
    return {
        "defaultAction": _ERRNO,
        "architectures": architecture["names"],
        "syscalls": [{"names": [*data["allow"], *architecture["allow"]], "action": _ALLOW}, *conditional],
    }


def _allow_if(name: str, comparison: str, value: int) -> dict[str, Any]:
    return {"names": [name], "action": _ALLOW, "args": [{"index": 0, "value": value, "op": comparison}]}
