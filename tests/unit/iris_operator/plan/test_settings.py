"""Which IrisCluster applies."""

from __future__ import annotations

import pytest

from iris_operator.plan.settings import NoCluster, cluster_for
from tests.builders import cluster

CASES: dict[str, tuple[list[str], str, str]] = {
    "the only one": (["a"], "", "a"),
    "the one named": (["a", "b"], "b", "b"),
    "the default of several": (["a", "default"], "", "default"),
    "named and missing": (["a"], "b", "ClusterNotFound"),
    "named wins over the only one": (["a"], "a", "a"),
    "none": ([], "", "ClusterNotFound"),
    "several, no default": (["a", "b"], "", "ClusterAmbiguous"),
}


@pytest.mark.parametrize("name", CASES)
def test_which(name: str) -> None:
    names, asked, expected = CASES[name]
    found = cluster_for("team", asked, [cluster(one).build() for one in names])
    if isinstance(found, NoCluster):
        assert found.reason == expected
        assert "spec.clusterName" in found.message or "install the chart" in found.message
    else:
        assert found.metadata.name == expected


def test_other_namespaces_do_not_count() -> None:
    assert isinstance(cluster_for("other", "", [cluster().build()]), NoCluster)
