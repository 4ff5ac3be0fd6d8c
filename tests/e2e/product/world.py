"""What end-to-end tests do to the world: kubectl, iris, kill -9, look."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from iris_devcluster.images.programs import program

T = TypeVar("T")
REPOSITORY = Path(__file__).resolve().parents[3]
CHART = REPOSITORY / "charts" / "iris"
EXAMPLES = REPOSITORY / "examples"
_BIN = Path(sys.executable).parent


def run(command: Sequence[str], env: Mapping[str, str], timeout: float = 300, stdin: str | None = None) -> str:
    """Run to success; the output. AssertionError with all it said when it fails."""
    done = subprocess.run(
        list(command),
        env=dict(env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=REPOSITORY,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class World:
    """One cluster with Iris on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kubeconfig = root / "kubeconfig"
        self.env = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "NO_COLOR": "1"}

    @property
    def kubectl_path(self) -> str:
        return str(program("kubectl"))

    @property
    def helm(self) -> str:
        return str(program("helm"))

    def devcluster(self, *arguments: str) -> str:
        """iris-devcluster on this cluster."""
        named = ["--name", "e2e"] if arguments[0] == "up" else []
        return run([str(_BIN / "iris-devcluster"), *arguments, *named, "--root", str(self.root)], self.env)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return run([self.kubectl_path, *arguments], self.env, stdin=stdin)

    def iris(self, *arguments: str) -> str:
        """The CLI."""
        return run([str(_BIN / "iris"), *arguments], self.env)

    def log(self, name: str) -> str:
        """A Task's log; empty while there is none, or its agent just comes back."""
        try:
            return self.iris("logs", name)
        except AssertionError:
            return ""

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """One object, None when it is not there."""
        text = self.kubectl("get", kind, name, "--ignore-not-found", "-o", "json")
        found: dict[str, Any] | None = json.loads(text) if text.strip() else None
        return found

    def names(self, kind: str, *selectors: str) -> list[str]:
        """Names of all objects of a kind."""
        return self.kubectl("get", kind, "-o", "name", *selectors).split()

    def apply(self, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        body = {"apiVersion": "iris.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))

    def task(self, name: str, script: str, **spec: Any) -> None:
        """A Task that runs a shell script in the task image."""
        self.apply("Task", name, {"image": "iris/task:dev", "command": ["sh", "-c", script], **spec})

    def wait_phase(self, name: str, *phases: str, seconds: float = 60) -> dict[str, Any]:
        """The Task once it is in one of the phases."""

        def look() -> dict[str, Any] | None:
            task = self.get("task", name)
            return task if task and task.get("status", {}).get("phase") in phases else None

        return self.until(look, f"task {name} to be {' or '.join(phases)}", seconds)

    def ended(self, name: str, seconds: float = 60) -> dict[str, Any]:
        """The status of a Task that has ended."""
        phases = ("Succeeded", "Failed", "Killed", "Preempted", "WorkerLost")
        status: dict[str, Any] = self.wait_phase(name, *phases, seconds=seconds)["status"]
        return status

    def until(self, look: Callable[[], T | None], what: str, seconds: float = 60) -> T:
        """Poll until `look` gives something true."""
        deadline = time.monotonic() + seconds
        while True:
            found = look()
            if found:
                return found
            assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
            time.sleep(0.2)

    def node_of(self, slice_name: str) -> str:
        found = self.get("slice", slice_name)
        assert found is not None
        return str(found["status"]["nodes"][0]["name"])

    def node_processes(self, node: str) -> dict[str, int]:
        """containerd, kubelet ... of a node, by name."""
        from iris_devcluster.nodes import Cluster

        return dict(Cluster.open(self.root).node_pids(node))

    def containers(self, node: str) -> list[str]:
        """Ids of Iris' containers on a node, without those that keep a shim for the next Task."""
        from iris_devcluster.nodes import Cluster

        shown = Cluster.open(self.root).node_exec(node, [str(program("ctr")), "-n", "iris", "containers", "ls", "-q"])
        out = shown.stdout.decode() if isinstance(shown.stdout, bytes) else shown.stdout
        return [one for one in out.split() if not one.startswith("shim-")]

    def kill_in_pod(self, pod: str, needle: str) -> int:
        """kill -9 the process of a Pod whose command line holds `needle`, from outside; its pid."""
        uid = self.kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}").strip()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                line, cgroup = (entry / "cmdline").read_bytes(), (entry / "cgroup").read_text()
            except OSError:
                continue
            if needle.encode() in line and uid in cgroup:
                os.kill(int(entry.name), signal.SIGKILL)
                return int(entry.name)
        raise AssertionError(f"no process {needle} in pod {pod}")
