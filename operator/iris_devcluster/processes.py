"""Processes as the kernel knows them, found by the marks this package leaves in their environment."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

CLUSTER_MARK = "IRIS_DEVCLUSTER"
"""Environment variable with the cluster's prefix, in every process started for it."""
MACHINE_MARK = "IRIS_DEVCLUSTER_MACHINE"
PROCESS_MARK = "IRIS_DEVCLUSTER_PROCESS"


def all_pids() -> Iterator[int]:
    """Every process there is now."""
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def environment(pid: int) -> dict[str, str]:
    """What the process was started with; empty when it is gone or a kernel thread."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.decode(errors="replace").partition("=") for item in raw.split(b"\0") if item)
    return {key: value for key, _, value in pairs}


def stat(pid: int) -> tuple[str, int, int] | None:
    """State letter, parent and start time in clock ticks; None when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    found = stat(pid)
    return found is not None and found[0] not in "ZX"


def inner_pid(pid: int) -> int | None:
    """The process's id inside its own PID namespace."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return None


def marked(prefix: str, machine: str | None = None) -> set[int]:
    """Live processes of the cluster, or of one machine of it, by their environment."""
    found = set()
    for pid in all_pids():
        env = environment(pid)
        if env.get(CLUSTER_MARK) != prefix or (machine is not None and env.get(MACHINE_MARK) != machine):
            continue
        if alive(pid):
            found.add(pid)
    return found


def kill(pids: Iterable[int]) -> None:
    """SIGKILL each; one that is gone already is fine."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def wait_gone(pids: Iterable[int], timeout_seconds: float) -> set[int]:
    """Wait until none of them runs; returns those that still do at the end."""
    end = time.monotonic() + timeout_seconds
    left = {pid for pid in pids if alive(pid)}
    while left and time.monotonic() < end:
        time.sleep(0.02)
        left = {pid for pid in left if alive(pid)}
    return left
