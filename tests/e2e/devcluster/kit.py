"""What the tests of the embedded cluster share: Pods, waiting, and a look at what the kernel holds of a cluster."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iris_devcluster import cgroups, processes
from iris_devcluster.binaries.locate import binaries_folder
from iris_devcluster.cluster import Cluster
from iris_devcluster.identity import CONTROL_PLANE
from iris_devcluster.node.files import PAUSE_IMAGE

PODS = "/api/v1/namespaces/default/pods"


def eventually(what: str, check: Callable[[], bool], seconds: float = 30) -> float:
    """Wait until `check` holds; the seconds it took. Fails naming what was waited for."""
    began = time.monotonic()
    while not check():
        assert time.monotonic() - began < seconds, f"after {seconds} s still not: {what}"
        time.sleep(0.1)
    return time.monotonic() - began


_POD_SECONDS = 90  # it takes one or two; other clusters may be starting on this machine


def busybox_pod(name: str, node: str, script: str, **spec: Any) -> dict[str, Any]:
    """A Pod on that node running a busybox shell script; the image is what every node has anyway."""
    container = {
        "name": "main",
        "image": PAUSE_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/busybox", "sh", "-c", script],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            **spec,
        },
    }


def run_pod(cluster: Cluster, pod: Mapping[str, Any]) -> None:
    """Create the Pod and wait until it is ready. Fails with its status and its Events."""
    cluster.api.call("POST", PODS, pod)
    name = pod["metadata"]["name"]
    try:
        eventually(f"Pod {name} ready", lambda: condition(cluster, f"{PODS}/{name}", "Ready") == "True", _POD_SECONDS)
    except AssertionError as error:
        seen = kubectl(cluster, "describe", "pod", name)
        kubectl(cluster, "delete", "pod", name, "--force")  # the next test's has the same name
        raise AssertionError(f"{error}\n{seen}") from None


def condition(cluster: Cluster, path: str, kind: str) -> str:
    """Status of one of the object's conditions; Unknown when it has none such."""
    found = cluster.api.call("GET", path).get("status", {}).get("conditions", [])
    return next((str(one["status"]) for one in found if one["type"] == kind), "Unknown")


def node_ready(cluster: Cluster, name: str) -> str:
    return condition(cluster, f"/api/v1/nodes/{name}", "Ready")


def kubectl(cluster: Cluster, *arguments: str) -> str:
    """Standard output of kubectl; fails with what it said."""
    argv = [str(binaries_folder() / "kubectl"), f"--kubeconfig={cluster.kubeconfig}", *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def shims(cluster: Cluster, node: str) -> list[int]:
    """Host pids of the node's container shims."""
    found = []
    for pid in cgroups.members(cluster.machine(node).cgroup):
        command = Path(f"/proc/{pid}/comm")
        if command.exists() and command.read_text().startswith("containerd-shim"):
            found.append(pid)
    return found


@dataclass
class Traces:
    """Everything the kernel holds of one cluster; noted while it lives, looked for when it should be gone."""

    prefix: str
    root: Path
    held: dict[str, int] = field(default_factory=dict)
    """PID namespaces of its machines, held open: else the kernel would give their numbers to a stranger's."""

    @classmethod
    def of(cls, cluster: Cluster) -> Traces:
        traces = cls(cluster.identity.prefix, cluster.root)
        for name in (CONTROL_PLANE, *cluster.node_names()):
            pid = cluster.machine(name).pid()
            assert pid is not None, f"{name} does not run"
            traces.held[_pid_namespace(pid)] = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)
        return traces

    def release(self) -> None:
        for descriptor in self.held.values():
            os.close(descriptor)
        self.held.clear()

    def left(self) -> dict[str, list[str]]:
        """What is still there, by kind; nothing but empty lists when all is gone."""
        return {
            "processes": [f"{pid} {_command(pid)}" for pid in processes.all_pids() if self._ours(pid)],
            "mounts": [line for line in _lines("/proc/self/mountinfo") if self._named(line)],
            "links": [line for line in _output("ip", "-o", "link") if self.prefix in line],
            "routes": [line for line in _output("ip", "route") if self.prefix in line],
            "namespaces": [line for line in _output("ip", "netns", "list") if self.prefix in line],
            "rules": [line for line in _output("iptables-save") if self.prefix in line],
            "cgroups": [str(group) for group in cgroups.groups_below(self.prefix)],
            "files": [str(path) for path in ([self.root] if self.root.exists() else [])],
        }

    def _ours(self, pid: int) -> bool:
        marked = processes.environment(pid).get(processes.CLUSTER_MARK) == self.prefix
        inside = _pid_namespace(pid) in self.held
        return processes.alive(pid) and (marked or inside or str(self.root) in _command(pid))

    def _named(self, line: str) -> bool:
        return self.prefix in line or str(self.root) in line


def assert_nothing_left(traces: Traces) -> None:
    left = {kind: found for kind, found in traces.left().items() if found}
    traces.release()
    assert not left, f"left behind: {left}"


def kill_all(pids: Iterable[int]) -> None:
    """kill -9, and wait until they are gone: a test that goes on earlier would race with the kernel."""
    found = set(pids)
    assert found, "there was nothing to kill"
    processes.kill(found)
    assert not processes.wait_gone(found, 10)


def _pid_namespace(pid: int) -> str:
    """`pid:[4026531836]`; empty when the process is gone."""
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def _output(*argv: str) -> list[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
