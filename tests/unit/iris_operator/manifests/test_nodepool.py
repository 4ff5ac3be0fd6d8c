"""The NodePool of a Slice."""

from __future__ import annotations

from iris_operator.manifests.nodepool import node_pool
from tests.builders import H100, slice_

_LABELS = {"iris-managed": "true", "iris-scale-group": "", "iris-slice-id": "team-s"}


def test_a_plain_one() -> None:
    assert node_pool(slice_().build()) == {
        "apiVersion": "compute.coreweave.com/v1alpha1",
        "kind": "NodePool",
        "metadata": {
            "name": "team-s",
            "labels": _LABELS,
            "annotations": {"iris.dev/slice": "team/s", "iris.dev/slice-uid": "uid-s"},
        },
        "spec": {
            "computeClass": "default", "instanceType": "cd-gp-i64-erapids", "targetNodes": 1, "autoscaling": False,
            "nodeLabels": _LABELS,
        },
    }  # fmt: skip


def test_all_of_the_template_reaches_it() -> None:
    taint = {"key": "team", "value": "ml", "effect": "NoExecute"}
    owner = slice_(
        instanceType=H100, computeClass="spot", nodeCount=4, gpuClass="H100", scaleGroupName="g",
        nodeLabels={"a": "b"}, nodeTaints=[taint],
    )  # fmt: skip
    spec = node_pool(owner.build())["spec"]
    assert (spec["instanceType"], spec["computeClass"], spec["targetNodes"]) == (H100, "spot", 4)
    assert spec["nodeTaints"] == [taint]
    assert spec["nodeLabels"] == {**_LABELS, "iris-scale-group": "g", "a": "b", "iris.dev/gpu-class": "H100"}


def test_our_labels_win_over_a_user_s() -> None:
    spec = node_pool(slice_(nodeLabels={"iris-slice-id": "another"}).build())["spec"]
    assert spec["nodeLabels"]["iris-slice-id"] == "team-s"


def test_a_long_name_is_a_label_still() -> None:
    body = node_pool(slice_("s" * 200).build())
    assert len(body["metadata"]["name"]) == 63 == len(body["spec"]["nodeLabels"]["iris-slice-id"])


def test_no_autoscaling_of_the_vendor_s() -> None:
    spec = node_pool(slice_().build())["spec"]
    assert spec["autoscaling"] is False
    assert not {"minNodes", "maxNodes"} & spec.keys()


def test_racks_are_bought_by_the_rack() -> None:
    """The vendor takes exactly one of the two."""
    spec = node_pool(slice_(instanceType="gb200-4x", racks=2, nodeCount=36).build())["spec"]
    assert spec["targetRacks"] == 2
    assert "targetNodes" not in spec
    assert "targetRacks" not in node_pool(slice_(nodeCount=18).build())["spec"]
