"""The supervisor's rounds, on real but tiny programs, with the clock passed in."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iris_devcluster.machines.process import Process
from iris_devcluster.machines.supervisor import RESTART_DELAY_SECONDS, Supervisor


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Path]:
    for name in ("processes", "log"):
        (tmp_path / name).mkdir()
    yield tmp_path
    for entry in report(tmp_path).values():
        if entry["pid"]:
            os.kill(entry["pid"], signal.SIGKILL)
            os.waitpid(entry["pid"], 0)


def report(machine: Path) -> dict[str, dict[str, int]]:
    path = machine / "status.json"
    found: dict[str, dict[str, int]] = json.loads(path.read_text()) if path.exists() else {}
    return found


def add(machine: Path, name: str, *argv: str, wait_for: str = "", once: bool = False) -> None:
    Process(name, argv, {"GREETING": "hello"}, wait_for, once).save(machine / "processes")


def step_until(supervisor: Supervisor, machine: Path, check: Callable[[dict[str, dict[str, int]]], bool]) -> None:
    """Rounds at the same instant, so that nothing is restarted meanwhile."""
    end = time.monotonic() + 5
    supervisor.step(0)
    while not check(report(machine)):
        assert time.monotonic() < end, report(machine)
        time.sleep(0.01)
        supervisor.step(0)


def test_a_program_runs_with_its_mark_and_its_log(machine: Path) -> None:
    add(machine, "say", "/bin/sh", "-c", "echo $GREETING from $IRIS_DEVCLUSTER_PROCESS", once=True)
    step_until(Supervisor(machine), machine, lambda it: it["say"]["state"] == "done")  # type: ignore[comparison-overlap]
    assert (machine / "log" / "say.log").read_text() == "hello from say\n"


def test_an_ended_program_is_restarted_a_second_later(machine: Path) -> None:
    add(machine, "ends", "/bin/sh", "-c", "exit 3")
    supervisor = Supervisor(machine)
    step_until(supervisor, machine, lambda it: it["ends"]["restarts"] == 1)
    assert report(machine)["ends"]["last_exit"] == "exit 3"  # type: ignore[comparison-overlap]
    assert report(machine)["ends"]["pid"] == 0
    supervisor.step(RESTART_DELAY_SECONDS)
    assert report(machine)["ends"]["pid"] != 0


def test_a_killed_program_says_by_which_signal(machine: Path) -> None:
    add(machine, "sleeps", "/bin/sleep", "60")
    supervisor = Supervisor(machine)
    supervisor.step(0)
    os.kill(report(machine)["sleeps"]["pid"], signal.SIGKILL)
    step_until(supervisor, machine, lambda it: it["sleeps"]["restarts"] == 1)
    assert report(machine)["sleeps"]["last_exit"] == "signal 9"  # type: ignore[comparison-overlap]


def test_once_is_retried_until_it_succeeds_and_never_again(machine: Path) -> None:
    flag = machine / "flag"
    add(machine, "job", "/bin/sh", "-c", f"test -e {flag} && exit 0; touch {flag}; exit 1", once=True)
    supervisor = Supervisor(machine)
    step_until(supervisor, machine, lambda it: it["job"]["restarts"] == 1)
    supervisor.step(2)
    step_until(supervisor, machine, lambda it: it["job"]["state"] == "done")  # type: ignore[comparison-overlap]
    supervisor.step(100)
    assert report(machine)["job"]["pid"] == 0


def test_a_program_waits_for_its_path(machine: Path) -> None:
    path = machine / "socket"
    add(machine, "late", "/bin/sleep", "60", wait_for=str(path))
    supervisor = Supervisor(machine)
    supervisor.step(0)
    assert report(machine)["late"]["state"] == "waiting"  # type: ignore[comparison-overlap]
    path.touch()
    supervisor.step(0)
    assert report(machine)["late"]["pid"] != 0


def test_a_missing_program_is_reported_and_tried_again(machine: Path) -> None:
    add(machine, "missing", "/nowhere/program")
    Supervisor(machine).step(0)
    assert "No such file" in str(report(machine)["missing"]["last_exit"])
    assert report(machine)["missing"]["state"] == "restarting"  # type: ignore[comparison-overlap]


def test_a_removed_program_is_stopped(machine: Path) -> None:
    add(machine, "goes", "/bin/sleep", "60")
    supervisor = Supervisor(machine)
    supervisor.step(0)
    pid = report(machine)["goes"]["pid"]
    (machine / "processes" / "goes.json").unlink()
    supervisor.step(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
    assert "goes" not in report(machine)
