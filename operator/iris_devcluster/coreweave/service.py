"""The simulator in the background: one per cluster, restarted when it dies, found again by anyone.

`python -m iris_devcluster.coreweave.service ROOT` is the keeper: it holds the lock and starts the controller again
a second after it ends. Both carry the cluster's mark in their environment, so `iris-devcluster down` ends them too.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from iris_devcluster import processes
from iris_devcluster.errors import DevclusterError

_RESTART_SECONDS = 1.0
_START_SECONDS = 240.0
_STOP_SECONDS = 30.0


@dataclass(frozen=True)
class State:
    """The keeper's pid, the controller's, and where they write; both 0 when it does not run."""

    keeper: int
    controller: int
    log: Path

    @property
    def running(self) -> bool:
        return self.keeper != 0


def state(root: Path) -> State:
    """What runs now for the cluster in `root`."""
    log = _folder(root) / "controller.log"
    if not _locked(root):
        return State(0, 0, log)
    pids = _pids(root)
    return State(pids.get("keeper", 0), pids.get("controller", 0), log)


def _pids(root: Path) -> dict[str, int]:
    try:
        found: dict[str, int] = json.loads((_folder(root) / "pids.json").read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found


def start(root: Path, environment: dict[str, str]) -> State:
    """Run it unless it does already; returns once it serves NodePools.

    `environment` marks the processes as the cluster's (Cluster.environment()). Raises DevclusterError with the end
    of the log when it does not come up.
    """
    if state(root).running:
        return state(root)
    folder = _folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    ready = folder / "ready"
    ready.unlink(missing_ok=True)
    alive, its_end = os.pipe()  # closed by the kernel when the keeper dies
    with (folder / "controller.log").open("ab") as log:
        # setsid forks: nobody here has to wait for a process that outlives us.
        subprocess.run(
            ["setsid", "--fork", sys.executable, "-m", "iris_devcluster.coreweave.service", str(root.resolve())],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
            pass_fds=[its_end],
        )
    os.close(its_end)
    try:
        _wait_for(ready, root, alive)
    finally:
        os.close(alive)
    return state(root)


def _wait_for(ready: Path, root: Path, alive: int) -> None:
    """Until it serves. A keeper that dies may only have found another one at work."""
    end = time.monotonic() + _START_SECONDS
    while not ready.exists():
        died = bool(select.select([alive], [], [], 0.05)[0])
        if time.monotonic() > end or (died and not _locked(root)):
            raise DevclusterError(
                f"the simulated CoreWeave does not come up: {_tail(_folder(root) / 'controller.log')}"
            )
        if died:
            time.sleep(0.05)


def stop(root: Path) -> bool:
    """End it and wait; False when it did not run. Nodes run on, NodePools stay as they are."""
    found = state(root)
    if not found.running:
        return False
    _signal(found.keeper, signal.SIGTERM)
    end = time.monotonic() + _STOP_SECONDS
    while _locked(root):
        if time.monotonic() > end:
            _signal(found.keeper, signal.SIGKILL)
            _signal(state(root).controller, signal.SIGKILL)
            break
        time.sleep(0.05)
    return True


def mark_ready(root: Path) -> None:
    """Called by the controller when it serves."""
    (_folder(root) / "ready").touch()


def keep(root: Path) -> int:
    """The keeper's life: hold the lock, run the controller, start it again when it dies."""
    folder = _folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        _outlive_predecessor(root)
        return _Keeper(root).run()


def _outlive_predecessor(root: Path) -> None:
    """The controller of a keeper that was killed leaves by itself soon; until it has, there must be no other."""
    pid = _pids(root).get("controller", 0)
    if pid and b"iris_devcluster.coreweave.controller" in _command_line(pid):
        for left in processes.wait_gone([pid], _STOP_SECONDS):
            _signal(left, signal.SIGKILL)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class _Keeper:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._stopping = False
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._stop)
        while not self._stopping:
            self._child = self._spawn()
            if self._stopping:  # the signal came while it was started
                self._child.terminate()
            code = self._child.wait()
            if not self._stopping:
                sys.stdout.write(f"controller ended with {code}, starting it again\n")
                time.sleep(_RESTART_SECONDS)
        return 0

    def _spawn(self) -> subprocess.Popen[bytes]:
        # gRPC's fork handlers would only get in the way of the programs that booting a node runs.
        child = subprocess.Popen(
            [sys.executable, "-m", "iris_devcluster.coreweave.controller", "--root", str(self._root)],
            env={**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "false", "GRPC_VERBOSITY": "ERROR"},
        )
        pids = {"keeper": os.getpid(), "controller": child.pid}
        partial = _folder(self._root) / ".pids.json"
        partial.write_text(json.dumps(pids))
        partial.replace(_folder(self._root) / "pids.json")
        return child

    def _stop(self, number: int, frame: object) -> None:
        self._stopping = True
        if self._child is not None:
            self._child.terminate()


def _folder(root: Path) -> Path:
    return root.resolve() / "coreweave"


def _locked(root: Path) -> bool:
    """Whether a keeper lives: the kernel drops the lock with its holder, however that ends."""
    path = _folder(root) / "lock"
    try:
        with path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _signal(pid: int, number: int) -> None:
    if pid:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def _tail(log: Path, count: int = 5) -> str:
    return " / ".join(log.read_text(errors="replace").splitlines()[-count:]) or "no reason given"


if __name__ == "__main__":
    sys.exit(keep(Path(sys.argv[1])))
