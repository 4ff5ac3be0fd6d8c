"""The library's face: nodes booted, removed, cut off and paused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from iris_devcluster.cluster import Cluster
from iris_devcluster.errors import DevclusterError
from iris_devcluster.node.spec import NodeSpec
from iris_devcluster.nodes import Process
from tests.e2e.devcluster.kit import PODS, Traces, busybox_pod, eventually, node_ready, run_pod

pytestmark = pytest.mark.e2e

SPEC = NodeSpec(
    name="gpu-0",
    labels={"iris-managed": "true", "node.kubernetes.io/instance-type": "gd-8xh100ib-i128"},
    annotations={"example.com/rack": "r1"},
    taints=[{"key": "is_gpu", "value": "true", "effect": "PreferNoSchedule"}],
    system_reserved={"cpu": "500m", "memory": "2Gi"},
)


@pytest.fixture
def node(cluster: Cluster) -> Iterator[str]:
    cluster.boot_node(SPEC)
    eventually("gpu-0 Ready", lambda: node_ready(cluster, "gpu-0") == "True", 20)
    yield "gpu-0"
    cluster.remove_node("gpu-0")


def test_boot_and_removal_are_quick_and_complete(cluster: Cluster) -> None:
    began = time.monotonic()
    cluster.boot_node(SPEC)
    eventually("gpu-0 Ready", lambda: node_ready(cluster, "gpu-0") == "True", 20)
    assert time.monotonic() - began < 10
    traces, directory = Traces.of(cluster), cluster.node_dir("gpu-0")
    group = cluster.machine("gpu-0").cgroup
    began = time.monotonic()
    cluster.remove_node("gpu-0")
    assert time.monotonic() - began < 5
    left = traces.left()
    traces.release()
    assert not [text for text in (*left["processes"], *left["cgroups"]) if "gpu-0" in text or group in text]
    assert not directory.exists()
    assert not cluster.api.exists("/api/v1/nodes/gpu-0")
    assert "gpu-0" not in cluster.node_names()
    cluster.remove_node("gpu-0")  # again: nothing to do


def test_the_node_object_is_as_specified(cluster: Cluster, node: str) -> None:
    found = cluster.api.call("GET", f"/api/v1/nodes/{node}")
    assert found["metadata"]["labels"].items() >= dict(SPEC.labels).items()
    assert found["metadata"]["annotations"]["example.com/rack"] == "r1"
    assert {"key": "is_gpu", "value": "true", "effect": "PreferNoSchedule"} in found["spec"]["taints"]
    capacity, allocatable = found["status"]["capacity"], found["status"]["allocatable"]
    assert int(capacity["cpu"]) * 1000 - 500 == int(allocatable["cpu"].removesuffix("m"))
    assert int(capacity["memory"].removesuffix("Ki")) - int(allocatable["memory"].removesuffix("Ki")) == 2 << 20


def test_booting_a_running_node_changes_nothing(cluster: Cluster, node: str) -> None:
    before = cluster.node_pids(node)
    cluster.boot_node(SPEC)
    assert cluster.node_pids(node) == before
    assert before.keys() >= {"containerd", "kubelet", "kube-proxy"}


def test_a_killed_node_turns_not_ready_and_comes_back(cluster: Cluster, node: str) -> None:
    cluster.kill_node(node)
    assert cluster.node_pids(node) == {}
    eventually("NotReady", lambda: node_ready(cluster, node) != "True", 60)
    cluster.boot_node(SPEC)
    eventually("Ready again", lambda: node_ready(cluster, node) == "True", 20)


def test_a_paused_kubelet_turns_not_ready_while_containers_run(cluster: Cluster, node: str) -> None:
    run_pod(cluster, busybox_pod("stays", node, "exec /busybox sleep 3600"))
    cluster.pause_kubelet(node)
    try:
        eventually("NotReady", lambda: node_ready(cluster, node) != "True", 60)
        assert "sleep 3600" in cluster.node_exec(node, ["ps", "-eo", "args"]).stdout
    finally:
        cluster.resume_kubelet(node)
    eventually("Ready again", lambda: node_ready(cluster, node) == "True", 20)
    cluster.api.delete(f"{PODS}/stays")


@pytest.mark.parametrize("program", ["kubelet", "containerd", "kube-proxy"])
def test_a_killed_program_is_restarted_and_pods_run_on(cluster: Cluster, node: str, program: str) -> None:
    name = f"survives-{program}"
    run_pod(cluster, busybox_pod(name, node, "exec /busybox sleep 3600"))
    before = cluster.node_pids(node)[program]
    os.kill(before, signal.SIGKILL)
    eventually(f"{program} again", lambda: cluster.node_pids(node).get(program, before) != before, 10)
    eventually("Ready", lambda: node_ready(cluster, node) == "True", 20)
    assert cluster.machine(node).states()
    status = cluster.api.call("GET", f"{PODS}/{name}")["status"]
    assert status["containerStatuses"][0]["restartCount"] == 0
    assert status["phase"] == "Running"
    cluster.api.delete(f"{PODS}/{name}")


def test_an_extra_program_runs_inside_under_the_supervisor(cluster: Cluster, node: str) -> None:
    """As a device plugin does: in the node's namespaces, at canonical paths, restarted when it dies."""
    script = "echo $$ >>/var/lib/kubelet/device-plugins/starts; exec sleep 3600"
    cluster.machine(node).run(Process("plugin", ("/bin/sh", "-c", script)))
    eventually("plugin", lambda: cluster.node_pids(node).get("plugin", 0) != 0, 5)
    starts = cluster.node_dir(node) / "kubelet" / "device-plugins" / "starts"
    eventually("first start", starts.exists, 5)
    os.kill(cluster.node_pids(node)["plugin"], signal.SIGKILL)
    eventually("second start", lambda: len(starts.read_text().split()) == 2, 5)
    cluster.machine(node).stop("plugin")
    eventually("stopped", lambda: "plugin" not in cluster.node_pids(node), 5)


def test_nodes_do_not_see_each_others_files_and_processes(cluster: Cluster, node: str) -> None:
    cluster.node_exec(node, ["touch", "/run/mine", "/etc/mine", "/var/mine"])
    for path in ("/run/mine", "/etc/mine", "/var/mine"):
        assert cluster.node_exec(node, ["test", "-e", path]).returncode == 0
        assert cluster.node_exec("system-0", ["test", "-e", path]).returncode == 1
        assert subprocess.run(["test", "-e", path], check=False).returncode == 1
    assert cluster.node_exec(node, ["hostname"]).stdout == "gpu-0\n"
    assert cluster.node_exec(node, ["ps", "-eo", "args"]).stdout.count("/kubelet ") == 1


def test_another_process_can_do_all_this(cluster: Cluster) -> None:
    script = (
        "import sys; from iris_devcluster.nodes import Cluster, NodeSpec\n"
        "cluster = Cluster.open(sys.argv[1]); cluster.boot_node(NodeSpec('other-0'))\n"
    )
    subprocess.run([sys.executable, "-c", script, str(cluster.root)], check=True, timeout=30)
    eventually("Ready", lambda: node_ready(cluster, "other-0") == "True", 20)
    cluster.remove_node("other-0")


def test_an_unknown_node_is_named_in_the_error(cluster: Cluster) -> None:
    with pytest.raises(DevclusterError, match=r"no node nowhere.*system-0"):
        cluster.kill_node("nowhere")
