"""Keeps one sandbox, apart from the agent, so that it outlives it: starts enroot, waits, writes down how it ended.

Run by its path, with the standard library alone: there is one for each sandbox. Orphans of the command become its
children, so that it can end them.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
RUN, STATE, EXIT = "run.json", "state.json", "exit.json"


def main(folder: Path) -> None:
    """Live as long as the sandbox does."""
    run = json.loads((folder / RUN).read_text())
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: end_children())
    with Path(run["log"]).open("ab") as log:
        command = subprocess.Popen(
            run["words"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=run["env"], start_new_session=True
        )
    write(folder / STATE, {"keeper": os.getpid(), "keeper_started": started(os.getpid()), "pid": command.pid})
    code = command.wait()
    write(folder / EXIT, {"code": code if code >= 0 else 128 - code, "at": time.time()})
    end_children()


def end_children() -> None:
    """Kill -9 of all that descends from us, until nothing is left."""
    while children := _children():
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        time.sleep(0.01)


def _children() -> list[int]:
    own = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in own if state_of(int(pid)) not in ("", "Z")]


def state_of(pid: int) -> str:
    """The kernel's letter for a process; empty when there is none."""
    return (_stat(pid) or [""])[0]


def started(pid: int) -> str:
    """When it began, in the kernel's ticks: with the id it names a process for ever. Empty when there is none."""
    fields = _stat(pid)
    return fields[19] if fields and fields[0] != "Z" else ""


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat behind the command's name, which may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def write(path: Path, body: Mapping[str, object]) -> None:
    """Whole or not at all."""
    half = path.with_suffix(".half")
    half.write_text(json.dumps(body))
    half.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
