"""What end-to-end tests do to the world: kubectl, iris, kill -9, look.

To look, and to wait, they ask the API server itself: a kubectl for each look costs more than what is waited for.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from iris_devcluster.api import Api, ApiError
from iris_devcluster.images.programs import program
from iris_devcluster.nodes import Cluster
from iris_operator.ports import kube
from tests import programs

T = TypeVar("T")
REPOSITORY = Path(__file__).resolve().parents[3]
CHART = REPOSITORY / "charts" / "iris"
EXAMPLES = REPOSITORY / "examples"
_NAMESPACE, _MANAGER = "default", "e2e"
_KINDS = {one.plural: one for one in vars(kube).values() if isinstance(one, kube.Kind)}
_QUERY = {"-l": "labelSelector", "--field-selector": "fieldSelector"}
_LOOK_SECONDS = 0.1


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
    return _done(done)


def _done(done: subprocess.CompletedProcess[str]) -> str:
    words = " ".join(str(one) for one in done.args)
    assert done.returncode == 0, f"{words} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _kind(word: str) -> kube.Kind | None:
    """By its plural or singular; None for those that our own code has no use for."""
    return _KINDS.get(word) or _KINDS.get(f"{word}s")


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
        words = ["iris-devcluster", *arguments, *named, "--root", str(self.root)]
        return _done(programs.run(words, self.env, 300, cwd=REPOSITORY))

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return run([self.kubectl_path, *arguments], self.env, stdin=stdin)

    def iris(self, *arguments: str) -> str:
        """The CLI."""
        return _done(programs.run(["iris", *arguments], self.env, 300, cwd=REPOSITORY))

    @cached_property
    def api(self) -> Api:
        """As administrator; there once the cluster is up."""
        return Cluster.open(self.root).api

    def log(self, name: str) -> str:
        """A Task's log; empty while there is none, or its agent just comes back."""
        try:
            return self.iris("logs", name)
        except AssertionError:
            return ""

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """One object, None when it is not there."""
        found = _kind(kind)
        if found is None:
            text = self.kubectl("get", kind, name, "--ignore-not-found", "-o", "json")
            return dict(json.loads(text)) if text.strip() else None
        try:
            return dict(self.api.call("GET", found.path(_NAMESPACE, name)))
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def objects(self, kind: str, *selectors: str) -> list[dict[str, Any]]:
        """All objects of a kind. Selectors as kubectl's: -l LABELS, --field-selector FIELDS."""
        found = _kind(kind)
        assert found is not None, kind
        query = {_QUERY[flag]: value for flag, value in zip(selectors[::2], selectors[1::2], strict=True)}
        return list(self.api.call("GET", f"{found.path(_NAMESPACE)}?{urlencode(query)}")["items"])

    def names(self, kind: str, *selectors: str) -> list[str]:
        """Names of all objects of a kind, as kubectl takes them."""
        found = _kind(kind)
        assert found is not None, kind
        group = found.api_version.rpartition("/")[0]
        prefix = f"{found.plural[:-1]}.{group}" if group else found.plural[:-1]
        return [f"{prefix}/{one['metadata']['name']}" for one in self.objects(kind, *selectors)]

    def apply(self, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        """Server-side; what is not in the schema is refused."""
        found = _kind(kind.lower())
        assert found is not None, kind
        body = {"apiVersion": found.api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        query = urlencode({"fieldManager": _MANAGER, "force": "true", "fieldValidation": "Strict"})
        path = f"{found.path(_NAMESPACE, name)}?{query}"
        self.api.call("PATCH", path, body, "application/apply-patch+yaml")

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
            time.sleep(_LOOK_SECONDS)

    def leader(self) -> str:
        """The Lease's holder: the operator that leads, as Pod_pid; empty while there is none."""
        lease = self.get("lease", "iris-operator") or {}
        return str(lease.get("spec", {}).get("holderIdentity") or "")

    def node_of(self, slice_name: str) -> str:
        found = self.get("slice", slice_name)
        assert found is not None
        return str(found["status"]["nodes"][0]["name"])

    def node_processes(self, node: str) -> dict[str, int]:
        """containerd, kubelet ... of a node, by name."""
        return dict(Cluster.open(self.root).node_pids(node))

    def containers(self, node: str) -> list[str]:
        """Ids of Iris' containers on a node, without those that keep a shim for the next Task."""
        shown = Cluster.open(self.root).node_exec(node, [str(program("ctr")), "-n", "iris", "containers", "ls", "-q"])
        out = shown.stdout.decode() if isinstance(shown.stdout, bytes) else shown.stdout
        return [one for one in out.split() if not one.startswith("shim-")]

    def kill_in_pod(self, pod: str, needle: str) -> int:
        """kill -9 the process of a Pod whose command line holds `needle`, from outside; its pid."""
        uid = str((self.get("pod", pod) or {})["metadata"]["uid"])
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
