"""The chart's objects and roles on a real API server: what each may really do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.chart.conftest import EDITOR, OPERATOR, VIEWER, Kubectl, protected_slice
from tests.unit.chart.rendering import Chart

pytestmark = pytest.mark.cluster

_GROUP = {
    "apiVersion": "iris.dev/v1alpha1",
    "kind": "ScaleGroup",
    "metadata": {"name": "cpu"},
    "spec": {"maxSlices": 4, "template": {"spec": {"instanceType": "cd-gp-i64-erapids"}}},
}


@pytest.fixture
def group(kubectl: Kubectl) -> Iterator[str]:
    kubectl.done("create", "-f", "-", body=_GROUP, user=EDITOR)
    yield "cpu"
    kubectl.done("delete", "scalegroup", "cpu", user=EDITOR)


def test_the_api_server_finds_no_fault_with_the_expressions(kubectl: Kubectl, tmp_path: Path) -> None:
    rendered = Chart(tmp_path).render(namespace="default").all("ValidatingAdmissionPolicy")
    policies = json.loads(kubectl.done("get", "validatingadmissionpolicy", "-o", "json"))["items"]
    assert {one["metadata"]["name"] for one in policies} == {one["metadata"]["name"] for one in rendered} != set()
    for policy in policies:
        assert not policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings")


def test_every_object_of_the_chart_is_accepted(kubectl: Kubectl, tmp_path: Path) -> None:
    body = {"apiVersion": "v1", "kind": "List", "items": Chart(tmp_path).render(namespace="default").objects}
    done = kubectl.run("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", body=body)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr


def test_an_editor_scales_a_group(kubectl: Kubectl, group: str) -> None:
    kubectl.done("scale", "scalegroup", group, "--replicas=3", user=EDITOR)
    assert kubectl.done("get", "scalegroup", group, "-o", "jsonpath={.spec.minSlices}", user=VIEWER) == "3"


def test_a_viewer_reads_the_scale_and_does_not_set_it(kubectl: Kubectl, group: str) -> None:
    kubectl.done("get", "scalegroup", group, "--subresource=scale", user=VIEWER)
    assert "forbidden" in kubectl.run("scale", "scalegroup", group, "--replicas=3", user=VIEWER).stderr


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"availability": "Drained"}},
        {"spec": {"holdUntil": "2026-11-22T00:00:00Z"}},
        {"metadata": {"annotations": {"iris.dev/force-delete": "true"}}},
    ],
    ids=["drain", "hold", "force"],
)
def test_an_editor_drains_and_holds_and_a_viewer_does_not(kubectl: Kubectl, patch: dict[str, object]) -> None:
    kubectl.done("create", "-f", "-", body=protected_slice("one"), user=EDITOR)
    words = ("patch", "slice", "one", "--type=merge", "-p", json.dumps(patch))
    try:
        assert "forbidden" in kubectl.run(*words, user=VIEWER).stderr
        kubectl.done(*words, user=EDITOR)
    finally:
        kubectl.done("delete", "slice", "one")


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("patch", "slices"),
        ("delete", "slices"),
        ("create", "slices"),
        ("patch", "scalegroups/status"),
        ("patch", "slices/status"),
        ("patch", "tasks"),
        ("patch", "pods"),
        ("delete", "pods"),
        ("patch", "nodepools.compute.coreweave.com"),
        ("delete", "nodepools.compute.coreweave.com"),
        ("get", "nodes"),
        ("list", "events.events.k8s.io"),
        ("list", "certificatesigningrequests.certificates.k8s.io"),
        ("patch", "certificatesigningrequests.certificates.k8s.io/approval"),
        ("patch", "certificatesigningrequests.certificates.k8s.io/status"),
    ],
)
def test_the_operator_may(kubectl: Kubectl, verb: str, what: str) -> None:
    resource, _, subresource = what.partition("/")
    group = "" if "." in resource or resource in ("pods", "nodes") else ".iris.dev"
    words = ["auth", "can-i", verb, f"{resource}{group}", *([f"--subresource={subresource}"] if subresource else [])]
    assert kubectl.run(*words, user=OPERATOR).stdout.strip() == "yes"
