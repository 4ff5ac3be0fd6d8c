"""Forks our programs from one process that has imported them: the other end of tests/programs.py.

Runs by itself: `python -P tests/nursery.py NUMBER`, the number of a connected SOCK_SEQPACKET socket. A message is a JSON object
`{"argv": [...], "env": {...}, "cwd": "..."}` with four open files: the child's standard input, output and error, and a socket
that is told its pid, and at its end its return code as subprocess counts it. When nobody holds the other end any more, the
children are killed.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import json
import os
import pkgutil
import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

_MOST_BYTES = 1 << 18
# Imported by a command when it is used, which every child would pay for again. Those left out are rare and large.
_LAZY, _LEFT_OUT = "iris_operator.cli", "simulate"


def main() -> None:
    """Serve; in a child: be the program."""
    sys.exit(_serve(socket.socket(fileno=int(sys.argv[1])))())


def _serve(control: socket.socket) -> Callable[[], int | None]:
    """Returns in a child only, with what it is to run."""
    woken, wakes = socket.socketpair()
    woken.setblocking(False)
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno())
    children: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        with suppress(BlockingIOError):
            woken.recv(4096)
        _reap(children)
        if control not in ready:
            continue
        message, files, _, _ = socket.recv_fds(control, _MOST_BYTES, 4)
        if not message:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            sys.exit()
        told = json.loads(message)
        entry = _entry(Path(told["argv"][0]).name)
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            for each in (control, woken, wakes, *children.values()):
                each.close()
            _become(told, files)
            return entry
        children[pid] = socket.socket(fileno=files.pop())
        children[pid].send(str(pid).encode())
        for number in files:
            os.close(number)


def _reap(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with children.pop(pid) as asked, suppress(OSError):  # nobody may want to know
            asked.send(str(os.waitstatus_to_exitcode(status)).encode())


def _entry(program: str) -> Callable[[], int | None]:
    """What the console script of that name calls, imported with all it may need."""
    (found,) = importlib.metadata.entry_points(group="console_scripts", name=program)
    made: Callable[[], int | None] = found.load()
    module = importlib.import_module(found.module)
    if module.__name__.startswith(_LAZY):
        _import_all(importlib.import_module(_LAZY))
    return made


def _import_all(package: ModuleType) -> None:
    for each in pkgutil.iter_modules(package.__path__):
        if not each.name.startswith(_LEFT_OUT):
            importlib.import_module(f"{package.__name__}.{each.name}")


def _become(told: dict[str, Any], files: list[int]) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    os.environ.clear()
    os.environ.update(told["env"])
    os.chdir(told["cwd"])
    sys.argv = told["argv"]


if __name__ == "__main__":
    main()
