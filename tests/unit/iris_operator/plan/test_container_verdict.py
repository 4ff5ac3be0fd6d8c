"""What the members of a Task do about a container that outlives them, by what all their nodes have."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.plan.tasks.container_verdict import container_verdicts
from iris_operator.plan.tasks.gang import gang_of
from iris_operator.plan.tasks.replicas import plan_replicas
from tests.builders import NOW, TaskBuilder, at, member, task

A, B = "sha256:a", "sha256:b"
_ABSENT: dict[str, Any] = {"running": False, "tagDigest": A}
_RUNS: dict[str, Any] = {"running": True, "image": "iris/task:1", "imageDigest": A, "tagDigest": A}


def _lab(policy: str = "Persistent") -> dict[str, Any]:
    return {"containerLifetime": {"policy": policy, "name": "lab"}, "placement": {"sliceName": "s"}}


def _member(rank: int, seen: dict[str, Any] | None, told: dict[str, Any] | None = None, **status: Any) -> TaskBuilder:
    binding = {
        "rank": rank,
        "peers": [{"nodeName": "s-n0"}, {"nodeName": "s-n1"}],
        **({"container": told} if told else {}),
    }
    made = member("t", rank, **_lab()).bound("s", rank, member=binding)
    facts = {"phase": "Building", "reason": "WaitingForMembers", "attempt": 1, "container": seen}
    return made.status(**{**facts, **status}) if seen else made


def _verdicts(policy: str, members: list[TaskBuilder]) -> list[tuple[str, str, str, str]]:
    there = {one.metadata.name: one for one in (each.build() for each in members)}
    gang = gang_of(task("t", replicas=2, **_lab(policy)).build(), there.get)
    return [
        (one.metadata.name, verdict.action, verdict.reason, verdict.message)
        for one, verdict in container_verdicts(gang)
    ]


SAME: dict[str, tuple[str, dict[str, Any], dict[str, Any], str, str]] = {
    "everywhere": ("Persistent", _RUNS, _RUNS, "Attach", ""),
    "everywhere, and it must be": ("NoLaunch", _RUNS, _RUNS, "Attach", ""),
    "everywhere, and the tag means another by now": ("Persistent", _RUNS, {**_RUNS, "tagDigest": B}, "Attach", ""),
    "nowhere": ("Persistent", _ABSENT, _ABSENT, "Launch", ""),
    "nowhere, and it must be": ("NoLaunch", _ABSENT, _ABSENT, "Refuse", "ContainerNotRunning"),
    "in part": ("Persistent", _RUNS, _ABSENT, "Refuse", "ContainerPartlyRunning"),
    "in part, and it must be": ("NoLaunch", _ABSENT, _RUNS, "Refuse", "ContainerPartlyRunning"),
    "another image on one": ("Persistent", _RUNS, {**_RUNS, "image": "x"}, "Refuse", "ContainerImageMismatch"),
    "another digest on one": ("Persistent", _RUNS, {**_RUNS, "imageDigest": B}, "Refuse", "ContainerImageMismatch"),
    "no digest on one": ("Persistent", {**_RUNS, "imageDigest": ""}, _RUNS, "Refuse", "ContainerImageUnknown"),
    "nowhere, the tag means two": (
        "Persistent",
        _ABSENT,
        {**_ABSENT, "tagDigest": B},
        "Refuse",
        "ContainerImageMismatch",
    ),
    "nowhere, the tag means nothing": ("Persistent", _ABSENT, {"running": False}, "Refuse", "ContainerImageUnknown"),
}


@pytest.mark.parametrize("case", SAME.values(), ids=SAME.keys())
def test_what_all_are_told(case: tuple[str, dict[str, Any], dict[str, Any], str, str]) -> None:
    policy, first, second, action, reason = case
    found = _verdicts(policy, [_member(0, first), _member(1, second)])
    assert [one[:3] for one in found] == [("t-0", action, reason), ("t-1", action, reason)]


WORDS = {
    "in part": "container lab runs on node s-n0 and not on node s-n1",
    "another image on one": "container lab on node s-n1 runs image x, the Task names iris/task:1",
    "another digest on one": "container lab is not the same on all nodes: sha256:a on node s-n0; sha256:b on node s-n1",
    "no digest on one": "container lab: its digest can't be told on node s-n0",
    "nowhere, the tag means two": "image iris/task:1 is not the same on all nodes: sha256:a on node s-n0; sha256:b on node s-n1",
    "nowhere, and it must be": "container lab runs on none of nodes s-n0, s-n1",
}


@pytest.mark.parametrize("name", WORDS)
def test_the_nodes_are_named(name: str) -> None:
    policy, first, second, _, _ = SAME[name]
    assert _verdicts(policy, [_member(0, first), _member(1, second)])[0][3].startswith(WORDS[name])


def test_nobody_is_told_before_all_have_said() -> None:
    assert _verdicts("Persistent", [_member(0, _ABSENT), _member(1, None)]) == []
    assert _verdicts("Persistent", [_member(0, _ABSENT)]) == []
    # What it said is of an attempt before.
    assert _verdicts("Persistent", [_member(0, _ABSENT), _member(1, _ABSENT, attempt=7)]) == []


def test_who_was_not_told_by_an_operator_that_ended_is_told_the_same() -> None:
    told: dict[str, Any] = {"action": "Launch"}
    found = _verdicts(
        "Persistent", [_member(0, {**_RUNS}, told, phase="Running", startTime=at(5)), _member(1, _ABSENT)]
    )
    assert [one[:2] for one in found] == [("t-1", "Launch")]
    assert _verdicts("Persistent", [_member(0, _ABSENT, told), _member(1, _ABSENT, told)]) == []


def test_it_is_part_of_the_plan() -> None:
    there = {one.metadata.name: one for one in (_member(0, _ABSENT).build(), _member(1, _ABSENT).build())}
    parent = task("t", replicas=2, **_lab()).build()
    assert [one.metadata.name for one, _ in plan_replicas(gang_of(parent, there.get), NOW).tell] == ["t-0", "t-1"]
    plain = task("t", replicas=2).build()
    assert plan_replicas(gang_of(plain, there.get), NOW).tell == ()
