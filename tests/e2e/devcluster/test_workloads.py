"""What a Pod and a person with kubectl can expect of the cluster."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from iris_devcluster.binaries.locate import binaries_folder
from iris_devcluster.cluster import Cluster
from iris_devcluster.identity import CONTROL_PLANE
from iris_devcluster.node.spec import NodeSpec
from tests.e2e.devcluster.kit import PODS, busybox_pod, eventually, kubectl, node_ready, run_pod

pytestmark = pytest.mark.e2e

SERVER = "/busybox mkdir /www; /busybox hostname >/www/name; echo started; exec /busybox httpd -f -p 8080 -h /www"


@pytest.fixture(scope="module")
def pods(cluster: Cluster) -> Iterator[Cluster]:
    """Pod `web` behind a Service of that name on one node, Pod `client` on another."""
    cluster.boot_node(NodeSpec("far"))
    eventually("node far Ready", lambda: node_ready(cluster, "far") == "True")
    run_pod(cluster, busybox_pod("web", "far", SERVER))
    run_pod(cluster, busybox_pod("client", "system-0", "/busybox sleep 3600"))
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    cluster.api.call("POST", "/api/v1/namespaces/default/services", service)
    yield cluster
    for path in (f"{PODS}/web", f"{PODS}/client", "/api/v1/namespaces/default/services/web"):
        cluster.api.delete(path)
    cluster.remove_node("far")


def ask(cluster: Cluster, pod: str, url: str) -> str:
    done = subprocess.run(
        [
            *(str(binaries_folder() / "kubectl"), f"--kubeconfig={cluster.kubeconfig}"),
            *("exec", pod, "--", "/busybox", "wget", "-q", "-O", "-", url),
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["web", "web.default", "web.default.svc.cluster.local"])
def test_a_pod_reaches_a_service_on_another_node_by_name(pods: Cluster, name: str) -> None:
    eventually(f"answer of http://{name}", lambda: ask(pods, "client", f"http://{name}/name") == "web", 10)


def test_a_pod_reaches_a_service_that_leads_back_to_itself(pods: Cluster) -> None:
    """By a name that is not its own host name, which /etc/hosts answers."""
    eventually("answer of the own Service", lambda: ask(pods, "web", "http://web.default/name") == "web", 10)


def test_pods_see_each_others_real_addresses(pods: Cluster) -> None:
    address = pods.api.call("GET", f"{PODS}/web")["status"]["podIP"]
    assert address.startswith(f"10.{pods.identity.octet}.")
    assert ask(pods, "client", f"http://{address}:8080/name") == "web"


def test_this_host_reaches_pods(pods: Cluster) -> None:
    address = pods.api.call("GET", f"{PODS}/web")["status"]["podIP"]
    with urllib.request.urlopen(f"http://{address}:8080/name", timeout=5) as answer:
        assert answer.read() == b"web\n"


@pytest.fixture
def outside() -> Iterator[str]:
    """URL of a server beyond this host, which knows no way back to the cluster's addresses."""
    server = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "read go; ip link set lo up; exec /bin/busybox httpd -f -p 80 -h /etc"],
        stdin=subprocess.PIPE,
    )
    link = f"out{server.pid}"
    try:
        eventually("a namespace of its own", lambda: network_of(server.pid) != network_of("self"), 5)
        inside = ["nsenter", f"--net=/proc/{server.pid}/ns/net"]
        for argv in (
            ["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(server.pid)],
            ["ip", "address", "add", "198.51.100.1/30", "dev", link],
            ["ip", "link", "set", link, "up"],
            [*inside, "ip", "address", "add", "198.51.100.2/30", "dev", "eth0"],
            [*inside, "ip", "link", "set", "eth0", "up"],
        ):
            subprocess.run(argv, check=True)
        Path(f"/proc/sys/net/ipv4/conf/{link}/forwarding").write_text("1")  # as the uplink's is
        assert server.stdin is not None
        server.stdin.close()
        yield "http://198.51.100.2"
    finally:
        server.kill()
        server.wait()
        eventually("no link", lambda: not Path(f"/sys/class/net/{link}").exists(), 10)


def network_of(pid: int | str) -> Path:
    return Path(f"/proc/{pid}/ns/net").readlink()


def test_pods_reach_the_world_behind_this_hosts_address(pods: Cluster, outside: str) -> None:
    hostname = Path("/etc/hostname").read_text().strip()
    eventually("an answer from outside", lambda: ask(pods, "client", f"{outside}/hostname") == hostname, 10)


def test_logs_exec_and_port_forward(pods: Cluster) -> None:
    assert kubectl(pods, "logs", "web") == "started\n"
    assert kubectl(pods, "exec", "client", "--", "/busybox", "hostname") == "client\n"
    argv = [str(binaries_folder() / "kubectl"), f"--kubeconfig={pods.kubeconfig}", "port-forward", "web"]
    with subprocess.Popen([*argv, ":8080"], stdout=subprocess.PIPE, text=True) as forward:
        try:
            assert forward.stdout is not None
            line = forward.stdout.readline()  # Forwarding from 127.0.0.1:40000 -> 8080
            with urllib.request.urlopen(f"http://{line.split()[2]}/name", timeout=5) as answer:
                assert answer.read() == b"web\n"
        finally:
            forward.terminate()


def test_host_network_pods_use_cluster_dns_and_canonical_host_paths(pods: Cluster) -> None:
    """What the worker Pod of the product will need."""
    script = "/busybox nslookup web.default.svc.cluster.local; /busybox ls /host; exec /busybox sleep 3600"
    pod = busybox_pod("onhost", "far", script, hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")
    pod["spec"]["volumes"] = [
        {"name": "socket", "hostPath": {"path": "/run/containerd/containerd.sock", "type": "Socket"}},
        {"name": "cache", "hostPath": {"path": "/var/cache/iris", "type": "DirectoryOrCreate"}},
    ]
    mounts = [{"name": "socket", "mountPath": "/host/containerd.sock"}, {"name": "cache", "mountPath": "/host/cache"}]
    pod["spec"]["containers"][0]["volumeMounts"] = mounts
    (pods.node_dir("far") / "cache" / "marker").touch()
    run_pod(pods, pod)
    try:
        eventually("output", lambda: "cache" in kubectl(pods, "logs", "onhost"), 10)
        log = kubectl(pods, "logs", "onhost")
        assert "containerd.sock" in log
        assert re.search(r"Address: 10\.\d+\.(6[4-9]|7\d)\.", log), log
        assert kubectl(pods, "exec", "onhost", "--", "/busybox", "ls", "/host/cache") == "marker\n"
    finally:
        pods.api.delete(f"{PODS}/onhost")


def test_a_pods_memory_limit_holds(pods: Cluster) -> None:
    """Proves that the kubelet's cgroups are real: this one is killed for its memory."""
    pod = busybox_pod("greedy", "far", "", restartPolicy="Never")
    container = pod["spec"]["containers"][0]
    container["resources"] = {"limits": {"memory": "32Mi", "cpu": "100m"}}
    container["command"] = ["/busybox", "dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"]
    pods.api.call("POST", PODS, pod)

    def reason() -> str:
        statuses = pods.api.call("GET", f"{PODS}/greedy").get("status", {}).get("containerStatuses", [{}])
        return str(statuses[0].get("state", {}).get("terminated", {}).get("reason"))

    eventually("OOMKilled", lambda: reason() == "OOMKilled", 15)
    pods.api.delete(f"{PODS}/greedy")


def test_service_accounts_have_tokens_that_work(pods: Cluster) -> None:
    mounted = "/var/run/secrets/kubernetes.io/serviceaccount"
    script = f"/busybox cat {mounted}/token"
    token = kubectl(pods, "exec", "client", "--", "/busybox", "sh", "-c", script)
    context = ssl.create_default_context(cafile=str(pods.pki.ca.certificate))
    url = f"{pods.identity.server}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    request = urllib.request.Request(url, body, headers)
    with urllib.request.urlopen(request, timeout=5, context=context) as answer:
        assert json.load(answer)["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"


def test_pods_start_at_a_real_clusters_pace(pods: Cluster) -> None:
    began = time.monotonic()
    run_pod(pods, busybox_pod("quick", "system-0", "exec /busybox sleep 3600"))
    assert time.monotonic() - began < 5
    pods.api.delete(f"{PODS}/quick")


def test_the_control_plane_runs_what_a_production_one_does(pods: Cluster) -> None:
    running = {one.name for one in pods.machine(CONTROL_PLANE).states() if one.state == "running"}
    assert running >= {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns"}
    versions = kubectl(pods, "api-versions").split()
    assert {"rbac.authorization.k8s.io/v1", "apiregistration.k8s.io/v1", "admissionregistration.k8s.io/v1"} <= set(
        versions
    )
