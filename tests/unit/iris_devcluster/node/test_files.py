from __future__ import annotations

import json
import tomllib
from pathlib import Path

import yaml

from iris_devcluster.identity import Identity
from iris_devcluster.node import files
from iris_devcluster.node.assemble import programs, registrable
from iris_devcluster.node.spec import NodeRecord, NodeSpec

HERE = Identity("iris", Path("/r"), 120)
SPEC = NodeSpec(
    "gpu-0",
    labels={"iris-managed": "true", "node.kubernetes.io/instance-type": "x", "a.k8s.io/b": "c", "plain": "1"},
    taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}],
    system_reserved={"cpu": "1"},
)


def test_containerds_config_is_toml_that_says_what_is_meant() -> None:
    plugins = tomllib.loads(files.containerd_config("overlayfs", may_lower_oom_score=True))["plugins"]
    assert plugins["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == files.PAUSE_IMAGE
    assert plugins["io.containerd.cri.v1.images"]["registry"]["config_path"] == "/etc/containerd/certs.d"
    assert plugins["io.containerd.cri.v1.runtime"]["restrict_oom_score_adj"] is False


def test_the_registry_is_found_by_its_name() -> None:
    hosts = tomllib.loads(files.hosts_toml("10.120.0.1:5000"))
    assert hosts["host"] == {"http://10.120.0.1:5000": {"capabilities": ["pull", "resolve"]}}


def test_the_kubelets_config_carries_the_spec() -> None:
    config = yaml.safe_load(files.kubelet_config(HERE, SPEC, []))
    assert config["registerWithTaints"] == [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    assert config["systemReserved"] == {"cpu": "1"}
    assert config["clusterDNS"] == ["10.120.64.10"]
    assert config["resolvConf"] == ""


def test_pods_resolve_through_this_host_where_it_can() -> None:
    assert yaml.safe_load(files.kubelet_config(HERE, SPEC, ["9.9.9.9"]))["resolvConf"] == "/etc/resolv.conf"
    assert files.resolv_conf(["9.9.9.9"]) == "nameserver 9.9.9.9\n"


def test_pods_get_addresses_of_their_node() -> None:
    bridge = json.loads(files.cni_config("10.120.129.0/24"))["plugins"][0]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.120.129.0/24"}]]


def test_a_kubelet_is_not_given_labels_it_may_not_set() -> None:
    assert registrable(SPEC.labels) == {"iris-managed": "true", "plain": "1"}


def test_the_kubelet_waits_for_the_pause_image() -> None:
    found = {one.name: one for one in programs(HERE, NodeRecord(SPEC, 3), Path("/bin"), "/usr/bin")}
    assert found["load-images"].once
    assert found["load-images"].wait_for == files.CONTAINERD_SOCKET
    assert found["load-images"].argv[-1].endswith(found["kubelet"].wait_for)
    assert "--node-ip=10.120.0.13" in found["kubelet"].argv


def test_a_record_survives_the_disk(tmp_path: Path) -> None:
    record = NodeRecord(SPEC, 7, powered=False)
    record.save(tmp_path)
    assert NodeRecord.load(tmp_path) == record
    assert NodeRecord.load(tmp_path / "other") is None
