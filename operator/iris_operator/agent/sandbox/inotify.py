"""Word from the kernel that a file was written to, so that nobody has to look at files that lie still."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable
from pathlib import Path

_MODIFY = 0x2  # sys/inotify.h
_ONESHOT = 0x80000000
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
_READ_BYTES = 2**16

_libc = ctypes.CDLL(None, use_errno=True)


class Inotify:
    """Makes one call per `watch`: at the file's next write, or never. Belongs to the running event loop; close it."""

    def __init__(self) -> None:
        self._file = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify")
        self._calls: dict[int, list[Callable[[], None]]] = {}
        asyncio.get_running_loop().add_reader(self._file, self._read)

    def watch(self, path: Path, call: Callable[[], None]) -> Callable[[], None]:
        """Call at the next write to it. What is returned calls it off. OSError when there is no such file, or no watch
        to be had."""
        number = _checked(
            _libc.inotify_add_watch(self._file, os.fsencode(path), ctypes.c_uint32(_MODIFY | _ONESHOT)), str(path)
        )
        # Two watches of one file are one to the kernel.
        self._calls.setdefault(number, []).append(call)

        def call_off() -> None:
            calls = self._calls.get(number, [])
            if call in calls:
                calls.remove(call)
                if not calls:
                    del self._calls[number]
                    _libc.inotify_rm_watch(self._file, number)

        return call_off

    def close(self) -> None:
        """No more calls."""
        asyncio.get_running_loop().remove_reader(self._file)
        os.close(self._file)
        self._calls.clear()

    def _read(self) -> None:
        try:
            data = os.read(self._file, _READ_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            number, _, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            for call in self._calls.pop(number, []):
                call()


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result
