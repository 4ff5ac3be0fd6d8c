"""The base of all models: what is read, what is written."""

from __future__ import annotations

from iris_operator.api.slice import Slice
from iris_operator.api.task import Task, TaskSpec
from iris_operator.api.task_policy import MUTABLE
from tests.builders import slice_, task


def test_unknown_fields_are_passed_over() -> None:
    """An older operator reads what a newer one wrote."""
    assert task(fromTheFuture={"a": 1}).build().spec.image == "iris/task:1"


def test_stated_is_what_was_read() -> None:
    read = slice_().status(phase="Ready").build()
    assert read.status.stated() == {"phase": "Ready"}
    assert read.status.wire()["tasks"] == 0


def test_times_are_written_in_whole_seconds() -> None:
    body = task().bound().spec(image="x").body()
    body["spec"]["binding"]["boundAt"] = "2026-11-21T12:00:00.75Z"
    binding = Task.parse(body).spec.binding
    assert binding is not None and binding.wire()["boundAt"] == "2026-11-21T12:00:00Z"


def test_a_key_is_namespace_and_name() -> None:
    assert slice_("a").build().key == "team/a"


def test_an_owner_reference_blocks_and_controls() -> None:
    assert slice_("a").build().owner_reference() == {
        "apiVersion": "iris.dev/v1alpha1", "kind": "Slice", "name": "a", "uid": "uid-a", "controller": True,
        "blockOwnerDeletion": True,
    }  # fmt: skip
    assert Slice.KIND == "Slice"


def test_what_of_a_task_may_change_are_fields_of_it() -> None:
    assert set(MUTABLE) <= {field.alias or name for name, field in TaskSpec.model_fields.items()}
