"""A cluster in its root directory: the face of this package for other engineers' code.

Every call works from any process on the machine: what is true is read from the kernel, the directory and the API.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from iris_devcluster import network
from iris_devcluster.api import Api, ApiError
from iris_devcluster.binaries.locate import binaries_folder
from iris_devcluster.errors import DevclusterError
from iris_devcluster.identity import CONTROL_PLANE, MAX_NODES, Identity
from iris_devcluster.machines.machine import Machine
from iris_devcluster.node import assemble
from iris_devcluster.node.spec import NodeRecord, NodeSpec
from iris_devcluster.pki import Pki
from iris_devcluster.processes import CLUSTER_MARK


@dataclass(frozen=True)
class Cluster:
    """A running (or broken, or half-started) cluster; making the object touches nothing."""

    identity: Identity

    @classmethod
    def open(cls, root: Path | str) -> Cluster:
        """The cluster that lives in `root`; raises ClusterNotFoundError."""
        return cls(Identity.load(Path(root).resolve()))

    @property
    def root(self) -> Path:
        return self.identity.root

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def registry_address(self) -> str:
        """Where a registry on this host must listen for the nodes to find it as registry.iris:5000."""
        return f"{self.identity.host_address}:5000"

    @property
    def certs_d(self) -> Path:
        """Every node's /etc/containerd/certs.d, from outside: one folder per registry host with a hosts.toml."""
        return self.root / "certs.d"

    @property
    def images(self) -> Path:
        """OCI archives (*.tar) that every node imports when it boots."""
        return self.root / "images"

    @property
    def pki(self) -> Pki:
        return Pki(self.root / "pki")

    @property
    def api(self) -> Api:
        """The API server, as cluster administrator; raises ApiError where it has not been started once."""
        if not self.pki.ca.certificate.exists():
            raise ApiError(0, f"the cluster in {self.root} was never started; run: iris-devcluster up")
        admin = self.pki.client("admin", "iris-devcluster-admin", ["system:masters"])
        return Api(self.identity.control_plane_address, self.pki.ca.certificate, admin)

    def environment(self) -> dict[str, str]:
        """Variables for a host process that belongs to this cluster; `down` finds and ends it by them."""
        return {CLUSTER_MARK: self.identity.prefix, "KUBECONFIG": str(self.kubeconfig)}

    def machine(self, name: str) -> Machine:
        """The machine of a node, or of the control plane (identity.CONTROL_PLANE)."""
        folder = self.root / CONTROL_PLANE if name == CONTROL_PLANE else self.node_dir(name)
        return Machine(self.identity.prefix, name, folder)

    # Nodes

    def node_dir(self, name: str) -> Path:
        """The node's own directories from outside: kubelet (device-plugins below it), containerd, cache, log."""
        return self.root / "nodes" / name

    def node_names(self) -> list[str]:
        """Every node of this cluster's machines, booted or powered off."""
        return sorted(path.parent.name for path in (self.root / "nodes").glob("*/node.json"))

    def node_record(self, name: str) -> NodeRecord:
        """Raises DevclusterError when there is no such node."""
        record = NodeRecord.load(self.node_dir(name))
        if record is None:
            known = ", ".join(self.node_names()) or "none"
            raise DevclusterError(f"no node {name} in {self.root}; there are: {known}")
        return record

    def boot_node(self, spec: NodeSpec) -> None:
        """Power on a node, new or powered off; returns when its programs start, which is before it is Ready.

        Idempotent; a node that runs keeps the spec it was booted with.
        """
        with self._lock(f"node-{spec.name}"):
            control_plane = self._control_plane_pid()
            machine = self.machine(spec.name)
            record = self._remember(spec)
            if machine.pid() is None:
                self._register(record)
                self._prepare(machine, record)
                machine.start(
                    assemble.description(self.identity, self.pki, record, machine.directory),
                    lambda pid: network.connect_node(self.identity, record.index, pid, control_plane),
                )
            record.save(machine.directory)

    def remove_node(self, name: str) -> None:
        """Power off, delete the Node object and every trace; fine when there is none."""
        with self._lock(f"node-{name}"):
            self.machine(name).kill()
            record = NodeRecord.load(self.node_dir(name))
            control_plane = self.machine(CONTROL_PLANE).pid()
            if record is not None and control_plane is not None:
                network.disconnect_node(self.identity, record.index, control_plane)
                self.api.delete(f"/api/v1/nodes/{name}")
            shutil.rmtree(self.node_dir(name), ignore_errors=True)
            if self.node_dir(name).exists():
                shutil.rmtree(self.node_dir(name))

    def kill_node(self, name: str) -> None:
        """Power cut: everything in the node ends at once, its Node object stays and turns NotReady.

        `up` leaves it off; boot_node powers it on again with its disk as it was.
        """
        with self._lock(f"node-{name}"):
            record = self.node_record(name)
            NodeRecord(record.spec, record.index, powered=False).save(self.node_dir(name))
            self.machine(name).kill()

    def pause_kubelet(self, name: str) -> None:
        """SIGSTOP: the node turns NotReady while its containers run on."""
        os.kill(self._kubelet(name), signal.SIGSTOP)

    def resume_kubelet(self, name: str) -> None:
        """SIGCONT."""
        os.kill(self._kubelet(name), signal.SIGCONT)

    def node_pids(self, name: str) -> dict[str, int]:
        """Host pids of the node's running programs: containerd, kubelet, kube-proxy and any extra."""
        self.node_record(name)
        return {one.name: one.pid for one in self.machine(name).states() if one.pid}

    def node_exec(self, name: str, argv: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command in the node's namespaces, where its paths are canonical."""
        self.node_record(name)
        return self.machine(name).exec(argv)

    def repair_link(self, name: str) -> None:
        """Plug a running node into a control plane that was started anew; nothing when it is plugged in."""
        pid = self.machine(name).pid()
        if pid is not None:
            record = self.node_record(name)
            network.connect_node(self.identity, record.index, pid, self._control_plane_pid())

    # Inside

    def _control_plane_pid(self) -> int:
        pid = self.machine(CONTROL_PLANE).pid()
        if pid is None:
            raise DevclusterError(f"the control plane of {self.root} is down; iris-devcluster up repairs it")
        return pid

    def _kubelet(self, name: str) -> int:
        pid = self.node_pids(name).get("kubelet")
        if pid is None:
            raise DevclusterError(f"no kubelet runs on {name}")
        return pid

    def _remember(self, spec: NodeSpec) -> NodeRecord:
        """The node's record, with the lowest free index for a new one."""
        with self._lock("indexes"):
            directory = self.node_dir(spec.name)
            known = NodeRecord.load(directory)
            if known is not None:
                return NodeRecord(spec, known.index)
            used = {self.node_record(name).index for name in self.node_names()}
            free = next((index for index in range(MAX_NODES) if index not in used), None)
            if free is None:
                raise DevclusterError(f"a cluster on one machine has room for {MAX_NODES} nodes")
            directory.mkdir(parents=True, exist_ok=True)
            record = NodeRecord(spec, free)
            record.save(directory)
            return record

    def _prepare(self, machine: Machine, record: NodeRecord) -> None:
        folder = machine.directory / "processes"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        path = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        for process in assemble.programs(self.identity, record, binaries_folder(), path):
            process.save(folder)

    def _register(self, record: NodeRecord) -> None:
        """Make the Node object before the kubelet does: a kubelet can't set annotations, nor kubernetes.io labels."""
        spec = record.spec
        metadata = {"name": spec.name, "labels": dict(spec.labels), "annotations": dict(spec.annotations)}
        base = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        pod_range = self.identity.node_pod_range(record.index)
        node_spec = {"podCIDR": pod_range, "podCIDRs": [pod_range], "taints": [dict(one) for one in spec.taints]}
        # kube-proxy starts half a minute late on a Node without addresses.
        status = {"addresses": [{"type": "InternalIP", "address": self.identity.node_address(record.index)}]}
        try:
            self.api.call("POST", "/api/v1/nodes", {**base, "spec": node_spec, "status": status})
        except ApiError as error:
            if error.status != 409:
                raise
            self.api.apply(f"/api/v1/nodes/{spec.name}", base)

    @contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        """One process at a time, in the whole machine."""
        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
