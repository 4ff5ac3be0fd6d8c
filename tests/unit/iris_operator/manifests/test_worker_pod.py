"""The worker Pod, property by property (issue 3, section 4; document 000)."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.api.slice import Slice
from iris_operator.manifests.worker_pod import worker_pod
from tests.builders import cluster, node, slice_

_SIZE = {"cpu": 3900, "memory": 7 * 2**30, "nvidia.com/gpu": 8, "rdma/ib": 1}


def _pod(
    owner: Slice | None = None, rank: int = 2, size: dict[str, int] | None = None, **settings: Any
) -> dict[str, Any]:
    spec = cluster(**settings).build().spec
    where = node(name="node-7").build()
    return worker_pod(owner or slice_(scaleGroupName="g").build(), rank, where, size or _SIZE, spec)


def _agent(**settings: Any) -> dict[str, Any]:
    (container,) = _pod(**settings)["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def test_whose_it_is() -> None:
    metadata = _pod()["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("s-worker-2", "team")
    assert metadata["labels"] == {
        "iris-managed": "true", "iris-slice-id": "team-s", "iris-scale-group": "g", "iris.dev/slice": "s",
        "iris.dev/rank": "2",
    }  # fmt: skip
    assert metadata["finalizers"] == ["iris.dev/worker"]
    assert metadata["ownerReferences"] == [slice_().build().owner_reference()]


def test_on_the_host_s_network_with_cluster_dns() -> None:
    spec = _pod()["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")


def test_on_a_network_of_its_own() -> None:
    worker = {"hostNetwork": False}
    spec, agent = _pod(worker=worker)["spec"], _agent(worker=worker)
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (False, "ClusterFirst")
    env = {one["name"]: one for one in agent["env"]}
    assert env["HOST_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert env["IRIS_HOST_NETWORK"]["value"] == ""
    assert [port["containerPort"] for port in agent["ports"] if "hostPort" not in port] == [10001, 10002]


def test_restarts_always() -> None:
    assert _pod()["spec"]["restartPolicy"] == "Always"


HARDENING = {
    "no privilege escalation": ("allowPrivilegeEscalation", False),
    "not privileged": ("privileged", False),
    "capabilities for Tasks' files only": (
        "capabilities",
        {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]},
    ),
    "the runtime's seccomp profile": ("seccompProfile", {"type": "RuntimeDefault"}),
    "a root file system that can't be written": ("readOnlyRootFilesystem", True),
}


@pytest.mark.parametrize("name", HARDENING)
def test_hardened(name: str) -> None:
    field, value = HARDENING[name]
    assert _agent()["securityContext"][field] == value


def test_no_host_process_or_ipc_namespace() -> None:
    assert not {"hostPID", "hostIPC"} & _pod()["spec"].keys()


def test_pull_secrets_and_service_account() -> None:
    spec = _pod(worker={"imagePullSecrets": [{"name": "pull"}], "serviceAccountName": "agent"})["spec"]
    assert (spec["imagePullSecrets"], spec["serviceAccountName"]) == ([{"name": "pull"}], "agent")


def test_addresses_and_names_come_from_the_pod_itself() -> None:
    fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in _agent()["env"] if "valueFrom" in one}
    assert fields == {
        "NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace",
        "POD_UID": "metadata.uid", "HOST_IP": "status.hostIP",
    }  # fmt: skip


def test_what_the_agent_is_told() -> None:
    agent = _agent(worker={"port": 12345, "streamPort": 12346}, defaults={"imageRegistry": "registry.test:5000"})
    told = {one["name"]: one["value"] for one in agent["env"] if "value" in one}
    assert told == {
        "IRIS_SLICE": "s", "IRIS_RANK": "2", "IRIS_PORT": "12345", "IRIS_STREAM_PORT": "12346",
        "IRIS_CLUSTER": "", "IRIS_RUNTIME": "containerd", "IRIS_HOST_NETWORK": "true",
        "IRIS_DEFAULT_REGISTRY": "registry.test:5000",
    }  # fmt: skip


def test_all_of_the_node_s_devices_and_guaranteed_quality_of_service() -> None:
    resources = _agent()["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["limits"] == {"cpu": "3900m", "memory": "7Gi", "nvidia.com/gpu": "8", "rdma/ib": "1"}


def test_tolerates_the_pool_s_taints_and_the_vendor_s() -> None:
    taint = {"key": "team", "value": "ml", "effect": "NoSchedule"}
    found = _pod(slice_(nodeTaints=[taint]).build())["spec"]["tolerations"]
    assert {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"} in found
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in found
    assert {"key": "is_gpu", "operator": "Exists", "effect": "NoSchedule"} in found


@pytest.mark.parametrize("name", ["not-ready", "unreachable"])
def test_is_not_evicted_from_a_node_that_is_silent(name: str) -> None:
    expected = {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute"}
    assert expected in _pod()["spec"]["tolerations"]


def test_on_its_very_node() -> None:
    spec = _pod()["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-7"]}]}]
    assert spec["nodeSelector"] == {"iris-slice-id": "team-s"}
    assert "nodeName" not in spec  # the scheduler must count it


def test_containerd_and_the_cache_of_the_host() -> None:
    assert _host_paths(_mounted({"cpu": 3900})) == {
        "/run/containerd": "/run/containerd",
        "/var/cache/iris": "/var/cache/iris",
    }


def test_docker_and_the_kubelets_own_runtime() -> None:
    found = _host_paths(_mounted({"cpu": 3900}, worker={"runtime": "docker"}))
    assert found.keys() == {"/var/run/docker.sock", "/run/containerd", "/var/cache/iris"}


def test_where_gpus_are_described_and_seen() -> None:
    pod = _pod()["spec"]
    found = _host_paths(_mounted())
    cdi = {path: found[path] for path in ("/etc/cdi", "/var/run/cdi", "/var/lib/iris/dev")}
    assert cdi == {"/etc/cdi": "/etc/cdi", "/var/run/cdi": "/var/run/cdi", "/var/lib/iris/dev": "/dev"}
    assert all(mount["readOnly"] for mount in pod["containers"][0]["volumeMounts"] if mount["mountPath"] in cdi)
    assert not cdi.keys() & _mounted(worker={"runtime": "docker"}).keys()


def test_image_ports_and_probes() -> None:
    agent = _agent(images={"agent": "registry.test/agent:1", "pullPolicy": "Always"}, worker={"port": 12345})
    assert (agent["image"], agent["imagePullPolicy"]) == ("registry.test/agent:1", "Always")
    assert agent["ports"] == [
        {"name": "agent", "containerPort": 12345, "hostPort": 12345},
        {"name": "stream", "containerPort": 10002, "hostPort": 10002},
    ]
    assert agent["readinessProbe"]["httpGet"] == {"path": "/health", "port": 12345}
    assert agent["livenessProbe"]["httpGet"] == {"path": "/live", "port": 12345}


def test_the_ports_are_10001_and_10002_by_default() -> None:
    assert [port["containerPort"] for port in _agent()["ports"]] == [10001, 10002]


def _mounted(size: dict[str, int] | None = None, **settings: Any) -> dict[str, Any]:
    """Path in the agent -> the volume there."""
    pod = _pod(size=size, **settings)["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    return {mount["mountPath"]: volumes[mount["name"]] for mount in pod["containers"][0]["volumeMounts"]}


def _host_paths(mounted: dict[str, Any]) -> dict[str, str]:
    return {path: volume["hostPath"]["path"] for path, volume in mounted.items() if "hostPath" in volume}


def test_secrets_files_lie_in_memory() -> None:
    assert _mounted()["/run/iris/secrets"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Mi"}


def test_claims_are_mounted_by_name() -> None:
    found = _mounted(worker={"volumeClaims": [{"claimName": "data"}, {"claimName": "models", "readOnly": True}]})
    assert found["/var/lib/iris/claims/data"]["persistentVolumeClaim"] == {"claimName": "data", "readOnly": False}
    assert found["/var/lib/iris/claims/models"]["persistentVolumeClaim"]["readOnly"]


HOST_PATHS = {
    "none": ([], {}),
    "by the node's path": (["/data/sets"], {"/var/lib/iris/host/data/sets": "/data/sets"}),
    "what lies in another comes with it": (["/data/sets", "/data"], {"/var/lib/iris/host/data": "/data"}),
    "a like beginning is no folder": (
        ["/data", "/data2"],
        {"/var/lib/iris/host/data": "/data", "/var/lib/iris/host/data2": "/data2"},
    ),
    "as written is as meant": (["/data/", "/./data"], {"/var/lib/iris/host/data": "/data"}),
    "all": (["/", "/data"], {"/var/lib/iris/host": "/"}),
}


@pytest.mark.parametrize("name", HOST_PATHS)
def test_allowed_host_paths_are_mounted(name: str) -> None:
    allowed, wanted = HOST_PATHS[name]
    found = _mounted(policy={"allowedHostPaths": allowed})
    hosts = {path: one["hostPath"]["path"] for path, one in found.items() if path.startswith("/var/lib/iris/host")}
    assert hosts == wanted
