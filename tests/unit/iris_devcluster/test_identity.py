from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from iris_devcluster.errors import ClusterNotFoundError, DevclusterError
from iris_devcluster.identity import MAX_NODES, Identity, choose_octet, mac_of, prefix_of

HERE = Identity("iris", Path("/r"), 120)


def test_interface_names_fit_the_kernels_limit() -> None:
    assert len(HERE.host_link) <= 15


def test_clusters_differ_by_name_and_by_root() -> None:
    prefixes = {prefix_of(Path(root), name) for root in ("/a", "/b") for name in ("x", "y")}
    assert len(prefixes) == 4


def test_ranges_do_not_overlap() -> None:
    machines = ipaddress.ip_network(f"10.{HERE.octet}.0.0/20")
    services, pods = ipaddress.ip_network(HERE.service_range), ipaddress.ip_network(HERE.pod_range)
    assert not machines.overlaps(services) and not services.overlaps(pods) and not machines.overlaps(pods)
    assert all(ipaddress.ip_address(one) in services for one in (HERE.dns_service, HERE.kubernetes_service))


@pytest.mark.parametrize("index", [0, 1, MAX_NODES - 1])
def test_every_node_has_its_place(index: int) -> None:
    assert ipaddress.ip_address(HERE.node_address(index)) in ipaddress.ip_network(f"10.{HERE.octet}.0.0/20")
    assert ipaddress.ip_network(HERE.node_pod_range(index)).subnet_of(ipaddress.ip_network(HERE.pod_range))  # type: ignore[arg-type]


def test_a_taken_range_is_passed_over() -> None:
    first = choose_octet("iris-1a2b3c", set())
    assert choose_octet("iris-1a2b3c", {first}) == (first + 1 - 100) % 150 + 100
    with pytest.raises(DevclusterError, match="in use"):
        choose_octet("iris-1a2b3c", set(range(256)))


def test_an_identity_is_remembered(tmp_path: Path) -> None:
    identity = Identity("one", tmp_path, 111)
    identity.save()
    assert Identity.load(tmp_path) == identity


def test_no_cluster_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(ClusterNotFoundError, match=f"iris-devcluster up --root {tmp_path}"):
        Identity.load(tmp_path)


def test_macs_are_local_and_follow_the_address() -> None:
    assert mac_of("10.120.0.10") == "02:69:0a:78:00:0a"
