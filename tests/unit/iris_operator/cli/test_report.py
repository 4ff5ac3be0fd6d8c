"""What `iris why` and `iris status` say."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import click
import pytest

from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.cli.objects import find, watch_task
from iris_operator.cli.report import report
from iris_operator.ports.kube import SLICES
from tests.unit.iris_operator.cli.build import BINDING, DONE, STARTED, Api

NOW = datetime(2026, 11, 21, 12, 1, tzinfo=UTC)


def task(status: dict[str, Any], *, bound: bool = True) -> Task:
    spec: dict[str, Any] = {"image": "i", **({"binding": BINDING} if bound else {})}
    return Task.parse({"metadata": {"name": "t", "namespace": "d"}, "spec": spec, "status": status})


def test_a_waiting_task_says_why() -> None:
    told = report(task({"phase": "Pending", "reason": "NoRoom", "message": "needs 8 GPUs"}, bound=False), NOW)
    assert (told.phase, told.summary) == ("Pending", "NoRoom: needs 8 GPUs")


def test_a_new_task_says_what_it_waits_for() -> None:
    assert report(task({}, bound=False), NOW).summary == "New: waits to be placed"
    assert report(task({}), NOW).summary == "Assigned: placed on slice s; waits for its agent"


def test_a_running_task_says_how_long() -> None:
    facts = dict(report(task(STARTED), NOW).facts)
    assert facts["ran for"] == "60s"
    assert facts["runs on"] == "slice s, rank 0, node n"


def test_one_that_is_told_to_end_says_for_whom() -> None:
    assert "is stopped" not in dict(report(task(STARTED), NOW).facts)
    stopped = task(STARTED)
    assert stopped.spec.binding is not None
    binding = stopped.spec.binding.model_copy(update={"stop_reason": "Preempted", "stop_for": "big"})
    stopped = stopped.model_copy(update={"spec": stopped.spec.model_copy(update={"binding": binding})})
    facts = dict(report(stopped, NOW).facts)
    assert facts["is stopped"] == "Preempted for Task big; it has 30 s to end by itself"


def test_a_priority_is_shown_when_it_has_one() -> None:
    assert "priority" not in dict(report(task(STARTED), NOW).facts)
    raised = task(STARTED)
    spec = raised.spec.model_copy(update={"priority": 7})
    assert dict(report(raised.model_copy(update={"spec": spec}), NOW).facts)["priority"] == "7"


def test_earlier_attempts_are_listed() -> None:
    moved = {
        "attempt": 2, "reason": "SliceDeleted", "message": "its slice is deleted", "sliceName": "a",
        "nodeName": "n2", "startTime": "2026-11-21T12:00:00Z", "finishTime": "2026-11-21T12:00:50Z",
    }  # fmt: skip
    lost = {
        "attempt": 1,
        "reason": "WorkerLost",
        "message": "gone",
        "cause": "Infrastructure",
        "sliceName": "a",
        "nodeName": "n",
    }
    facts = dict(
        report(task({**STARTED, "attempt": 3, "retries": {"infrastructure": 1}, "attempts": [moved, lost]}), NOW).facts
    )
    assert facts["retries"] == "1 of 10"
    assert facts["attempt 2"] == (
        "node n2 of slice a, ran for 50s: SliceDeleted: its slice is deleted (costs no retry)"
    )
    assert facts["attempt 1"] == "node n of slice a, never started: WorkerLost: gone"


@pytest.mark.parametrize(
    ("reason", "advice"), [("OOMKilled", "limits.memory"), ("ImageNotFound", "spec.image"), ("CommandNotFound", "PATH")]
)
def test_a_failed_task_says_what_to_do(reason: str, advice: str) -> None:
    told = report(task({**DONE, "phase": "Failed", "reason": reason}), NOW)
    assert any(advice in line for line in told.advice)


def test_data_has_the_apis_names() -> None:
    data = report(task(DONE), NOW).data()
    assert (data["kind"], data["name"], data["phase"], data["reason"]) == ("Task", "t", "Succeeded", "Completed")


def test_a_slice_tells_of_its_nodes() -> None:
    body = {
        "metadata": {"name": "s", "namespace": "d"},
        "spec": {"instanceType": "x"},
        "status": {
            "phase": "Booting",
            "message": "waits for 1 node",
            "nodePoolName": "d-s",
            "nodes": [{"rank": 0, "message": "waits for its node"}],
        },
    }
    told = report(Slice.parse(body), NOW)
    assert dict(told.facts)["rank 0"] == "no node yet: waits for its node"
    assert told.advice == ["kubectl describe nodepool d-s"]


def test_an_unseen_object_hints_at_the_operator() -> None:
    body = {"metadata": {"name": "g"}, "spec": {"template": {"spec": {"instanceType": "x"}}}}
    assert "operator has not seen it" in report(ScaleGroup.parse(body), NOW).summary


async def test_find_by_name_and_by_kind() -> None:
    api = Api()
    await api.task(name="both")
    await api.create(SLICES, {"metadata": {"name": "both"}, "spec": {"instanceType": "x"}}, "default")
    assert [one.KIND for one in await find(api.session, "both")] == ["Task", "Slice"]
    assert [one.KIND for one in await find(api.session, "slice/both")] == ["Slice"]
    with pytest.raises(click.ClickException, match="no Task, Slice, ScaleGroup or IrisCluster absent"):
        await find(api.session, "absent")
    with pytest.raises(click.ClickException, match="no Task absent"):
        await find(api.session, "task/absent")
    with pytest.raises(click.UsageError, match="no kind of Iris"):
        await find(api.session, "pod/x")


async def test_watching_a_task_survives_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iris_operator.cli.objects._AGAIN_SECONDS", 0.01)
    api = Api()
    await api.task()
    watching = watch_task(api.session, "t")
    assert (await anext(watching)) is not None
    coming = asyncio.ensure_future(anext(watching))
    await asyncio.sleep(0.02)
    await api.set_down(True)
    await asyncio.sleep(0.02)
    assert not coming.done()
    await api.set_down(False)
    assert (await coming) is not None
