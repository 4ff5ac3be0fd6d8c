"""What is kept of Tasks: as the API has them, read no more often than they change."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.agent.task_store import TaskStore
from iris_operator.api.task import Task, TaskPhase, TaskSpec
from tests.unit.iris_operator.agent.build import NODE, task_body


def body(version: int, *, generation: int = 1, uid: str = "uid-t", **spec: Any) -> dict[str, Any]:
    found = task_body(**spec)
    found["metadata"] |= {"namespace": "default", "uid": uid, "resourceVersion": str(version), "generation": generation}
    return found


@pytest.fixture
def changed() -> list[str]:
    return []


@pytest.fixture
def store(changed: list[str]) -> TaskStore:
    return TaskStore(NODE, changed.append)


FILLED_IN = TaskSpec(image="any").wire()
SPECS: dict[str, dict[str, Any]] = {
    "as the API server fills it in": {name: value for name, value in FILLED_IN.items() if name != "image"},
    "bare": {},
    "other than usual": {"lifecycle": {"stopSignal": "SIGUSR1"}, "retryPolicy": {"user": 3}, "args": ["a"]},
    "in part": {"containerLifetime": {**FILLED_IN["containerLifetime"], "idleSeconds": 7}},
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_task_is_what_its_body_says(store: TaskStore, spec: dict[str, Any]) -> None:
    store.observe(body(5, **spec))
    assert store.get("uid-t") == Task.parse(body(5, **spec))


def test_tasks_share_what_the_api_server_fills_in(store: TaskStore) -> None:
    filled_in = SPECS["as the API server fills it in"]
    for uid in ("a", "b"):
        store.observe(body(5, uid=uid, **filled_in))
    first, second = store.tasks["a"].spec, store.tasks["b"].spec
    assert first.security_context is second.security_context
    assert first.command is not second.command  # lists could be changed


def test_a_spec_is_read_again_when_it_has_changed_only(store: TaskStore) -> None:
    store.observe(body(5))
    before = store.tasks["uid-t"].spec
    store.observe({**body(6), "status": {"phase": "Running"}})
    assert store.tasks["uid-t"].spec is before
    assert store.tasks["uid-t"].status.phase is TaskPhase.RUNNING
    stopped = body(7, generation=2)
    stopped["spec"]["binding"]["stopReason"] = "SliceDrained"
    store.observe(stopped)
    binding = store.tasks["uid-t"].spec.binding
    assert binding is not None and binding.stop_reason == "SliceDrained"


def test_its_going_is_told_once_and_nothing_old_brings_it_back(store: TaskStore, changed: list[str]) -> None:
    store.observe(body(5))
    store.drop("uid-t")
    store.observe(body(6), gone=True)  # the watch's echo
    store.observe(body(4))
    assert (changed, store.tasks) == (["uid-t"] * 2, {})
    store.observe(body(9))  # bound to this node once more
    store.observe({"metadata": {"uid": "uid-t", "resourceVersion": "9"}}, gone=True)  # missing in a later list
    assert (changed, store.tasks) == (["uid-t"] * 4, {})
