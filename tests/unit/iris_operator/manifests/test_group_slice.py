"""A Slice of a ScaleGroup."""

from __future__ import annotations

from iris_operator.api.slice import Slice
from iris_operator.manifests.group_slice import group_slice
from tests.builders import CPU, H100, group


def test_made_from_the_template() -> None:
    owner = group(clusterName="other", template={"spec": {"instanceType": H100, "gpusPerNode": 8}}).build()
    made = Slice.parse(group_slice(owner, "g-abcde"))
    assert (made.key, made.spec.instance_type, made.spec.gpus_per_node) == ("team/g-abcde", H100, 8)
    assert (made.spec.cluster_name, made.spec.scale_group_name) == ("other", "g")
    (reference,) = made.metadata.owner_references
    assert (reference.kind, reference.uid, reference.controller) == ("ScaleGroup", "uid-g", True)
    assert made.metadata.labels["iris-scale-group"] == "g"


def test_the_hash_changes_with_the_template_only() -> None:
    one, same = group().build().spec.template.spec, group(maxSlices=9).build().spec.template.spec
    other = group(template={"spec": {"instanceType": H100}}).build().spec.template.spec
    assert one.template_hash() == same.template_hash() != other.template_hash()


def test_the_hash_does_not_change_with_a_default_that_is_written_out() -> None:
    stated = group(template={"spec": {"instanceType": CPU, "nodeCount": 1, "repair": {"policy": "Replace"}}}).build()
    assert stated.spec.template.spec.template_hash() == group().build().spec.template.spec.template_hash()
