"""`iris run`: the Task it makes and the code it exits with."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from iris_operator.api.task import Task
from iris_operator.cli.main import main
from iris_operator.cli.run import NOT_RUN_EXIT_CODE, Wish, exit_code, task_body
from iris_operator.cli.session import explain
from iris_operator.ports.errors import ForbiddenError, InvalidError, NotFoundError, UnavailableError
from tests.unit.iris_operator.cli.build import DONE


def test_the_whole_wish() -> None:
    body = task_body(Wish("i", ("python", "x.py"), "n", "500m", "2Gi", 8, ("A=b=c",), "s", "g", priority=-3))
    assert body["metadata"] == {"name": "n"}
    assert body["spec"] == {
        "image": "i",
        "command": ["python", "x.py"],
        "env": [{"name": "A", "value": "b=c"}],
        "resources": {"limits": {"cpu": "500m", "memory": "2Gi", "nvidia.com/gpu": "8"}},
        "placement": {"sliceName": "s", "scaleGroupName": "g"},
        "priority": -3,
    }


def test_the_least_wish() -> None:
    body = task_body(Wish("i", ()))
    assert body["metadata"] == {"generateName": "run-"}
    assert body["spec"] == {"image": "i"}
    Task.parse({**body, "metadata": {"name": "x"}})


def test_arguments_for_the_images_own_entrypoint() -> None:
    assert task_body(Wish("i", ("x",), as_args=True))["spec"] == {"image": "i", "args": ["x"]}


def ended(**status: Any) -> Task:
    return Task.parse({"metadata": {"name": "t"}, "spec": {"image": "i"}, "status": {**DONE, **status}})


@pytest.mark.parametrize(
    ("task", "code"),
    [
        (ended(), 0),
        (ended(phase="Failed", reason="Error", exitCode=3), 3),
        (ended(phase="Failed", reason="OOMKilled", exitCode=137), 137),
        (ended(phase="Failed", reason="ImageNotFound", exitCode=None), NOT_RUN_EXIT_CODE),
        (ended(phase="WorkerLost", reason="WorkerDeleted", exitCode=0), NOT_RUN_EXIT_CODE),
        (ended(phase="Failed", reason="RunningTimeout", exitCode=0), NOT_RUN_EXIT_CODE),
        (ended(phase="Preempted", reason="SpotReclaimed", exitCode=None), NOT_RUN_EXIT_CODE),
        (None, NOT_RUN_EXIT_CODE),
    ],
)
def test_exit_codes(task: Task | None, code: int) -> None:
    assert exit_code("t", task) == code


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "i", "--cpu", "lots"], "not a Kubernetes quantity"),
        (["run", "i", "-e", "A"], "is not NAME=VALUE"),
        (["run", "i", "--rm", "-d"], "exclude each other"),
        (["run", "i", "--nmae", "x"], "No such option"),
        (["logs"], "give the names of Tasks"),
        (["logs", "t", "--kubeconfig", "/nope"], "does not exist"),
    ],
)
def test_usage_errors(arguments: list[str], words: str) -> None:
    found = CliRunner().invoke(main, arguments)
    assert found.exit_code == 2
    assert words in found.output


@pytest.mark.parametrize("command", [[], ["run"], ["logs"], ["status"], ["why"]])
def test_help_fits_and_explains(command: list[str]) -> None:
    found = CliRunner().invoke(main, [*command, "--help"])
    assert found.exit_code == 0
    assert all(len(line) <= 110 for line in found.output.splitlines())


def test_a_missing_kubeconfig_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nope")
    found = CliRunner().invoke(main, ["status"])
    assert found.exit_code == 1
    assert "there is no such file: /nope" in found.output


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (UnavailableError(0, "Unreachable", "https://x"), "can't be reached"),
        (ForbiddenError(403, "Forbidden", "no"), "not allowed: no"),
        (InvalidError(422, "Invalid", "spec.image"), "refuses it: spec.image"),
        (NotFoundError(404, "NotFound", "the server could not find the requested resource"), "is the chart installed"),
    ],
)
def test_errors_say_what_to_do(error: Any, words: str) -> None:
    assert words in explain(error)
    assert isinstance(click.ClickException(explain(error)), Exception)
