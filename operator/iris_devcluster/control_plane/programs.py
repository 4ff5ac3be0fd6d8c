"""The control plane's programs and their flags."""

from __future__ import annotations

from pathlib import Path

from iris_devcluster.identity import Identity
from iris_devcluster.machines.process import Process
from iris_devcluster.pki import Pki

NODE_MONITOR_GRACE_SECONDS = 10
"""A silent node turns NotReady after this: five of its reports are missing then, as with upstream's 50 s and 10 s."""

_API_SERVER = "tcp:127.0.0.1:6443"


def programs(identity: Identity, pki: Pki, binaries: Path, configs: Path) -> list[Process]:
    """Everything that runs on the control plane's machine; `configs` holds kubeconfigs and the Corefile."""
    return [
        _etcd(binaries, identity),
        _api_server(identity, pki, binaries),
        _controller_manager(pki, binaries, configs),
        _scheduler(binaries, configs),
        Process("coredns", (str(binaries / "coredns"), "-conf", str(configs / "Corefile")), wait_for=_API_SERVER),
    ]


def _etcd(binaries: Path, identity: Identity) -> Process:
    flags = (
        f"--data-dir={identity.root / 'control-plane' / 'etcd'}",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        # A development cluster's data is thrown away with it; a disk sync per write would only slow it down.
        "--unsafe-no-fsync",
        "--log-level=warn",
    )
    return Process("etcd", (str(binaries / "etcd"), *flags))


def _api_server(identity: Identity, pki: Pki, binaries: Path) -> Process:
    me = identity.control_plane_address
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
    hosts = [f"DNS:{name}" for name in [*names, "localhost"]]
    addresses = [f"IP:{address}" for address in (me, identity.kubernetes_service, "127.0.0.1")]
    serving = pki.server("kube-apiserver", [*hosts, *addresses])
    to_kubelets = pki.client("kube-apiserver-kubelet-client", "kube-apiserver", ["system:masters"])
    proxy = pki.client("front-proxy-client", "front-proxy-client", authority=pki.front_proxy_ca)
    flags = (
        "--etcd-servers=http://127.0.0.1:2379",
        f"--advertise-address={me}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--client-ca-file={pki.ca.certificate}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--kubelet-client-certificate={to_kubelets.certificate}",
        f"--kubelet-client-key={to_kubelets.key}",
        f"--kubelet-certificate-authority={pki.ca.certificate}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki.service_account_key}",
        f"--service-account-signing-key-file={pki.service_account_key}",
        f"--service-cluster-ip-range={identity.service_range}",
        f"--requestheader-client-ca-file={pki.front_proxy_ca.certificate}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={proxy.certificate}",
        f"--proxy-client-key-file={proxy.key}",
        # No kube-proxy runs beside it, so it goes to webhooks' and API servers' Pods and not to their Service.
        "--enable-aggregator-routing=true",
        "--allow-privileged=true",
        "--profiling=false",
    )
    return Process("kube-apiserver", (str(binaries / "kube-apiserver"), *flags), wait_for="tcp:127.0.0.1:2379")


def _controller_manager(pki: Pki, binaries: Path, configs: Path) -> Process:
    config = configs / "controller-manager.kubeconfig"
    flags = (
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        "--authentication-tolerate-lookup-failure=true",
        f"--service-account-private-key-file={pki.service_account_key}",
        f"--root-ca-file={pki.ca.certificate}",
        f"--cluster-signing-cert-file={pki.ca.certificate}",
        f"--cluster-signing-key-file={pki.ca.key}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        f"--node-monitor-grace-period={NODE_MONITOR_GRACE_SECONDS}s",
        "--node-monitor-period=1s",
        "--kube-api-qps=100",
        "--kube-api-burst=200",
    )
    return Process("kube-controller-manager", (str(binaries / "kube-controller-manager"), *flags), wait_for=_API_SERVER)


def _scheduler(binaries: Path, configs: Path) -> Process:
    config = configs / "scheduler.kubeconfig"
    flags = (
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        "--authentication-tolerate-lookup-failure=true",
        "--leader-elect=false",
        "--kube-api-qps=100",
        "--kube-api-burst=200",
    )
    return Process("kube-scheduler", (str(binaries / "kube-scheduler"), *flags), wait_for=_API_SERVER)
