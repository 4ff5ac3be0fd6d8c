"""A containerd of the test's own: its own root, state, socket, namespace and cgroup; it can be killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from iris_devcluster.images.programs import program

CGROUP_ROOT = Path("/sys/fs/cgroup")
# runc keeps its state by namespace in one place for the whole machine: no other run may share ours
_RUNC_STATE = Path("/run/containerd/runc")


def wait_for(what: Callable[[], bool], seconds: float = 20) -> None:
    """Poll; TimeoutError when it does not come true."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up after {seconds} s")
        time.sleep(0.02)


class PrivateContainerd:
    """Not started yet. `name` tells its namespace and cgroup from those of other runs; `kubelets`: what its settings say for
    the kubelet, TOML; empty: it serves none."""

    def __init__(self, folder: Path, name: str, kubelets: str = "") -> None:
        self.folder = folder
        self.namespace = f"iris-test-{name}"
        self.cgroup = f"/iris-test-{name}"
        self.socket = folder / "c.sock"
        self.ctr = program("ctr")
        self._process: subprocess.Popen[bytes] | None = None
        self._config = folder / "config.toml"
        self._config.write_text(
            f'version = 3\nroot = "{folder}/root"\nstate = "{folder}/state"\n'
            f"disabled_plugins = {[] if kubelets else ['io.containerd.grpc.v1.cri']}\n"
            f'[grpc]\n  address = "{self.socket}"\n[ttrpc]\n  address = "{self.socket}.ttrpc"\n{kubelets}'
        )

    def start(self) -> None:
        """Returns when it answers."""
        binaries = program("containerd").parent
        env = {**os.environ, "PATH": f"{binaries}:/usr/sbin:/usr/bin:/sbin:/bin"}
        with (self.folder / "log").open("ab") as log:
            command = [str(binaries / "containerd"), "-c", str(self._config)]
            self._process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        version = [str(self.ctr), "-a", str(self.socket), "version"]
        wait_for(lambda: subprocess.run(version, capture_output=True, check=False).returncode == 0)

    def kill(self) -> None:
        """kill -9; shims and commands go on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def call(self, *words: str) -> str:
        """Standard output of `ctr` in our namespace."""
        command = [str(self.ctr), "-a", str(self.socket), "-n", self.namespace, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def shim_of(self, sandbox_id: str) -> int:
        """Process id of a sandbox's shim, which may be a shared one. LookupError when there is none."""
        command = [str(self.ctr), "-a", str(self.socket), "-n", self.namespace, "containers", "info", sandbox_id]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return self.shim((json.loads(found).get("Labels", {}).get("iris.dev/shim") if found else "") or sandbox_id)

    def shim(self, name: str = "") -> int:
        """Process id of a shim: of that id, or of any."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    if (
                        b"-namespace" in words
                        and self.namespace.encode() in words
                        and (not name or name.encode() in words)
                    ):
                        return int(entry.name)
        raise LookupError(f"no shim {name}")

    def runc_state(self, sandbox_id: str) -> Path:
        """Where runc keeps what it knows of a sandbox."""
        return _RUNC_STATE / self.namespace / sandbox_id

    def sweep(self) -> None:
        """End all of it and remove what it left; for the end of the tests, however they went."""
        self.kill()
        wait_for(self._all_ended)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((one for one in mounts if one.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "-l", mount], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(_RUNC_STATE / self.namespace, ignore_errors=True)

    def cgroups(self) -> list[Path]:
        """Our cgroup's folders: one on cgroup v2, one a hierarchy on v1; they may lie below our own cgroup."""
        name = self.cgroup.strip("/")  # by os.walk: other tests' cgroups go while we look
        return [Path(folder) / name for folder, folders, _ in os.walk(CGROUP_ROOT) if name in folders]

    def _all_ended(self) -> bool:
        """Kill what runs, shims and commands; whether nothing does and the cgroups could go."""
        _kill_marked(str(self.folder))
        for top in self.cgroups():
            for file in top.rglob("cgroup.procs"):
                _kill_all(file)
            for folder in sorted(
                (one for one in [top, *top.rglob("*")] if one.is_dir()), key=lambda one: -len(one.parts)
            ):
                with contextlib.suppress(OSError):  # busy: next time
                    folder.rmdir()
        return not self.cgroups()


def _kill_all(procs: Path) -> None:
    with contextlib.suppress(OSError):  # the cgroup or the process is gone
        for pid in procs.read_text().split():
            os.kill(int(pid), signal.SIGKILL)


def _kill_marked(marker: str) -> None:
    """Kill -9 every process whose command line names our folder: shims."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
