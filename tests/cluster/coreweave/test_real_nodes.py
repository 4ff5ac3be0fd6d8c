"""The whole of it on real nodes: the kubelet counts the GPUs, a container gets them, faults show, nothing is left."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from iris_devcluster import lifecycle
from iris_devcluster.api import ApiError
from iris_devcluster.coreweave import service, store
from iris_devcluster.node.files import PAUSE_IMAGE
from iris_devcluster.nodes import Cluster
from iris_devcluster.progress import Progress
from tests.programs import run

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="real nodes need root"),
]

POOLS = "/apis/compute.coreweave.com/v1alpha1/nodepools"
PODS = "/api/v1/namespaces/default/pods"
SHOW = "echo $NVIDIA_VISIBLE_DEVICES; /busybox ls /dev /dev/infiniband; /busybox cat /dev/nvidiactl && echo opened"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("c")
    try:
        found = lifecycle.up(root, "coreweave", Progress())
        service.start(root, found.environment())
        yield found
    finally:
        service.stop(root)
        lifecycle.down(root, "coreweave", Progress())


@pytest.fixture(scope="module")
def pool(cluster: Cluster) -> Iterator[str]:
    """A NodePool with one node of eight GPUs, Ready, which each test leaves so; gone with its node afterwards."""
    body = {"apiVersion": "compute.coreweave.com/v1alpha1", "kind": "NodePool", "metadata": {"name": "gpus"}}
    taint = {"key": "nvidia.com/gpu", "value": "yes", "effect": "NoSchedule"}
    spec = {
        "instanceType": "gd-8xh100ib-i128",
        "targetNodes": 1,
        "nodeLabels": {"iris-managed": "true"},
        "nodeAnnotations": {"note": "x"},
        "nodeTaints": [taint],
    }
    cluster.api.call("POST", POOLS, {**body, "spec": spec})
    wait_until(lambda: gpus(cluster) == (8, 8), "eight GPUs", lambda: nodes(cluster))
    yield "gpus"
    cluster.api.delete(f"{POOLS}/gpus")
    wait_until(lambda: gone(cluster), "the NodePool's end", lambda: nodes(cluster))
    assert cluster.node_names() == ["system-0"]
    assert not nodes(cluster)


def wait_until(done: Callable[[], bool], what: str, seen: Callable[[], Any], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"no {what} after {seconds} s: {seen()}"
        time.sleep(0.2)


def nodes(cluster: Cluster, pool: str = "gpus") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.api.call(
        "GET", f"/api/v1/nodes?labelSelector=compute.coreweave.com%2Fnode-pool%3D{pool}"
    )["items"]
    return found


def name_of(cluster: Cluster) -> str:
    return str(nodes(cluster)[0]["metadata"]["name"])


def gpus(cluster: Cluster) -> tuple[int, int]:
    """Capacity and allocatable, (-1, -1) while the resource is not there."""
    for node in nodes(cluster):
        status = node["status"]
        if "nvidia.com/gpu" in status.get("capacity", {}):
            return int(status["capacity"]["nvidia.com/gpu"]), int(status["allocatable"]["nvidia.com/gpu"])
    return -1, -1


def ready(cluster: Cluster) -> str:
    conditions = nodes(cluster)[0]["status"]["conditions"]
    return next(str(row["status"]) for row in conditions if row["type"] == "Ready")


def heard_of(cluster: Cluster) -> datetime:
    """When the kubelet last told the node's status, to the second."""
    (row,) = (row for row in nodes(cluster)[0]["status"]["conditions"] if row["type"] == "Ready")
    return datetime.fromisoformat(row["lastHeartbeatTime"])


def gone(cluster: Cluster) -> bool:
    try:
        cluster.api.call("GET", f"{POOLS}/gpus")
    except ApiError as error:
        return error.status == 404
    return False


def cloud(cluster: Cluster, *arguments: str) -> None:
    done = run(["iris-devcluster", "--root", str(cluster.root), "cloud", *arguments])
    assert done.returncode == 0, done.stderr


def test_a_container_gets_the_gpus_that_the_kubelet_counts(cluster: Cluster, pool: str) -> None:
    node = nodes(cluster)[0]
    assert node["status"]["allocatable"]["rdma/ib"] == "64"
    assert float(node["status"]["allocatable"]["cpu"].rstrip("m")) <= 2000
    assert node["status"]["allocatable"]["memory"] in ("4Gi", f"{4 * 2**20}Ki")
    assert node["metadata"]["labels"]["iris-managed"] == "true"
    assert node["metadata"]["annotations"]["note"] == "x"
    container = {
        "name": "main",
        "image": PAUSE_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/busybox", "sh", "-c", SHOW],
        "resources": {"limits": {"nvidia.com/gpu": 3, "rdma/ib": 1}},
    }
    spec = {"restartPolicy": "Never", "tolerations": [{"operator": "Exists"}], "containers": [container]}
    cluster.api.call("POST", PODS, {"metadata": {"name": "asks"}, "spec": spec})
    wait_until(
        lambda: phase(cluster) in ("Succeeded", "Failed"), "end of the Pod", lambda: cluster.api.call("GET", PODS)
    )
    lines = str(cluster.api.call("GET", f"{PODS}/asks/log")).split()
    cluster.api.delete(f"{PODS}/asks")
    assert lines[0].count("GPU-") == 3
    assert sum(line.startswith("nvidia") and line[6:].isdigit() for line in lines) == 3
    assert {"uverbs0", "nvidiactl", "opened"} <= set(lines)


def phase(cluster: Cluster) -> str:
    return str(cluster.api.call("GET", f"{PODS}/asks")["status"].get("phase"))


def test_faults_show_and_end(cluster: Cluster, pool: str) -> None:
    name = name_of(cluster)
    cloud(cluster, "fault", name, "--sick-gpus", "2")
    wait_until(lambda: gpus(cluster) == (8, 6), "sick GPUs", lambda: gpus(cluster))
    cloud(cluster, "fault", name, "--gpus", "7", "--sick-gpus", "0")
    wait_until(lambda: gpus(cluster) == (7, 7), "lost GPU", lambda: gpus(cluster))
    cloud(cluster, "fault", name, "--power-cut")
    wait_until(lambda: ready(cluster) == "Unknown", "dead node", lambda: ready(cluster))
    assert not cluster.node_pids(name)
    cloud(cluster, "clear")
    wait_until(lambda: ready(cluster) == "True" and gpus(cluster) == (8, 8), "node again", lambda: nodes(cluster))
    cloud(cluster, "fault", name, "--not-ready")
    wait_until(lambda: ready(cluster) == "Unknown", "silent node", lambda: ready(cluster))
    cloud(cluster, "clear")
    wait_until(lambda: ready(cluster) == "True", "node that answers", lambda: ready(cluster))


def test_a_killed_kubelet_and_a_killed_simulator(cluster: Cluster, pool: str) -> None:
    name = name_of(cluster)
    os.kill(cluster.node_pids(name)["kubelet"], 9)
    killed = datetime.now(UTC)
    # A kubelet that starts knows of no GPU until the plugin registers anew: what it counts now, it was told since.
    wait_until(
        lambda: heard_of(cluster) > killed + timedelta(seconds=1) and gpus(cluster) == (8, 8),
        "GPUs registered again",
        lambda: (heard_of(cluster), gpus(cluster)),
    )
    before = service.state(cluster.root).controller
    os.kill(before, 9)
    wait_until(lambda: service.state(cluster.root).controller not in (0, before), "restart", lambda: before)
    assert name_of(cluster) == name


def test_a_node_without_its_gpus(cluster: Cluster) -> None:
    cloud(cluster, "fault", "bare", "--gpus", "0")
    data = cluster.api.call("GET", store.PATH)["data"]
    assert "gpus: 0" in json.dumps(data)
    body = {"apiVersion": "compute.coreweave.com/v1alpha1", "kind": "NodePool", "metadata": {"name": "bare"}}
    cluster.api.call("POST", POOLS, {**body, "spec": {"instanceType": "gd-8xa100-i128", "targetNodes": 1}})

    def current() -> bool:
        return bool((cluster.api.call("GET", f"{POOLS}/bare").get("status") or {}).get("currentNodes") == 1)

    wait_until(current, "node", lambda: cluster.api.call("GET", f"{POOLS}/bare"))
    (node,) = nodes(cluster, "bare")
    assert "nvidia.com/gpu" not in node["status"]["capacity"]
    cloud(cluster, "clear")
    cluster.api.delete(f"{POOLS}/bare")
    name = node["metadata"]["name"]
    wait_until(lambda: name not in cluster.node_names() and not nodes(cluster, "bare"), "end", cluster.node_names)
