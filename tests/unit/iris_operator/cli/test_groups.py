"""`iris group`, and what `iris why` says of groups and slices."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner, Result

from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.cli import group_rows, groups, status
from iris_operator.cli.main import main
from iris_operator.cli.objects import find
from iris_operator.cli.report import report
from iris_operator.cli.session import Session, Target
from iris_operator.ports.kube import SCALE_GROUPS, SLICES, TASKS
from tests.builders import NOW, Builder, at, group, slice_, task
from tests.unit.iris_operator.cli.build import Api

_DECISIONS = [
    {"time": at(60), "action": "ScaleUp", "reason": "Demand", "message": "2 Tasks wait: making 1 slice"},
    {"time": at(7200), "action": "ScaleDown", "reason": "Idle", "message": "a was idle for 6 min"},
]
_BOOTS = [{"sliceName": "c", "seconds": 1080}, {"sliceName": "b", "seconds": 1320}, {"sliceName": "a", "seconds": 1020}]
_BACKOFF = {"reason": "OverQuota", "message": "quota of 4 nodes", "failures": 3, "until": at(-120)}


class Shell:
    """The command line on a fake API."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def make(self, one: Builder[ScaleGroup]) -> None:
        async def both() -> None:
            body = one.meta(namespace="default").body()
            status = body.pop("status", {})
            await self.api.create(SCALE_GROUPS, body, "default")
            patch = {"status": status}
            await self.api.patch(
                SCALE_GROUPS, body["metadata"]["name"], patch, namespace="default", subresource="status"
            )

        asyncio.run(both())

    def iris(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["group", *arguments])

    def spec(self) -> dict[str, Any]:
        body: dict[str, Any] = asyncio.run(self.api.get(SCALE_GROUPS, "g", "default"))
        return dict(body["spec"])


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    api = Api()

    @asynccontextmanager
    async def session(target: Target) -> AsyncIterator[Session]:
        yield api.session

    monkeypatch.setattr(groups, "session", session)
    return Shell(api)


def test_list(shell: Shell) -> None:
    shell.make(group().spec(bufferSlices=1).status(ready=1, demand=2, backoff=_BACKOFF, decisions=_DECISIONS))
    head, line = shell.iris("list").stdout.splitlines()
    assert head.startswith("NAME") and head.rstrip().endswith("LAST DECISION")
    assert line.split()[:7] == ["g", "1", "0", "0", "0", "1-2", "+1"]
    assert "OverQuota until" in line and "2 Tasks wait: making 1 slice" in line


def test_an_empty_list_says_how_to_begin(shell: Shell) -> None:
    assert "examples/scalegroup.yaml" in shell.iris("list").stdout


def test_scale_patches_what_is_said_and_no_more(shell: Shell) -> None:
    shell.make(group().status(slices=1))
    before = shell.spec()
    done = shell.iris("scale", "scalegroup/g", "--max", "8")
    assert (done.exit_code, done.stdout) == (0, "scalegroup/g scaled to 1-8; it has 1 now\n")
    assert shell.spec() == {**before, "maxSlices": 8}
    shell.iris("scale", "g", "--min", "0", "--buffer", "3")
    assert shell.spec() == {**before, "minSlices": 0, "maxSlices": 8, "bufferSlices": 3}


@pytest.mark.parametrize(
    ("options", "words"), [([], "which bound"), (["--min", "-1"], "range"), (["--max", "x"], "range")]
)
def test_scale_says_what_it_wants(shell: Shell, options: list[str], words: str) -> None:
    done = shell.iris("scale", "g", *options)
    assert done.exit_code == 2 and words in done.stderr


@pytest.mark.parametrize("command", [("scale", "absent", "--min", "1"), ("decisions", "absent")])
def test_a_group_that_is_not_there(shell: Shell, command: tuple[str, ...]) -> None:
    done = shell.iris(*command)
    assert done.exit_code == 1 and "no ScaleGroup absent in namespace default: iris group list" in done.stderr


def test_decisions_with_what_blocks_and_boots(shell: Shell) -> None:
    shell.make(group().status(decisions=_DECISIONS, backoff=_BACKOFF, recentBoots=_BOOTS))
    lines = shell.iris("decisions", "g").stdout.splitlines()
    assert lines[0].split() == ["WHEN", "ACTION", "REASON", "MESSAGE"]
    assert "ScaleUp" in lines[1] and "ScaleDown" in lines[2]
    assert lines[3:] == ["Blocked: OverQuota until 12:02:00 UTC", "Boots: 3 boots: 17 min to 22 min, the last 18 min"]
    data = json.loads(shell.iris("decisions", "g", "-o", "json").stdout)
    assert [one["action"] for one in data["decisions"]] == ["ScaleUp", "ScaleDown"]


def test_a_group_that_has_decided_nothing(shell: Shell) -> None:
    shell.make(group().status(message="keeps 1 slice"))
    assert shell.iris("decisions", "g").stdout == "ScaleGroup g has decided nothing yet. keeps 1 slice\n"


@pytest.mark.parametrize(
    ("backoff", "words"),
    [
        ({}, ""),
        ({"reason": "InvalidRequest"}, "InvalidRequest until its spec changes"),
        ({"reason": "NoCapacity"}, "NoCapacity"),
        ({"reason": "NoCapacity", "until": at(-60)}, "NoCapacity until 12:01:00 UTC"),
    ],
)
def test_blocked(backoff: dict[str, Any], words: str) -> None:
    assert group_rows.blocked(group().status(backoff=backoff or None).build()) == words


def test_why_of_a_group() -> None:
    told = report(
        group()
        .status(slices=2, ready=1, idle=1, failed=1, demand=2, losses=3, spotLosses=1, backoff=_BACKOFF,
                decisions=_DECISIONS, recentBoots=_BOOTS[:1])
        .condition("Ready", "True", "MinSlicesReady", "1 of 1")
        .condition("ScalingBlocked", "True", "OverQuota", "blocked")
        .build(),
        NOW,
    )  # fmt: skip
    facts = dict(told.facts)
    assert (told.phase, told.summary) == ("Blocked", "OverQuota: blocked")
    assert facts["slices"] == "1 ready, 1 of them idle, 0 booting, 1 failed"
    assert facts["blocked"] == "OverQuota until 12:02:00 UTC, after 3 in a row: quota of 4 nodes"
    assert facts["boots"] == "1 boot: 18 min" and facts["losses"] == "3, and 1 spot"
    assert "more quota" in told.advice[0]
    assert "iris group scale g --max 3" in told.advice[1]
    assert told.advice[2] == "iris group decisions g"


def test_why_of_a_group_that_is_well_says_what_it_does() -> None:
    well = group().status(message="1 up, 0 with Tasks; nothing to do")
    well = well.condition("Ready", "True", "MinSlicesReady", "1 of 1").condition("ScalingBlocked", "False", "Free", "")
    told = report(well.build(), NOW)
    assert (told.phase, told.summary) == ("Ready", "MinSlicesReady: 1 up, 0 with Tasks; nothing to do")


def test_status_has_groups_slices_and_tasks(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def session(target: Target) -> AsyncIterator[Session]:
        yield shell.api.session

    monkeypatch.setattr(status, "session", session)
    shell.make(group().status(message="makes 1"))
    asyncio.run(shell.api.create(SLICES, slice_().meta(namespace="default").body(), "default"))
    asyncio.run(shell.api.create(TASKS, task().meta(namespace="default").body(), "default"))
    lines = CliRunner().invoke(main, ["status"]).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "scalegroup/g", "slice/s", "task/t"]
    assert CliRunner().invoke(main, ["status", "group/g"]).stdout.splitlines()[1].endswith("makes 1")


def test_why_of_a_new_group_says_little() -> None:
    told = report(group().build(), NOW)
    assert set(dict(told.facts)) == {"instance type", "slices", "bounds", "demand"}
    assert told.advice == []


def test_why_of_a_drained_slice() -> None:
    told = report(slice_(availability="Drained", holdUntil=at(-3600)).status(bootSeconds=1200).build(), NOW)
    facts = dict(told.facts)
    assert facts["takes tasks"] == "no: spec.availability is Drained"
    assert facts["held until"] == "2026-11-21 13:00:00 UTC"
    assert facts["booted in"] == "20 min"
    assert told.advice == ["iris slice uncordon s   (to have it take Tasks again)"]


@pytest.mark.parametrize(
    ("failure", "advice"),
    [("OverQuota", "more quota"), ("NoCapacity", "another instance type"), ("InvalidRequest", "correct spec"),
     ("Internal", "support"), ("Slow", "timeouts.bootSeconds"), ("NodeUnfit", "support"), ("NodeLost", "delaySeconds")],
)  # fmt: skip
def test_why_of_a_failed_slice(failure: str, advice: str) -> None:
    told = report(slice_().status(phase="Failed", failure=failure, message="words").build(), NOW)
    assert dict(told.facts)["failure"] == failure
    assert advice in told.advice[0]


def test_why_of_a_slice_whose_node_pool_does_not_go() -> None:
    found = slice_().deleting().condition("Deleted", "False", "DeletionRefused", "denied")
    assert any("tries on" in line for line in report(found.build(), NOW).advice)


@pytest.mark.parametrize("text", ["group/g", "sg/g", "scalegroup/g", "scalegroup.iris.dev/g", "Groups/g"])
async def test_groups_by_any_of_their_names(text: str) -> None:
    api = Api()
    await api.create(SCALE_GROUPS, group().meta(namespace="default").body(), "default")
    assert [one.KIND for one in await find(api.session, text)] == ["ScaleGroup"]
