"""The chart's admission policy on a real API server: deletionProtection of a Slice."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cluster.chart.conftest import EDITOR, OPERATOR, Kubectl, protected_slice, say_tasks

pytestmark = pytest.mark.cluster

_FORCE = "iris.dev/force-delete"


@pytest.fixture
def busy(kubectl: Kubectl, request: pytest.FixtureRequest) -> Iterator[str]:
    """A protected Slice on which two Tasks run."""
    name = request.node.name.replace("_", "-").split("[")[0].lower()[:50].rstrip("-")
    kubectl.done("create", "-f", "-", body=protected_slice(name), user=EDITOR)
    say_tasks(kubectl, name, 2)
    yield name
    kubectl.run("annotate", "--overwrite", "slice", name, f"{_FORCE}=true")
    kubectl.run("patch", "slice", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl.run("delete", "--ignore-not-found", "slice", name)


@pytest.mark.parametrize("user", [EDITOR, OPERATOR, ""])
def test_with_tasks_it_stays_whoever_asks(kubectl: Kubectl, busy: str, user: str) -> None:
    done = kubectl.run("delete", "slice", busy, user=user)
    assert done.returncode != 0
    assert f"2 Tasks run on Slice {busy}" in done.stderr
    assert f"iris slice drain {busy}" in done.stderr and f"iris slice delete --force {busy}" in done.stderr
    assert "deletionTimestamp" not in kubectl.done("get", "slice", busy, "-o", "json")


def test_all_at_once_is_no_way_around(kubectl: Kubectl, busy: str) -> None:
    done = kubectl.run("delete", "slices", "--all", user=EDITOR)
    assert "2 Tasks run on" in done.stderr
    done = kubectl.run("delete", "--raw", "/apis/iris.dev/v1alpha1/namespaces/default/slices", user=EDITOR)
    assert "2 Tasks run on" in done.stderr
    assert busy in kubectl.done("get", "slices")


def test_one_task_is_one(kubectl: Kubectl, busy: str) -> None:
    say_tasks(kubectl, busy, 1)
    assert "1 Task runs on" in kubectl.run("delete", "slice", busy, user=EDITOR).stderr


def test_without_tasks_it_goes(kubectl: Kubectl, busy: str) -> None:
    say_tasks(kubectl, busy, 0)
    kubectl.done("delete", "slice", busy, user=EDITOR)


def test_a_slice_that_has_no_status_yet_goes(kubectl: Kubectl) -> None:
    kubectl.done("create", "-f", "-", body=protected_slice("new"), user=EDITOR)
    kubectl.done("delete", "slice", "new", user=EDITOR)


def test_without_protection_it_goes(kubectl: Kubectl, busy: str) -> None:
    kubectl.done("patch", "slice", busy, "--type=merge", "-p", '{"spec":{"deletionProtection":false}}', user=EDITOR)
    kubectl.done("delete", "slice", busy, user=EDITOR)


@pytest.mark.parametrize("value", ["false", "yes", ""])
def test_the_annotation_must_be_true(kubectl: Kubectl, busy: str, value: str) -> None:
    kubectl.done("annotate", "slice", busy, f"{_FORCE}={value}", user=EDITOR)
    assert "deletionProtection" in kubectl.run("delete", "slice", busy, user=EDITOR).stderr


def test_forced_it_goes(kubectl: Kubectl, busy: str) -> None:
    kubectl.done("annotate", "slice", busy, f"{_FORCE}=true", user=EDITOR)
    kubectl.done("delete", "slice", busy, user=EDITOR)


def test_a_deletion_under_way_may_be_asked_for_again(kubectl: Kubectl, busy: str) -> None:
    """As Kubernetes does that takes a namespace down: its Tasks are being drained already."""
    finalizer = json.dumps({"metadata": {"finalizers": ["iris.dev/slice"]}})
    kubectl.done("patch", "slice", busy, "--type=merge", "-p", finalizer, user=OPERATOR)
    kubectl.done("annotate", "slice", busy, f"{_FORCE}=true", user=EDITOR)
    kubectl.done("delete", "slice", busy, "--wait=false", user=EDITOR)
    kubectl.done("annotate", "slice", busy, f"{_FORCE}-", user=EDITOR)
    kubectl.done("delete", "slice", busy, "--wait=false", user=EDITOR)
