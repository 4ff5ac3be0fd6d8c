"""Cluster DNS: CoreDNS as a program on the control plane's machine behind the usual Service kube-dns.

A Pod would need a node and an image first; so every node has DNS from its first second, at the usual address.
"""

from __future__ import annotations

import urllib.request
from typing import Any

from iris_devcluster.api import Api
from iris_devcluster.identity import Identity


def corefile(identity: Identity, kubeconfig: str, nameservers: list[str]) -> str:
    """The zone of the cluster; anything else goes to this host's own nameservers, if it has any."""
    forward = f"    forward . {' '.join(nameservers)}\n" if nameservers else ""
    return (
        ".:53 {\n"
        "    errors\n"
        "    ready\n"
        f"    bind {identity.control_plane_address}\n"
        "    kubernetes cluster.local in-addr.arpa ip6.arpa {\n"
        f"        endpoint {identity.server}\n"
        f'        kubeconfig "{kubeconfig}"\n'
        "        pods insecure\n"
        "        fallthrough in-addr.arpa ip6.arpa\n"
        "        ttl 5\n"
        "    }\n"
        f"{forward}"
        "    cache 5\n"
        "    loadbalance\n"
        "}\n"
    )


def answers(identity: Identity) -> bool:
    """Whether CoreDNS has read the cluster's Services."""
    try:
        with urllib.request.urlopen(f"http://{identity.control_plane_address}:8181/ready", timeout=2):
            return True
    except OSError:
        return False


def apply_service(api: Api, identity: Identity) -> None:
    """Service kube-dns and, as it selects no Pods, its endpoints; and what CoreDNS may read."""
    for path, body in _objects(identity):
        api.apply(path, body)


def _objects(identity: Identity) -> list[tuple[str, dict[str, Any]]]:
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    namespaced = {"namespace": "kube-system"}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    return [
        (
            "/api/v1/namespaces/kube-system/services/kube-dns",
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "kube-dns", **namespaced, "labels": {"k8s-app": "kube-dns"}},
                "spec": {"clusterIP": identity.dns_service, "ports": ports},
            },
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices/kube-dns-devcluster",
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": "kube-dns-devcluster",
                    **namespaced,
                    "labels": {"kubernetes.io/service-name": "kube-dns"},
                },
                "addressType": "IPv4",
                "endpoints": [{"addresses": [identity.control_plane_address], "conditions": {"ready": True}}],
                "ports": ports,
            },
        ),
        (
            f"{rbac}/clusterroles/system:coredns",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": "system:coredns"},
                "rules": [
                    {
                        "apiGroups": [""],
                        "resources": ["services", "pods", "namespaces"],
                        "verbs": ["list", "watch"],
                    },
                    {
                        "apiGroups": ["discovery.k8s.io"],
                        "resources": ["endpointslices"],
                        "verbs": ["list", "watch"],
                    },
                ],
            },
        ),
        (
            f"{rbac}/clusterrolebindings/system:coredns",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "system:coredns"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "system:coredns",
                },
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "system:coredns"}],
            },
        ),
    ]
