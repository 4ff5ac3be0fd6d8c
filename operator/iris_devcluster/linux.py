"""The few system calls Python 3.11 has no function for. Import-light: the supervisor lives with what this loads."""

from __future__ import annotations

import ctypes
import os

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE, MS_SHARED = 0x1000, 0x4000, 1 << 18, 1 << 20
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"{what}: {os.strerror(errno)}")


def unshare(flags: int) -> None:
    """Leave the named namespaces for new ones; OSError as unshare(2)."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, fstype: str | None = None, flags: int = 0, data: str = "") -> None:
    """mount(2); OSError names the target."""
    kind = fstype.encode() if fstype else None
    result = _libc.mount(source.encode(), target.encode(), kind, ctypes.c_ulong(flags), data.encode() or None)
    _check(result, f"mount {fstype or 'bind'} on {target}")


def unmount(target: str, lazily: bool = False) -> None:
    """umount2(2), with MNT_DETACH when `lazily`."""
    _check(_libc.umount2(target.encode(), 2 if lazily else 0), f"umount {target}")


def set_hostname(name: str) -> None:
    """Hostname of the present UTS namespace."""
    encoded = name.encode()
    _check(_libc.sethostname(encoded, ctypes.c_size_t(len(encoded))), "sethostname")
