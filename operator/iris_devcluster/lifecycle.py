"""`up` and `down`: both only close the gap between what is there and what should be."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from iris_devcluster import network
from iris_devcluster.binaries.locate import binaries_folder
from iris_devcluster.cluster import Cluster
from iris_devcluster.control_plane import dns
from iris_devcluster.control_plane.start import start_control_plane
from iris_devcluster.egress import open_egress
from iris_devcluster.errors import ClusterNotFoundError, DevclusterError
from iris_devcluster.host import load_kernel_modules, raise_inotify_limits
from iris_devcluster.identity import CONTROL_PLANE, Identity, choose_octet, prefix_of
from iris_devcluster.node import files
from iris_devcluster.node.pause import write_pause_archive
from iris_devcluster.node.spec import NodeRecord, NodeSpec
from iris_devcluster.progress import Progress, Step
from iris_devcluster.sweep import sweep

SYSTEM_NODE = NodeSpec(name="system-0", labels={"node-role.kubernetes.io/system": ""})
"""Carries what is no rented capacity: the operator and other Deployments."""

_READY_TIMEOUT_SECONDS = 240.0


def up(root: Path, name: str, progress: Progress) -> Cluster:
    """Make the cluster run: start what is missing, wait until a Pod can be scheduled. Needs root."""
    if os.geteuid() != 0:
        raise DevclusterError("the embedded cluster makes namespaces and cgroups: run it as root")
    binaries = binaries_folder()
    cluster = Cluster(identify(root, name))
    _prepare_root(cluster)
    with progress.step("Control plane") as step:
        step.note = "" if start_control_plane(cluster, binaries) else "was running"
        open_egress(cluster.identity)
        explain = _explain_control_plane(cluster)
        wait_until(cluster.api.ready, "the API server to answer", step, explain)
        dns.apply_service(cluster.api, cluster.identity)
        # Without it no Pod is admitted; the controller-manager makes it a moment after its own start.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_until(lambda: cluster.api.exists(account), "the first service account", step, explain)
    with progress.step(f"Node {SYSTEM_NODE.name}") as step:
        _power_nodes(cluster)
        wait_ready(cluster, SYSTEM_NODE.name, step)
        wait_until(lambda: dns.answers(cluster.identity), "cluster DNS", step, explain)
    return cluster


def down(root: Path, name: str, progress: Progress) -> None:
    """End the cluster and remove every trace of it, also of one whose parts or files are gone already."""
    root = root.resolve()
    try:
        name = Identity.load(root).name
    except ClusterNotFoundError:
        progress.say(f"no cluster is recorded in {root}; looking for traces of one named {name}")
    with progress.step("Processes, networks, mounts, cgroups"):
        sweep(prefix_of(root, name), root)
    with progress.step("Files"):
        for entry in ("control-plane", "coreweave", "nodes", "pki", "locks", "images", "certs.d"):
            _remove_tree(root / entry)
        for entry in ("kubeconfig", "cluster.json"):
            (root / entry).unlink(missing_ok=True)
        if root.exists() and not any(root.iterdir()):
            root.rmdir()


def identify(root: Path, name: str) -> Identity:
    """The identity of the cluster in `root`, made at its first start; raises when another one lives there."""
    root.mkdir(parents=True, exist_ok=True)
    root = root.resolve()
    try:
        identity = Identity.load(root)
    except ClusterNotFoundError:
        octet = choose_octet(prefix_of(root, name), network.taken_octets())
        identity = Identity(name, root, octet)
        identity.save()
    if identity.name != name:
        raise DevclusterError(f"{root} holds the cluster {identity.name}; give {name} a --root of its own")
    return identity


def _prepare_root(cluster: Cluster) -> None:
    load_kernel_modules()
    raise_inotify_limits()
    # _default: what no other folder names, so that images without a registry come from ours, too
    registries = [cluster.certs_d / name for name in (files.REGISTRY_NAME, "_default")]
    for folder in (cluster.images, *registries):
        folder.mkdir(parents=True, exist_ok=True)
    write_pause_archive(cluster.images / "pause.tar", files.PAUSE_IMAGE)
    for folder in registries:
        (folder / "hosts.toml").write_text(files.hosts_toml(cluster.registry_address))


def _power_nodes(cluster: Cluster) -> None:
    """Boot the system node, and again every node that died by itself; one that was killed on purpose stays off."""
    cluster.boot_node(SYSTEM_NODE)
    for name in cluster.node_names():
        record = NodeRecord.load(cluster.node_dir(name))
        if record is None or not record.powered:
            continue
        cluster.boot_node(record.spec)
        cluster.repair_link(name)


def wait_ready(cluster: Cluster, name: str, step: Step) -> None:
    """Wait until the node is Ready; raises DevclusterError after four minutes."""

    def ready() -> bool:
        return node_is_ready(cluster, name)

    log = cluster.node_dir(name) / "log"
    wait_until(ready, f"{name} to be Ready", step, lambda: f"its logs are in {log}")


def node_is_ready(cluster: Cluster, name: str) -> bool:
    """Whether the Node's condition Ready is True."""
    node = cluster.api.call("GET", f"/api/v1/nodes/{name}")
    conditions = node.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def wait_until(done: Callable[[], bool], what: str, step: Step, hint: Callable[[], str]) -> None:
    """Poll until `done`; raises DevclusterError with the hint after four minutes."""
    began = time.monotonic()
    while not done():
        waited = time.monotonic() - began
        if waited > _READY_TIMEOUT_SECONDS:
            raise DevclusterError(f"waited {waited:.0f} s for {what}; {hint()}")
        step.update(f"waiting for {what} ({waited:.0f} s)")
        time.sleep(0.2)


def _explain_control_plane(cluster: Cluster) -> Callable[[], str]:
    def explain() -> str:
        machine = cluster.machine(CONTROL_PLANE)
        failing = [f"{one.name} ({one.last_exit})" for one in machine.states() if one.restarts]
        cause = f"restarted again and again: {', '.join(failing)}; " if failing else ""
        return f"{cause}logs are in {machine.directory / 'log'}"

    return explain


def _remove_tree(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)
