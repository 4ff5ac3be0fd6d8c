"""`iris slice` and `iris group` against a real API server with the chart's policies; no operator runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.chart.conftest import Kubectl, protected_slice, say_tasks

pytestmark = pytest.mark.cluster

_GROUP = {
    "apiVersion": "iris.dev/v1alpha1",
    "kind": "ScaleGroup",
    "metadata": {"name": "commanded"},
    "spec": {"maxSlices": 4, "template": {"spec": {"instanceType": "cd-gp-i64-erapids"}}},
}


@pytest.fixture
def name(kubectl: Kubectl) -> Iterator[str]:
    """A protected Slice on which two Tasks run."""
    kubectl.done("create", "-f", "-", body=protected_slice("commanded"))
    say_tasks(kubectl, "commanded", 2)
    yield "commanded"
    kubectl.run("annotate", "--overwrite", "slice", "commanded", "iris.dev/force-delete=true")
    kubectl.run("delete", "--ignore-not-found", "slice", "commanded")


def _spec(kubectl: Kubectl, what: str) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(kubectl.done("get", what, "-o", "json"))["spec"]
    return spec


def test_the_life_of_a_slice(kubectl: Kubectl, name: str) -> None:
    for verb, wanted in (("cordon", "Cordoned"), ("uncordon", "Schedulable")):
        assert kubectl.iris("slice", verb, name).stdout == f"slice/{name} {verb}ed\n"
        assert _spec(kubectl, f"slice/{name}")["availability"] == wanted
    assert kubectl.iris("slice", "hold", name, "--until", "2100-01-01T00:00Z").returncode == 0
    assert _spec(kubectl, f"slice/{name}")["holdUntil"] == "2100-01-01T00:00:00Z"
    assert "yes, held" in kubectl.iris("slice", "list").stdout
    assert kubectl.iris("slice", "release", name).returncode == 0
    assert "holdUntil" not in _spec(kubectl, f"slice/{name}")


def test_a_drain_waits_for_the_operators_word(kubectl: Kubectl, name: str) -> None:
    done = kubectl.iris("slice", "drain", name, "--timeout", "1s")
    assert done.returncode == 1 and "The drain goes on" in done.stderr
    generation = json.loads(kubectl.done("get", "slice", name, "-o", "json"))["metadata"]["generation"]
    condition = {
        "type": "Drained",
        "status": "True",
        "reason": "Drained",
        "observedGeneration": generation,
        "lastTransitionTime": "2026-11-21T12:00:00Z",
    }
    patch = json.dumps({"status": {"conditions": [condition]}})
    kubectl.done("patch", "slice", name, "--subresource=status", "--type=merge", "-p", patch)
    assert kubectl.iris("slice", "drain", name).stdout == f"slice/{name}: drained, no Task is left on it\n"


def test_a_protected_slice_goes_only_by_force(kubectl: Kubectl, name: str) -> None:
    done = kubectl.iris("slice", "delete", name)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: Slice {name}: 2 Tasks run on Slice {name}, whose spec.deletionProtection")
    done = kubectl.iris("slice", "delete", name, "--force")
    assert (done.returncode, done.stdout) == (0, f"slice/{name}: gone\n")


def test_a_group_is_scaled_within_its_bounds(kubectl: Kubectl) -> None:
    kubectl.done("create", "-f", "-", body=_GROUP)
    try:
        assert kubectl.iris("group", "scale", "commanded", "--min", "2", "--max", "6").returncode == 0
        spec = _spec(kubectl, "scalegroup/commanded")
        assert (spec["minSlices"], spec["maxSlices"]) == (2, 6)
        done = kubectl.iris("group", "scale", "commanded", "--min", "7")
        assert done.returncode == 1 and "lower minSlices or raise maxSlices" in done.stderr
        assert "commanded" in kubectl.iris("group", "list").stdout
        assert "decided nothing yet" in kubectl.iris("group", "decisions", "commanded").stdout
        assert "ScaleGroup commanded" in kubectl.iris("why", "group/commanded").stdout
    finally:
        kubectl.done("delete", "scalegroup", "commanded")
