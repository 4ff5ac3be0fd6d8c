"""Boot the control plane's machine and make its cluster usable."""

from __future__ import annotations

import os
from pathlib import Path

from iris_devcluster import kubeconfig, network
from iris_devcluster.cluster import Cluster
from iris_devcluster.control_plane.dns import corefile
from iris_devcluster.control_plane.programs import programs
from iris_devcluster.host import nameservers
from iris_devcluster.identity import CONTROL_PLANE
from iris_devcluster.machines.description import Description

_SYSCTLS = {
    "net/ipv4/ip_forward": "1",  # it routes between nodes' Pods
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/default/send_redirects": "0",
}


def start_control_plane(cluster: Cluster, binaries: Path) -> bool:
    """Certificates, configuration, machine; returns whether it had to be started."""
    machine = cluster.machine(CONTROL_PLANE)
    if machine.pid() is not None:
        return False
    identity, folder = cluster.identity, machine.directory
    configs = folder / "configs"
    for each in (configs, folder / "processes"):
        each.mkdir(parents=True, exist_ok=True)
    _write_configs(cluster, configs)
    path = f"{binaries}:{os.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}"
    for process in programs(identity, cluster.pki, binaries, configs):
        process.env["PATH"] = path
        process.save(folder / "processes")
    root = str(cluster.root)
    description = Description(machine.cgroup, CONTROL_PLANE, binds={root: root}, sysctls=_SYSCTLS)
    machine.start(description, lambda pid: network.connect_control_plane(identity, pid))
    return True


def _write_configs(cluster: Cluster, configs: Path) -> None:
    identity, pki = cluster.identity, cluster.pki
    pki.prepare()
    users = {
        configs / "controller-manager.kubeconfig": pki.client("controller-manager", "system:kube-controller-manager"),
        configs / "scheduler.kubeconfig": pki.client("scheduler", "system:kube-scheduler"),
        configs / "coredns.kubeconfig": pki.client("coredns", "system:coredns"),
        cluster.kubeconfig: pki.client("admin", "iris-devcluster-admin", ["system:masters"]),
    }
    for path, client in users.items():
        text = kubeconfig.render(identity.name, identity.server, pki.ca.certificate, client)
        kubeconfig.write(path, text)
    corefile_text = corefile(identity, str(configs / "coredns.kubeconfig"), nameservers())
    (configs / "Corefile").write_text(corefile_text)
