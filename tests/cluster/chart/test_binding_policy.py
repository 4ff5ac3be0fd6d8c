"""The chart's admission policy on a real API server: spec.binding belongs to the operator."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.chart.conftest import AGENT, BINDING, EDITOR, OPERATOR, Kubectl, task

pytestmark = pytest.mark.cluster


def _bind(kubectl: Kubectl, name: str, binding: dict[str, Any] | None, user: str) -> subprocess.CompletedProcess[str]:
    patch = json.dumps({"spec": {"binding": binding}})
    return kubectl.run("patch", "task", name, "--type=merge", "-p", patch, user=user)


@pytest.fixture
def bound(kubectl: Kubectl, request: pytest.FixtureRequest) -> Iterator[str]:
    """A Task that the operator bound."""
    name = request.node.name.replace("_", "-").split("[")[0].lower()
    kubectl.done("create", "-f", "-", body=task(name), user=EDITOR)
    done = _bind(kubectl, name, BINDING, OPERATOR)
    assert done.returncode == 0, done.stderr
    yield name
    kubectl.run("delete", "task", name)


def test_a_task_with_a_binding_is_refused_and_told_what_to_do(kubectl: Kubectl) -> None:
    done = kubectl.run("create", "-f", "-", body=task("made", BINDING), user=EDITOR)
    assert done.returncode != 0
    assert "spec.binding is written by the Iris operator only: leave it out of a new Task" in done.stderr


@pytest.mark.parametrize("user", [EDITOR, AGENT])
def test_others_can_neither_move_nor_unbind_it(kubectl: Kubectl, bound: str, user: str) -> None:
    assert "spec.binding" in _bind(kubectl, bound, {**BINDING, "nodeName": "other"}, user).stderr
    assert "spec.binding" in _bind(kubectl, bound, None, user).stderr


@pytest.mark.parametrize("user", [EDITOR, AGENT])
def test_others_may_change_the_rest(kubectl: Kubectl, bound: str, user: str) -> None:
    kubectl.done("patch", "task", bound, "--type=merge", "-p", '{"metadata":{"finalizers":null}}', user=user)
    kubectl.done("delete", "task", bound, user=EDITOR)


def test_the_operator_may_tell_it_to_stop_and_take_it_off(kubectl: Kubectl, bound: str) -> None:
    for binding in ({"stopReason": "SliceDeleted"}, None):
        done = _bind(kubectl, bound, binding, OPERATOR)
        assert done.returncode == 0, done.stderr
