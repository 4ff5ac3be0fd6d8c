"""How a process of ours asks the C library for memory. Another library than glibc is left as it is."""

from __future__ import annotations

import contextlib
import ctypes

# malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_KEPT_BYTES = 4 * 2**20


def tune() -> None:
    """For a process that runs long on every node, or that copies streams.

    glibc gives each thread an arena that it never gives back: some 20 MB for nothing. And it gives back what it has by
    pages as soon as 128 KiB are free, so that each buffer of a stream is made of new pages, which the kernel clears first:
    a third of all the work of copying a log. Up to 4 MiB are kept instead.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, 2)
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
