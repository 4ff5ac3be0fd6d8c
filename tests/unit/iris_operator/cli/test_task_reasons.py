"""The reasons of Tasks: code, `iris why` and docs/operations.md know the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from iris_operator.cli.report import report
from iris_operator.cli.task_reasons import ENDED, REASONS, STARTING, WAITING, rows
from iris_operator.plan.tasks.retry import MOVES
from iris_runtimes.errors import RuntimeFault
from tests.builders import NOW, at, task

_ROOT = Path(__file__).parents[4]
_SOURCES = [
    *(_ROOT / "operator/iris_operator/agent").rglob("*.py"),
    *(_ROOT / "operator/iris_operator/plan").glob("*.py"),
]
# Which argument of a call is a reason of a Task's.
_SAID_BY = {
    "InputFault": 0, "StopCause": 0, "Illness": 0, "ContainerUnfit": 0, "AttemptEnd": 0, "Trouble": 0, "NoCluster": 0,
    "in_trouble": 1, "cannot_start": 1, "never_placed": 1,
}  # fmt: skip
# Of an image list or a running command, never of a Task; or of its base class alone.
_NOT_OF_TASKS = {"ImageInUse", "SandboxNotRunning", "SandboxNotFound", "RuntimeFault"}


def _written() -> Iterator[str]:
    """Every literal reason in the sources."""
    for path in _SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                at_ = _SAID_BY.get(name)
                if at_ is not None and len(node.args) > at_ and isinstance(node.args[at_], ast.Constant):
                    value = node.args[at_]
                    assert isinstance(value, ast.Constant)
                    yield str(value.value)


def _faults(base: type[RuntimeFault]) -> Iterator[str]:
    for one in base.__subclasses__():
        yield one.reason
        yield from _faults(one)


def test_every_reason_that_the_code_writes_is_explained() -> None:
    written = {*_written(), *_faults(RuntimeFault), *MOVES} - _NOT_OF_TASKS
    assert len(written) > 30  # the search finds something
    assert written <= set(REASONS), written - set(REASONS)


def test_each_is_in_one_table() -> None:
    assert len(REASONS) == len(WAITING) + len(STARTING) + len(ENDED)


@pytest.mark.parametrize("table", [WAITING, STARTING, ENDED], ids=["waiting", "starting", "ended"])
def test_the_page_has_the_same_rows(table: dict[str, object]) -> None:
    page = (_ROOT / "docs/operations.md").read_text()
    head = "| reason | whose | what to do |\n|---|---|---|\n"
    assert head + "\n".join(rows({name: REASONS[name] for name in table})) + "\n\n" in page


def test_the_name_is_filled_in() -> None:
    assigned = task("train").bound().status(phase="Assigned", reason="BackOff")
    (advice,) = [line for line in report(assigned.build(), NOW).advice if "rests" in line]
    assert "iris logs train --previous" in advice


def test_a_task_that_rests_says_until_when() -> None:
    found = report(task().status(phase="Pending", reason="BackOff", retryAfter=at(-20)).build(), NOW)
    assert dict(found.facts)["next attempt"] == "in 20s at the earliest"
    assert not any("kubectl get slices" in line for line in found.advice)
    later = report(task().status(phase="Pending", reason="TooLarge", retryAfter=at(1)).build(), NOW)
    assert "next attempt" not in dict(later.facts)


def test_ports_are_shown_while_they_hold() -> None:
    ports = [{"name": "web", "port": 20001}, {"name": "api", "port": 80}]
    built = task().bound().status(phase="Running", hostIP="10.0.0.1", ports=ports)
    assert dict(report(built.build(), NOW).facts)["ports"] == "web 10.0.0.1:20001, api 10.0.0.1:80"
    assert "ports" not in dict(report(built.phase("Failed").build(), NOW).facts)
