"""Commands on a Task of several replicas: its logs, exec in one member, what is said of all."""

from __future__ import annotations

from typing import Any

import click
import pytest

from iris_operator.api.names import LABEL_TASK
from iris_operator.cli import exec as exec_module
from iris_operator.cli import logs
from iris_operator.cli.log_stream import Wanted
from iris_operator.cli.members import members_of
from iris_operator.cli.objects import get_task
from iris_operator.cli.report import report
from iris_operator.cli.run import Wish, task_body
from iris_operator.ports.kube import TASKS
from tests.builders import NOW, at, member, task
from tests.unit.iris_operator.agent.streams.kit import Gateway
from tests.unit.iris_operator.cli.person import HERE


async def _gang(gateway: Gateway, ranks: int = 2) -> None:
    """Task `train` of two replicas, and so many of its members, each with a log."""
    spec = {"image": "registry.test/task:1", "replicas": 2}
    made = await gateway.create(TASKS, {"metadata": {"name": "train"}, "spec": spec}, "default")
    owner = {
        "apiVersion": "iris.dev/v1alpha1", "kind": "Task", "name": "train", "uid": made["metadata"]["uid"],
        "controller": True,
    }  # fmt: skip
    for rank in range(ranks):
        name = f"train-{rank}"
        uid = await gateway.task(name)
        mine = {"labels": {LABEL_TASK: "train"}, "ownerReferences": [owner]}
        await gateway.patch(TASKS, name, {"metadata": mine}, namespace="default")
        gateway.node.write(f"I am {rank}\n".encode(), uid=uid)
        await gateway.node.start(name, uid=uid)


async def test_logs_of_all_replicas(gateway: Gateway, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    await _gang(gateway)
    await logs._logs(["task/train"], "", False, Wanted(), HERE)
    assert sorted(capsysbinary.readouterr().out.splitlines()) == [b"[0] I am 0", b"[1] I am 1"]
    await logs._logs(["train-1"], "", False, Wanted(), HERE)
    assert capsysbinary.readouterr().out == b"I am 1\n"


async def test_beside_others_they_have_their_names(
    gateway: Gateway, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    await _gang(gateway)
    gateway.node.write(b"alone\n", uid=await gateway.task("other"))
    await logs._logs(["other", "train"], "", False, Wanted(), HERE)
    lines = sorted(capsysbinary.readouterr().out.splitlines())
    assert lines == [b"other   alone", b"train-0 I am 0", b"train-1 I am 1"]


async def test_a_member_that_is_not_there(gateway: Gateway, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    await _gang(gateway, ranks=1)
    with pytest.raises(SystemExit):
        await logs._logs(["train"], "", False, Wanted(), HERE)
    said = capsysbinary.readouterr()
    assert said.out == b"[0] I am 0\n"
    assert b"[1]: no Task train-1" in said.err


async def test_following_waits_for_the_members(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iris_operator.cli.members._LOOK_SECONDS", 0.01)
    monkeypatch.setattr("iris_operator.cli.members._PATIENCE_SECONDS", 0.05)
    await _gang(gateway, ranks=1)
    with pytest.raises(click.ClickException, match="has not all its members: iris why train"):
        await logs._logs(["train"], "", True, Wanted(), HERE)


async def test_exec_needs_a_rank(gateway: Gateway) -> None:
    await _gang(gateway)
    with pytest.raises(
        click.ClickException, match="train runs nothing itself, its members do: name one of train-0 to train-1"
    ):
        await exec_module._exec("train", ("true",), False, False, "", HERE)
    assert await exec_module._exec("train-1", ("sh", "-c", "exit 7"), False, False, "", HERE) == 7


async def test_members_are_those_that_it_owns(gateway: Gateway) -> None:
    await _gang(gateway)
    stranger = {"metadata": {"name": "train-9", "labels": {LABEL_TASK: "train"}}, "spec": {"image": "i"}}
    await gateway.create(TASKS, stranger, "default")
    found = await members_of(gateway.cli, await get_task(gateway.cli, "train"))
    assert [one.metadata.name for one in found] == ["train-0", "train-1"]


def test_what_is_said_of_all() -> None:
    parent = task("t", replicas=3).status(phase="Building", reason="Pulling", membersReady="1/3").build()
    peers = {"rank": 1, "peers": [{"nodeName": "a"}, {"nodeName": "b"}, {"nodeName": "c"}]}
    members = [
        member("t", 0).bound("s", 0).status(phase="Running", startTime=at(5)).build(),
        member("t", 1)
        .bound("s", 1, member=peers)
        .status(phase="Building", reason="Pulling", message="image x")
        .build(),
        member("t", 2).build(),
    ]
    assert report(parent, NOW, members).facts == [
        ("image", "iris/task:1"),
        ("members", "1/3 ready"),
        ("t-0", "Running on node s-n0"),
        ("t-1", "Building on node s-n1: Pulling: image x"),
        ("t-2", "Pending"),
    ]
    assert ("member", "rank 1 of 3") in report(members[1], NOW).facts
    assert "members" not in dict(report(task("plain").build(), NOW).facts)


@pytest.mark.parametrize(("replicas", "expected"), [(1, None), (3, 3)])
def test_run_with_replicas(replicas: int, expected: Any) -> None:
    assert task_body(Wish("i", (), replicas=replicas))["spec"].get("replicas") == expected
