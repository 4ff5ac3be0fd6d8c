"""From a NodeSpec to a machine: its directories, files and programs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from iris_devcluster import kubeconfig
from iris_devcluster.host import may_lower_oom_score, nameservers, snapshotter_for
from iris_devcluster.identity import Identity
from iris_devcluster.machines.description import Description
from iris_devcluster.machines.process import Process
from iris_devcluster.node import files
from iris_devcluster.node.spec import NodeRecord
from iris_devcluster.pki import Pair, Pki

_IMPORTED = "/run/iris/images-imported"

_BINDS = {
    "/var/lib/kubelet": "kubelet",
    "/var/lib/containerd": "containerd",
    "/var/lib/cni": "cni",
    "/var/log/pods": "pod-logs",
    "/var/log/containers": "container-logs",
    "/var/cache/iris": "cache",
}
"""Path inside the node -> folder of the node's directory."""

_SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/default/send_redirects": "0",
    # Pods of one node reach each other's Services through the bridge only when iptables sees bridged packets.
    "net/bridge/bridge-nf-call-iptables": "1",
}


# A control plane that is started anew answers at the old address but knows no connection: seconds, not upstream's 45.
_STALE_CONNECTIONS = {"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "8", "HTTP2_PING_TIMEOUT_SECONDS": "5"}


def description(identity: Identity, pki: Pki, record: NodeRecord, directory: Path) -> Description:
    """The machine of a node; makes the directories it needs."""
    own = {inside: directory / folder for inside, folder in _BINDS.items()}
    for outside in own.values():
        outside.mkdir(parents=True, exist_ok=True)
    # The root at its own path first: below /var or /run it would be out of the machine's sight.
    binds = {str(identity.root): identity.root, **own}
    binds["/etc/containerd/certs.d"] = identity.root / "certs.d"
    binds["/run/iris/images"] = identity.root / "images"
    return Description(
        cgroup=f"{identity.prefix}/{record.spec.name}",
        hostname=record.spec.name,
        binds={inside: str(outside) for inside, outside in binds.items()},
        files=_files(identity, pki, record, directory),
        sysctls=_SYSCTLS,
    )


def _files(identity: Identity, pki: Pki, record: NodeRecord, directory: Path) -> dict[str, str]:
    name, address = record.spec.name, identity.node_address(record.index)
    own = Pki(directory / "pki")
    own.folder.mkdir(exist_ok=True, mode=0o700)
    client = own.client("kubelet-client", f"system:node:{name}", ["system:nodes"], pki.ca)
    serving = own.server("kubelet", [f"DNS:{name}", f"IP:{address}"], pki.ca)
    proxy = pki.client("kube-proxy", "system:kube-proxy")

    def config_for(pair: Pair) -> str:
        return kubeconfig.render(identity.name, identity.server, pki.ca.certificate, pair)

    servers, privileged = nameservers(), may_lower_oom_score()
    return {
        "/etc/hosts": files.hosts(identity, name, address),
        "/etc/resolv.conf": files.resolv_conf(servers),
        "/etc/containerd/config.toml": files.containerd_config(snapshotter_for(directory), privileged),
        "/etc/cni/net.d/10-iris.conflist": files.cni_config(identity.node_pod_range(record.index)),
        files.CA_CERTIFICATE: pki.ca.certificate.read_text(),
        files.KUBELET_CERTIFICATE: serving.certificate.read_text(),
        files.KUBELET_KEY: serving.key.read_text(),
        files.KUBELET_KUBECONFIG: config_for(client),
        files.KUBELET_CONFIG: files.kubelet_config(identity, record.spec, servers, privileged),
        files.PROXY_KUBECONFIG: config_for(proxy),
        files.PROXY_CONFIG: files.proxy_config(identity, name, privileged),
    }


def programs(identity: Identity, record: NodeRecord, binaries: Path, path: str) -> list[Process]:
    """What runs on the node; `path` is PATH there, in front of which the binaries' folder goes."""
    env = {"PATH": f"{binaries}:{path}", **_STALE_CONNECTIONS}
    ctr = f"{shlex.quote(str(binaries / 'ctr'))} -a {files.CONTAINERD_SOCKET} -n k8s.io images import"
    load = f'for each in /run/iris/images/*.tar; do {ctr} "$each" || exit 1; done; touch {_IMPORTED}'
    return [
        Process("containerd", (str(binaries / "containerd"), "--log-level=warn"), env),
        Process("load-images", ("/bin/sh", "-c", load), wait_for=files.CONTAINERD_SOCKET, once=True),
        Process("kubelet", (str(binaries / "kubelet"), *_kubelet_flags(identity, record)), env, wait_for=_IMPORTED),
        Process("kube-proxy", (str(binaries / "kube-proxy"), f"--config={files.PROXY_CONFIG}"), env),
        *record.spec.extra,
    ]


def _kubelet_flags(identity: Identity, record: NodeRecord) -> tuple[str, ...]:
    labels = ",".join(f"{key}={value}" for key, value in registrable(record.spec.labels).items())
    return (
        f"--config={files.KUBELET_CONFIG}",
        f"--kubeconfig={files.KUBELET_KUBECONFIG}",
        f"--hostname-override={record.spec.name}",
        f"--node-ip={identity.node_address(record.index)}",
        f"--node-labels={labels}",
    )


def registrable(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels a kubelet may give its own Node; for most names below kubernetes.io it would refuse to start."""
    reserved = ("kubernetes.io", "k8s.io")
    return {key: value for key, value in labels.items() if not key.partition("/")[0].endswith(reserved)}
