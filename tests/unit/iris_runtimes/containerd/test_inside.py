"""The process of a sandbox inside another."""

from __future__ import annotations

from typing import Any

import pytest

from iris_runtimes.containerd.inside import inner_process
from iris_runtimes.hold import HOLD_PROCESSES, hold_command, hold_spec, holds
from iris_runtimes.sweep import MARK, sweep_request
from tests.unit.iris_runtimes.containerd.build import spec

MAIN = {
    "args": ["hold"], "cwd": "/home", "env": ["A=outer", "B=outer"], "user": {"uid": 5, "gid": 6},
    "capabilities": {"bounding": ["CAP_KILL"]}, "noNewPrivileges": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "field", "expected"),
    {
        "directory": ({"working_dir": "/w"}, "cwd", "/w"),
        "the other's directory": ({}, "cwd", "/home"),
        "user": ({"user": 7, "group": 8}, "user", {"uid": 7, "gid": 8}),
        "the other's user": ({}, "user", {"uid": 5, "gid": 6}),
        "groups": ({"supplemental_groups": [9]}, "user", {"uid": 5, "gid": 6, "additionalGids": [9]}),
        "privileges": ({}, "noNewPrivileges", True),
        "capabilities are the other's": ({"add_capabilities": ["ALL"]}, "capabilities", MAIN["capabilities"]),
        "command": ({}, "args", ["run"]),
    }.values(),
)
def test_what_the_spec_says_and_else_the_others(more: dict[str, Any], field: str, expected: object) -> None:
    assert inner_process(MAIN, spec(inside="outer", **more), ["run"])[field] == expected


def test_environment_is_the_others_under_its_own_with_its_mark() -> None:
    found = inner_process(MAIN, spec(id="task-x-1", inside="outer", env=[("B", "own")]), ["run"])
    assert found["env"] == ["A=outer", "B=own", f"{MARK}=task-x-1"]


def test_a_holding_sandbox_is_told_by_its_command() -> None:
    held = hold_spec(spec(command=["train"], args=["--fast"]))
    assert holds([*held.command, *held.args])
    assert not holds(["sh", "-c", "sleep 1", "a", "b"])
    assert HOLD_PROCESSES == 2


def test_a_sweep_uses_the_holding_sandboxs_busybox() -> None:
    busybox = hold_command()[0]
    assert sweep_request("m", 15, busybox).command[:3] == [busybox, "sh", "-c"]
    assert list(sweep_request("m", 15, busybox).command[4:]) == ["sh", "m", "15", busybox]
    assert list(sweep_request("m").command[3:]) == ["sh", "m", "9", ""]
