"""A node's configuration files, by their canonical path inside the node."""

from __future__ import annotations

import json
from typing import Any

from iris_devcluster.identity import Identity
from iris_devcluster.node.spec import NodeSpec

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "iris.dev/pause:1"
REGISTRY_NAME = "registry.iris:5000"
"""The name under which every node knows the cluster's own registry."""

KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
KUBELET_KUBECONFIG = "/etc/kubernetes/kubelet.kubeconfig"
KUBELET_CERTIFICATE = "/etc/kubernetes/pki/kubelet.crt"
KUBELET_KEY = "/etc/kubernetes/pki/kubelet.key"
CA_CERTIFICATE = "/etc/kubernetes/pki/ca.crt"
PROXY_CONFIG = "/etc/kubernetes/kube-proxy.yaml"
PROXY_KUBECONFIG = "/etc/kubernetes/kube-proxy.kubeconfig"

LEASE_SECONDS = 10
"""The kubelet renews four times as often; must stay below the control plane's node-monitor grace plus one period."""

_OOM_SCORE = -999
"""Upstream's default for kubelet and kube-proxy."""

_UNUSED_PLUGINS = [
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.erofs",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.differ.v1.erofs",
    "io.containerd.nri.v1.nri",
    "io.containerd.tracing.processor.v1.otlp",
    "io.containerd.internal.v1.tracing",
]


def containerd_config(snapshotter: str, may_lower_oom_score: bool) -> str:
    """containerd's config.toml; `snapshotter` is overlayfs, or native where overlayfs can't be stacked."""
    return f"""version = 3
disabled_plugins = {json.dumps(_UNUSED_PLUGINS)}

[plugins.'io.containerd.cri.v1.images']
  snapshotter = '{snapshotter}'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{PAUSE_IMAGE}'
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = '/etc/containerd/certs.d'

[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = {str(not may_lower_oom_score).lower()}
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['/usr/lib/cni', '/opt/cni/bin']
    conf_dir = '/etc/cni/net.d'
    use_internal_loopback = true

[plugins.'io.containerd.transfer.v1.local']
  config_path = '/etc/containerd/certs.d'
"""


def hosts_toml(registry_address: str) -> str:
    """Where containerd finds the cluster's registry: plain http on the cluster's own network."""
    return f"""server = "http://{registry_address}"

[host."http://{registry_address}"]
  capabilities = ["pull", "resolve"]
"""


def cni_config(pod_range: str) -> str:
    """Pods on a bridge, addresses from the node's range, host ports by portmap."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": pod_range}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "iris", "plugins": [bridge, portmap]}, indent=2)


def kubelet_config(identity: Identity, spec: NodeSpec, nameservers: list[str], may_lower_oom_score: bool = True) -> str:
    """KubeletConfiguration (JSON is YAML)."""
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": CA_CERTIFICATE},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": KUBELET_CERTIFICATE,
        "tlsPrivateKeyFile": KUBELET_KEY,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [identity.dns_service],
        "clusterDomain": "cluster.local",
        "resolvConf": "/etc/resolv.conf" if nameservers else "",
        "registerWithTaints": [dict(taint) for taint in spec.taints],
        "systemReserved": dict(spec.system_reserved),
        "enforceNodeAllocatable": ["pods"],
        # Nodes share this machine's disk and memory: its fill level says nothing about one of them.
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        # a device plugin that comes late, or a GPU that breaks, shows as soon
        "nodeStatusUpdateFrequency": "2s",
        # what is killed is back at once, the fifth time as the first: upstream waits for up to five minutes
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
        "nodeLeaseDurationSeconds": LEASE_SECONDS,
        "serializeImagePulls": False,
        "oomScoreAdj": _OOM_SCORE if may_lower_oom_score else 0,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "enableProfilingHandler": False,
    }
    return json.dumps(config, indent=2)


def proxy_config(identity: Identity, node: str, may_lower_oom_score: bool = True) -> str:
    """KubeProxyConfiguration (JSON is YAML)."""
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": identity.pod_range,
        "nodePortAddresses": ["primary"],
        "hostnameOverride": node,
        "oomScoreAdj": _OOM_SCORE if may_lower_oom_score else 0,
        "clientConnection": {"kubeconfig": PROXY_KUBECONFIG},
        # conntrack's limits belong to the whole machine, not to this node's network namespace.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
    return json.dumps(config, indent=2)


def hosts(identity: Identity, node: str, address: str) -> str:
    """/etc/hosts."""
    return f"127.0.0.1 localhost\n::1 localhost\n{address} {node}\n{identity.host_address} registry.iris\n"


def resolv_conf(nameservers: list[str]) -> str:
    """/etc/resolv.conf."""
    return "".join(f"nameserver {server}\n" for server in nameservers)
