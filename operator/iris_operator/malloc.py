"""How a process of ours asks the C library for memory. Another library than glibc is left as it is."""

from __future__ import annotations

import contextlib
import ctypes

# malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_KEPT_BYTES = 4 * 2**20


def few_arenas() -> None:
    """For a process on every node: glibc gives each thread an arena that it never gives back, some 20 MB for nothing."""
    _set(_M_ARENA_MAX, 2)


def keep_buffers() -> None:
    """For a process from when it copies streams on.

    glibc gives back by pages what is free, from 128 KiB on, so that each buffer of a stream is made of new pages, which the
    kernel clears first: a third of all the work of copying a log. Up to 4 MiB are kept instead.
    """
    _set(_M_MMAP_THRESHOLD, _KEPT_BYTES)
    _set(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def _set(parameter: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(parameter, value)
