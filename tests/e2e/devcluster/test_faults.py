"""kill -9 of anything: `up` repairs it, and `down` leaves nothing."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from iris_devcluster import cgroups, lifecycle, processes
from iris_devcluster.cluster import Cluster
from iris_devcluster.identity import CONTROL_PLANE, prefix_of
from iris_devcluster.node.spec import NodeSpec
from iris_devcluster.progress import Progress
from iris_devcluster.status import cluster_status
from tests.e2e.devcluster.kit import (
    PODS,
    Traces,
    assert_nothing_left,
    busybox_pod,
    eventually,
    kill_all,
    kubectl,
    node_ready,
    run_pod,
    shims,
)

pytestmark = pytest.mark.e2e


def supervisor(cluster: Cluster, name: str) -> int:
    pid = cluster.machine(name).pid()
    assert pid is not None
    return pid


def programs(cluster: Cluster, name: str) -> list[int]:
    return [one.pid for one in cluster.machine(name).states() if one.pid]


def test_a_second_up_changes_nothing(own_cluster: Callable[[], Cluster]) -> None:
    cluster = own_cluster()
    before = {name: programs(cluster, name) for name in (CONTROL_PLANE, "system-0")}
    began = time.monotonic()
    again = own_cluster()
    assert time.monotonic() - began < 5
    assert {name: programs(again, name) for name in (CONTROL_PLANE, "system-0")} == before


def test_a_killed_control_plane_program_is_restarted(own_cluster: Callable[[], Cluster]) -> None:
    cluster = own_cluster()
    kill_all(programs(cluster, CONTROL_PLANE))
    eventually("the API server", cluster.api.ready, 30)
    eventually("every program", lambda: cluster_status(cluster).ok, 60)
    run_pod(cluster, busybox_pod("after-restart", "system-0", "exec /busybox sleep 3600"))


def test_up_repairs_a_control_plane_that_died(own_cluster: Callable[[], Cluster]) -> None:
    """Nodes outlive it, with their containers, and are plugged into the new one."""
    cluster = own_cluster()
    run_pod(cluster, busybox_pod("before-repair", "system-0", "echo here; exec /busybox sleep 3600"))
    node = supervisor(cluster, "system-0")
    kill_all([supervisor(cluster, CONTROL_PLANE)])
    assert not cluster_status(cluster).ok
    repaired = own_cluster()
    assert supervisor(repaired, "system-0") == node
    assert kubectl(repaired, "logs", "before-repair") == "here\n"
    assert repaired.api.call("GET", f"{PODS}/before-repair")["status"]["containerStatuses"][0]["restartCount"] == 0
    run_pod(repaired, busybox_pod("after-repair", "system-0", "exec /busybox sleep 3600"))
    eventually("a healthy status", lambda: cluster_status(repaired).ok, 30)


def test_up_boots_a_node_that_died_but_not_one_that_was_switched_off(own_cluster: Callable[[], Cluster]) -> None:
    cluster = own_cluster()
    for name in ("died", "switched-off"):
        cluster.boot_node(NodeSpec(name))
    kill_all([supervisor(cluster, "died"), supervisor(cluster, "system-0")])
    cluster.kill_node("switched-off")
    health = {machine.name: machine.health for machine in cluster_status(cluster).machines}
    assert (health["died"], health["switched-off"]) == ("Broken", "PoweredOff")
    repaired = own_cluster()
    eventually("died is Ready", lambda: node_ready(repaired, "died") == "True", 20)
    assert repaired.machine("switched-off").pid() is None
    for name in ("died", "switched-off"):
        repaired.remove_node(name)


WORKERS = ("worker-0", "worker-1", "worker-2")


def a_node_each(cluster: Cluster) -> list[int]:
    """Every program of one, the container shims of another, the supervisor of a third."""
    found = [programs(cluster, WORKERS[0]), shims(cluster, WORKERS[1]), [supervisor(cluster, WORKERS[2])]]
    assert all(found)
    return [pid for each in found for pid in each]


VICTIMS: dict[str, tuple[tuple[str, ...], Callable[[Cluster], list[int]]]] = {
    "nothing": (WORKERS[:1], lambda _: []),
    "every program of the control plane": (WORKERS[:1], lambda it: programs(it, CONTROL_PLANE)),
    "the control plane's supervisor": (WORKERS[:1], lambda it: [supervisor(it, CONTROL_PLANE)]),
    "programs, shims, supervisor, of a node each": (WORKERS, a_node_each),
    "every process of the cluster": (WORKERS[:1], lambda it: sorted(cgroups.members(it.identity.prefix))),
}


@pytest.mark.parametrize(("nodes", "victims"), VICTIMS.values(), ids=VICTIMS.keys())
def test_down_leaves_nothing_after_kill_9(
    own_cluster: Callable[[], Cluster], nodes: tuple[str, ...], victims: Callable[[Cluster], list[int]]
) -> None:
    cluster = own_cluster()
    for name in nodes:
        cluster.boot_node(NodeSpec(name))
    for name in nodes:
        run_pod(cluster, busybox_pod(f"busy-{name}", name, "exec /busybox sleep 3600"))
    stray = subprocess.Popen(["sleep", "3600"], env=cluster.environment())  # as a registry on the host is
    traces = Traces.of(cluster)
    assert len(traces.left()["processes"]) > 10  # or it would find nothing later, too
    found = victims(cluster)
    if found:
        kill_all(found)
    lifecycle.down(cluster.root, "own", Progress())
    assert stray.wait(5) == -signal.SIGKILL
    assert_nothing_left(traces)


def test_down_finds_a_cluster_whose_directory_is_gone(own_cluster: Callable[[], Cluster]) -> None:
    cluster = own_cluster()
    traces = Traces.of(cluster)
    shutil.rmtree(cluster.root, ignore_errors=True)  # its programs go on writing
    assert not (cluster.root / "cluster.json").exists()
    lifecycle.down(cluster.root, "own", Progress())
    assert_nothing_left(traces)


@pytest.mark.parametrize("seconds", [0.3, 0.6, 1.2, 2.5, 4.0])
def test_down_cleans_up_after_an_up_that_was_killed(empty_root: Path, seconds: float) -> None:
    script = (
        "import sys; from pathlib import Path; from iris_devcluster import lifecycle\n"
        "from iris_devcluster.progress import Progress\n"
        "lifecycle.up(Path(sys.argv[1]), 'own', Progress())\n"
    )
    running = subprocess.Popen([sys.executable, "-c", script, str(empty_root)])
    time.sleep(seconds)
    running.kill()
    running.wait()
    lifecycle.down(empty_root, "own", Progress())
    assert_nothing_left(Traces(prefix_of(empty_root, "own"), empty_root.resolve()))


def test_a_root_below_var_works(other_cluster: Cluster) -> None:
    """Machines have a /var of their own; their cluster's directory must show through."""
    run_pod(other_cluster, busybox_pod("one", "system-0", "echo here; exec /busybox sleep 3600"))
    assert kubectl(other_cluster, "logs", "one") == "here\n"
    assert cluster_status(other_cluster).ok


def test_two_clusters_side_by_side(cluster: Cluster, other_cluster: Cluster) -> None:
    assert other_cluster.identity.octet != cluster.identity.octet
    run_pod(other_cluster, busybox_pod("same-name", "system-0", "exec /busybox sleep 3600"))
    run_pod(cluster, busybox_pod("same-name", "system-0", "exec /busybox sleep 3600"))
    traces = Traces.of(other_cluster)
    lifecycle.down(other_cluster.root, "own", Progress())
    assert_nothing_left(traces)
    assert cluster_status(cluster).ok
    assert processes.marked(cluster.identity.prefix)
    cluster.api.delete(f"{PODS}/same-name")
