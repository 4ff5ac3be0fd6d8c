"""What a person can ask of running Tasks, through the gateway: that the parts meet. What each says is for the unit tests."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.product.world import World
from tests.programs import run

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("slice_name")]

IRIS = str(Path(sys.executable).parent / "iris")


def iris(world: World, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    """The CLI: exit code, output, words."""
    done = run(["iris", *arguments], world.env, stdin=stdin)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def busy(world: World) -> str:
    """A Task that serves a page on the loopback of its node, and stays."""
    world.task("busy", "mkdir /tmp/www; echo page >/tmp/www/index.html; echo up; exec httpd -f -p 127.0.0.1:18765 -h /tmp/www",
               resources={"limits": {"memory": "64Mi"}}, terminationGracePeriodSeconds=0)  # fmt: skip
    world.wait_phase("busy", "Running")
    # The whole road: the API server knows the gateway, the gateway the agent.
    world.until(lambda: iris(world, "exec", "busy", "--", "true")[0] == 0, "an exec to get through")
    return "busy"


def test_exec_passes_streams_and_the_exit_code(world: World, busy: str) -> None:
    script = "cat; echo $IRIS_TASK_NAME >&2; exit 7"
    assert iris(world, "exec", "-i", busy, "--", "sh", "-c", script, stdin=b"in\xc3\xa9\n") == (7, "iné\n", "busy\n")
    code, _, words = iris(world, "exec", busy, "--", "nonesuch")
    assert code == 127 and "nonesuch" in words


def test_exec_with_a_terminal(world: World, busy: str) -> None:
    ours, theirs = pty.openpty()
    try:
        running = subprocess.Popen(
            [IRIS, "exec", "-it", busy, "--", "sh", "-c", "read x; tty; stty size; exit 5"],
            env={**world.env, "COLUMNS": "101", "LINES": "33"}, stdin=theirs, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        os.write(ours, b"word\n")
        assert running.wait(90) == 5
        said = os.read(ours, 4096).decode()
        assert "/dev/pts/" in said and "33 101" in said
    finally:
        os.close(ours)
        os.close(theirs)


def test_cp_there_and_back(world: World, busy: str, tmp_path: Path) -> None:
    (tmp_path / "code" / "sub").mkdir(parents=True)
    (tmp_path / "code" / "sub" / "big").write_bytes(os.urandom(3_000_000))
    (tmp_path / "code" / "run.sh").write_text("echo hi")
    (tmp_path / "code" / "run.sh").chmod(0o755)
    assert iris(world, "cp", str(tmp_path / "code"), f"{busy}:/tmp") == (0, "", "")
    assert iris(world, "exec", busy, "--", "/bin/sh", "-c", "/tmp/code/run.sh; ls /tmp/code")[1] == "hi\nrun.sh\nsub\n"
    assert iris(world, "cp", f"{busy}:/tmp/code", str(tmp_path / "back")) == (0, "", "")
    assert (tmp_path / "back/sub/big").read_bytes() == (tmp_path / "code/sub/big").read_bytes()
    code, _, words = iris(world, "cp", f"{busy}:/nix", str(tmp_path))
    assert code == 1 and "No such file" in words


def test_port_forward(world: World, busy: str) -> None:
    running = subprocess.Popen([IRIS, "port-forward", busy, ":18765"], env=world.env, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        line = running.stdout.readline()  # Forwarding 127.0.0.1:40000 -> task busy port 18765
        with urllib.request.urlopen(f"http://{line.split()[1]}/", timeout=30) as page:
            assert page.read() == b"page\n"
    finally:
        running.terminate()
        running.communicate(timeout=30)


def test_top(world: World, busy: str) -> None:
    found = json.loads(iris(world, "top", "tasks", busy, "-o", "json")[1])
    assert [(one["name"], one["memoryLimitBytes"], one["logBytes"]) for one in found] == [(busy, 64 * 2**20, 3)]
    assert 0 < found[0]["memoryBytes"] < 64 * 2**20 and found[0]["cpuCores"] is not None
    [node] = json.loads(iris(world, "top", "nodes", "shared", "-o", "json")[1])
    assert node["node"] == world.node_of("shared") and node["tasks"] >= 1
    assert 0 < node["memoryBytes"] < node["memoryTotalBytes"]


def test_images(world: World, busy: str) -> None:
    _, out, _ = iris(world, "images", "list", "shared", "-o", "json")
    [image] = [one for one in json.loads(out) if one["image"].endswith("iris/task:dev")]
    assert image["inUse"] and image["sizeBytes"] > 0
    code, out, words = iris(world, "images", "pull", "iris/task:dev", "shared")
    assert (code, out.split()[:3], words) == (0, ["shared/0", world.node_of("shared"), "has"], "")
    code, _, words = iris(world, "images", "remove", "iris/task:dev", "shared")
    assert code == 1 and "shared/0" in words, words
    assert iris(world, "images", "pull", "iris/none:1", "shared")[0] == 1


def test_logs_of_attempts_times_and_several(world: World, busy: str) -> None:
    world.task("twice", 'echo "attempt $IRIS_ATTEMPT"; test "$IRIS_ATTEMPT" = 2',
               retryPolicy={"user": 1, "backoffSeconds": 1})  # fmt: skip
    assert world.ended("twice")["phase"] == "Succeeded"
    assert world.iris("logs", "twice") == "attempt 2\n"
    assert world.iris("logs", "twice", "--previous") == "attempt 1\n"
    assert world.iris("logs", "twice", "--attempt", "1", "-f") == "attempt 1\n"
    line = world.iris("logs", "twice", "--timestamps", "--since", "1h")
    assert line.endswith("Z attempt 2\n") and line[:2] == "20"
    both = world.iris("logs", "twice", busy)
    assert sorted(both.splitlines()) == ["busy  up", "twice attempt 2"]


def test_profile(world: World, busy: str, tmp_path: Path) -> None:
    """In an image without a shell, by the busybox that a set-up brings."""
    spin = "def inner():\n  return sum(range(10000))\ndef spinning():\n  while True: inner()\nspinning()"
    setup = [{"command": ["/run/iris/bin/busybox", "mkdir", "-p", "/tmp"]}]
    world.apply("Task", "spins", {"image": "iris/agent:dev", "command": ["python3.11", "-c", spin], "setup": setup,
                                  "terminationGracePeriodSeconds": 0})  # fmt: skip
    world.wait_phase("spins", "Running")
    code, _, words = iris(world, "profile", "spins", "--seconds", "2", "-o", str(tmp_path / "x.svg"))
    assert code == 0, words
    assert "spinning" in (tmp_path / "x.svg").read_text()
    world.kubectl("delete", "task", "spins", "--wait=false")
    code, _, words = iris(world, "profile", busy, "--seconds", "1", "-o", str(tmp_path / "y.svg"))
    assert code == 1 and "no Python process runs in the Task" in words


def test_a_task_that_does_not_run_or_is_not_there(world: World, busy: str) -> None:
    world.task("over", "true")
    world.ended("over")
    for name, words in (("over", "does not run"), ("none", "no Task none")):
        code, _, said = iris(world, "exec", name, "--", "true")
        assert code == 1 and words in said, said
        assert said.count("\n") == 1
