"""Starts the machine's programs, starts them again when they end, and reaps what they leave: the work of PID 1.

What should run is read from the `processes` folder again and again, so that a program is added by writing a file and
stopped by removing it. What does run is written to `status.json`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from iris_devcluster.machines.process import Process, load_all
from iris_devcluster.processes import PROCESS_MARK

RESTART_DELAY_SECONDS = 1.0
_IDLE_SECONDS = 2.0  # a change of the folder is announced with SIGHUP; this is for one that got lost
_WAITING_SECONDS = 0.05
_SIGNALS = {signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM}


@dataclass
class Child:
    """One program's run; `pid` is 0 while it does not run."""

    process: Process
    pid: int = 0
    restarts: int = 0
    not_before: float = 0.0  # monotonic seconds
    last_exit: str = ""
    done: bool = False

    @property
    def state(self) -> str:
        if self.pid:
            return "running"
        return "done" if self.done else ("restarting" if self.last_exit else "waiting")


class Supervisor:
    """Level-triggered: `step` brings what runs towards what the folder says, however often it is called."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._children: dict[str, Child] = {}
        self._written = ""

    def run(self) -> None:
        """Until SIGTERM; as PID 1 its return ends every process of the machine."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        while True:
            try:
                self.step(time.monotonic())
            except (OSError, ValueError, TypeError):
                # A full disk or a broken file in the folder must not take the machine down; it is in supervisor.log.
                traceback.print_exc()
            got = signal.sigtimedwait(_SIGNALS, self._patience())
            if got is not None and got.si_signo == signal.SIGTERM:
                return

    def step(self, now: float) -> None:
        """One round: reap, read what is wanted, stop, start, report."""
        self._reap(now)
        wanted = load_all(self._directory / "processes")
        for name in [name for name in self._children if name not in wanted]:
            self._stop(name)
        for name, process in wanted.items():
            child = self._children.get(name)
            if child is None or (child.process != process and not child.pid):
                child = self._children[name] = Child(process)
            self._start_if_due(child, now)
        self._report()

    def _patience(self) -> float:
        pending = [child for child in self._children.values() if child.state in ("waiting", "restarting")]
        return _WAITING_SECONDS if pending else _IDLE_SECONDS

    def _reap(self, now: float) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for child in self._children.values():
                if child.pid == pid:
                    _note_exit(child, status, now)

    def _stop(self, name: str) -> None:
        child = self._children.pop(name)
        if child.pid:
            os.kill(child.pid, signal.SIGTERM)

    def _start_if_due(self, child: Child, now: float) -> None:
        process = child.process
        if child.pid or child.done or now < child.not_before:
            return
        if process.wait_for and not _met(process.wait_for):
            return
        log = self._directory / "log" / f"{process.name}.log"
        try:
            child.pid = _spawn(process, log)
        except OSError as error:
            child.last_exit, child.not_before = f"cannot start: {error}", now + RESTART_DELAY_SECONDS

    def _report(self) -> None:
        report = {
            name: {"pid": one.pid, "state": one.state, "restarts": one.restarts, "last_exit": one.last_exit}
            for name, one in self._children.items()
        }
        text = json.dumps(report)
        if text == self._written:
            return
        partial = self._directory / ".status.json"
        partial.write_text(text)
        partial.replace(self._directory / "status.json")
        self._written = text


def _met(condition: str) -> bool:
    """Whether a path exists, or `tcp:address:port` accepts a connection."""
    if not condition.startswith("tcp:"):
        return Path(condition).exists()
    _, address, port = condition.split(":")
    try:
        socket.create_connection((address, int(port)), timeout=0.2).close()
    except OSError:
        return False
    return True


def _note_exit(child: Child, status: int, now: float) -> None:
    code = os.waitstatus_to_exitcode(status)
    child.pid, child.last_exit = 0, f"signal {-code}" if code < 0 else f"exit {code}"
    if child.process.once and code == 0:
        child.done = True
        return
    child.restarts += 1
    child.not_before = now + RESTART_DELAY_SECONDS


def _spawn(process: Process, log: Path) -> int:
    """Start it in a session of its own, output appended to its log; its pid in this PID namespace."""
    env = {**os.environ, **process.env, PROCESS_MARK: process.name}
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawnp(
        process.argv[0], process.argv, env, file_actions=actions, setsid=True, setsigmask=[], setsigdef=_SIGNALS
    )
