"""Start, find, enter and unplug a machine, from any process on the host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iris_devcluster import cgroups, processes
from iris_devcluster.errors import DevclusterError
from iris_devcluster.machines.description import Description
from iris_devcluster.machines.process import Process
from iris_devcluster.processes import CLUSTER_MARK, MACHINE_MARK, PROCESS_MARK

_SUPERVISOR = "supervisor"


@dataclass(frozen=True)
class ProcessState:
    """A supervised program: its pid on the host (0 while it does not run) and how it fares."""

    name: str
    pid: int
    state: str
    restarts: int
    last_exit: str


@dataclass(frozen=True)
class Machine:
    """The machine `name` of the cluster `prefix`, living in `directory`; making the object touches nothing."""

    prefix: str
    name: str
    directory: Path

    @property
    def cgroup(self) -> str:
        return f"{self.prefix}/{self.name}"

    def pid(self) -> int | None:
        """Host pid of the supervisor; None when the machine is off."""
        try:
            pid = int((self.directory / "init.pid").read_text())
        except (FileNotFoundError, ValueError):
            return self._search()
        return pid if self._is_supervisor(pid) else self._search()

    def _is_supervisor(self, pid: int) -> bool:
        env = processes.environment(pid)
        mine = env.get(CLUSTER_MARK) == self.prefix and env.get(MACHINE_MARK) == self.name
        return mine and env.get(PROCESS_MARK) == _SUPERVISOR and processes.inner_pid(pid) == 1 and processes.alive(pid)

    def _search(self) -> int | None:
        return next((pid for pid in processes.marked(self.prefix, self.name) if self._is_supervisor(pid)), None)

    def start(self, description: Description, connect: Callable[[int], None]) -> int:
        """Power on; `connect(pid)` plugs in the cable before any program starts. Returns the supervisor's host pid.

        Raises DevclusterError with the supervisor's own words when it fails.
        """
        for folder in ("log", "processes"):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        description.save(self.directory)
        (self.directory / "status.json").unlink(missing_ok=True)
        log = self.directory / "log" / "supervisor.log"
        with log.open("ab") as errors:
            launcher = subprocess.Popen(
                [sys.executable, "-m", "iris_devcluster.machines.init", str(self.directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/",
                env=self._environment(),
                start_new_session=True,
                text=True,
            )
        assert launcher.stdin is not None and launcher.stdout is not None
        with launcher.stdin, launcher.stdout:
            line = launcher.stdout.readline()
            launcher.wait()
            if not line:
                raise DevclusterError(f"{self.name} did not start: {_last_lines(log)}")
            pid = int(line)
            (self.directory / "init.pid").write_text(line)
            connect(pid)
            launcher.stdin.write("go\n")
            launcher.stdin.flush()
        return pid

    def _environment(self) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "PYTHONPATH") if key in os.environ}
        path = ":".join([kept.get("PATH", ""), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"])
        marks = {CLUSTER_MARK: self.prefix, MACHINE_MARK: self.name, PROCESS_MARK: _SUPERVISOR}
        return {**kept, **marks, "PATH": path, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def kill(self, timeout_seconds: float = 10) -> None:
        """Pull the plug: kill -9 everything in it; returns when all is gone. Its directory stays."""
        supervisor = self.pid()
        if supervisor is not None:
            processes.kill([supervisor])
            processes.wait_gone([supervisor], timeout_seconds)
        # What a supervisor that was killed half-way in its start, or a foreign hand, may have left.
        strays = processes.marked(self.prefix, self.name) | cgroups.members(self.cgroup)
        processes.kill(strays)
        left = processes.wait_gone(strays | ({supervisor} if supervisor else set()), timeout_seconds)
        if left:
            raise DevclusterError(f"{self.name}: processes {sorted(left)} do not end after SIGKILL")
        (self.directory / "init.pid").unlink(missing_ok=True)
        cgroups.remove(self.cgroup)

    def exec(self, argv: Sequence[str], input_text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command inside all of the machine's namespaces and wait for it; output is captured as text."""
        return subprocess.run([*self.enter(), *argv], input=input_text, capture_output=True, text=True, check=False)

    def enter(self) -> list[str]:
        """The command prefix that runs what follows inside the machine; raises DevclusterError when it is off."""
        pid = self.pid()
        if pid is None:
            raise DevclusterError(f"{self.name} is not running; iris-devcluster up starts what died")
        return ["nsenter", f"--target={pid}", "--mount", "--net", "--pid", "--ipc", "--uts", "--cgroup", "--"]

    def run(self, process: Process) -> None:
        """Hand a program to the supervisor; it also starts again with the machine."""
        folder = self.directory / "processes"
        folder.mkdir(parents=True, exist_ok=True)
        process.save(folder)
        self._nudge()

    def stop(self, name: str) -> None:
        """Take a program from the supervisor, which ends it with SIGTERM; fine when there is none."""
        (self.directory / "processes" / f"{name}.json").unlink(missing_ok=True)
        self._nudge()

    def _nudge(self) -> None:
        pid = self.pid()
        if pid is not None:
            os.kill(pid, signal.SIGHUP)

    def states(self) -> list[ProcessState]:
        """Every supervised program; all off when the machine is."""
        report: Mapping[str, Mapping[str, object]] = self._report()
        supervisor = self.pid()
        host_pids = self._host_pids(supervisor) if supervisor is not None else {}
        found = []
        for name, entry in report.items():
            pid = host_pids.get(int(str(entry["pid"])), 0)
            state = str(entry["state"]) if supervisor is not None else "off"
            restarts = int(str(entry["restarts"]))
            found.append(ProcessState(name, pid, state, restarts, str(entry["last_exit"])))
        return found

    def _report(self) -> dict[str, dict[str, object]]:
        try:
            data: dict[str, dict[str, object]] = json.loads((self.directory / "status.json").read_text())
        except FileNotFoundError:
            return {}
        return data

    def _host_pids(self, supervisor: int) -> dict[int, int]:
        """Pid inside -> pid on the host, of the supervisor's children."""
        found: dict[int, int] = {}
        for pid in processes.all_pids():
            stat = processes.stat(pid)
            if stat is None or stat[1] != supervisor or stat[0] in "ZX":
                continue
            inner = processes.inner_pid(pid)
            if inner is not None:
                found[inner] = pid
        return found


def _last_lines(log: Path, count: int = 5) -> str:
    return " / ".join(log.read_text(errors="replace").splitlines()[-count:]) or "no reason given"
