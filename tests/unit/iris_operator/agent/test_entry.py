"""The script that sets a container up, run by a real busybox outside of one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iris_operator.agent.sandbox.entry import (
    LONGEST_SCRIPT_BYTES,
    SCRIPT_FILE,
    STAGE_FILE,
    script_command,
    script_text,
    start_script,
)
from iris_runtimes.errors import InvalidSpec
from iris_runtimes.hold import BUSYBOX
from tests.unit.iris_operator.agent.build import task

_REAL = "/bin/busybox"
needs_busybox = pytest.mark.skipif(not Path(_REAL).exists(), reason="needs busybox-static")
ENV = {"PATH": "/usr/bin:/bin", "a.b": "c=d", "TWO": "lines\nof text"}


@dataclass(frozen=True)
class Run:
    """The script of one Task in a folder of the test's."""

    folder: Path
    words: list[str]

    @property
    def stage(self) -> str:
        return (self.folder / "stage").read_text()

    def begin(self, **env: str) -> subprocess.Popen[str]:
        out = subprocess.PIPE
        return subprocess.Popen(self.words, env={**ENV, **env}, stdout=out, stderr=subprocess.STDOUT, text=True)

    def end(self, **env: str) -> tuple[int, str]:
        running = self.begin(**env)
        said, _ = running.communicate(timeout=20)
        return running.returncode, said


def run_of(folder: Path, command: list[str], script: str = "", **spec: Any) -> Run:
    text = start_script(task(**spec)).replace(BUSYBOX, _REAL).replace(STAGE_FILE, str(folder / "stage"))
    (folder / "start").write_text(text.replace(SCRIPT_FILE, str(folder / "script")))
    (folder / "script").write_text(script)
    return Run(folder, [_REAL, "sh", str(folder / "start"), *command])


def sh(*scripts: str) -> list[dict[str, Any]]:
    return [{"command": ["sh", "-c", script]} for script in scripts]


@needs_busybox
def test_steps_in_order_then_the_command_as_the_same_process(tmp_path: Path) -> None:
    running = run_of(tmp_path, ["sh", "-c", "echo pid $$; exit 7"], setup=sh("echo one", "echo two >&2")).begin()
    said, _ = running.communicate(timeout=20)
    assert said.split("\n") == ["one", "two", f"pid {running.pid}", ""]
    assert running.returncode == 7
    assert (tmp_path / "stage").read_text() == "command\n"


@needs_busybox
@pytest.mark.parametrize(
    ("setup", "code", "stage", "says"),
    [
        (sh("echo why; exit 3", "echo never"), 3, "failed 1 3\n", "why\n"),
        (sh("true", "kill -9 $$"), 137, "failed 2 137\n", ""),
        ([{"command": ["no-such-thing"]}], 127, "failed 1 127\n", "no-such-thing: not found\n"),
        ([{"command": ["/etc/passwd"]}], 126, "failed 1 126\n", "/etc/passwd: can't be executed\n"),
    ],
)
def test_the_first_that_fails_is_the_last(
    tmp_path: Path, setup: list[dict[str, Any]], code: int, stage: str, says: str
) -> None:
    run = run_of(tmp_path, ["echo", "never"], setup=setup)
    ended, said = run.end()
    # The shell says "Killed" only of a child that ends while it waits, not of one that has ended by then.
    assert (ended, said.removesuffix("Killed\n")) == (code, says)
    assert run.stage == stage


@needs_busybox
@pytest.mark.parametrize(("command", "code"), [(["gone"], 127), (["/gone/too"], 127), (["/etc"], 126)])
def test_a_command_that_is_not_there(tmp_path: Path, command: list[str], code: int) -> None:
    run = run_of(tmp_path, command, setup=sh("true"))
    assert run.end()[0] == code
    assert run.stage == f"missing {code}\n"


@needs_busybox
def test_the_environment_is_exactly_the_one_given(tmp_path: Path) -> None:
    show = ["python3", "-c", "import os; print(sorted(os.environ.items()))"]
    python = str(Path(os.path.realpath("/proc/self/exe")).parent)
    env = {"PATH": f"{python}:/usr/bin"}
    code, said = run_of(tmp_path, show, setup=[{"command": show}]).end(**env)
    wanted = {**ENV, **env}
    seen = [dict(eval(line)) for line in said.splitlines()]
    for one in seen:
        one.pop("LC_CTYPE", None)  # Python's own doing
    assert (code, seen) == (0, [wanted, wanted])


@needs_busybox
def test_words_are_kept_as_they_are(tmp_path: Path) -> None:
    words = ["", "a b", "$HOME", "it's", "*", "new\nline", "-n", "ä"]
    command = ["printf", "<%s>", *words]
    wanted = "".join(f"<{word}>" for word in words)
    assert run_of(tmp_path, command, setup=[{"command": command}]).end() == (0, wanted * 2)


@needs_busybox
def test_the_images_programs_go_before_busyboxs(tmp_path: Path) -> None:
    own = tmp_path / "bin"
    own.mkdir()
    (own / "tar").write_text("#!/bin/sh\necho mine\n")
    (own / "tar").chmod(0o755)
    odd = tmp_path / "a=b"
    odd.write_text("#!/bin/sh\necho odd\n")
    odd.chmod(0o755)
    run = run_of(tmp_path, ["tar"], setup=[{"command": [str(odd)]}])
    assert run.end(PATH=f"{own}:/usr/bin") == (0, "odd\nmine\n")


@needs_busybox
@pytest.mark.parametrize(("name", "number"), [("SIGTERM", 15), ("SIGUSR1", 10), ("SIGRTMIN+3", 37)])
def test_a_stop_while_it_sets_up_ends_it_soon(tmp_path: Path, name: str, number: int) -> None:
    begun = tmp_path / "begun"
    setup = [
        {"command": ["sh", "-c", f"trap 'echo bye; exit 0' {number}; touch {begun}; while :; do sleep 0.05; done"]}
    ]
    running = run_of(tmp_path, ["echo", "never"], setup=setup, lifecycle={"stopSignal": name}).begin()
    deadline = time.monotonic() + 20
    while not begun.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    running.send_signal(number)
    said, _ = running.communicate(timeout=20)
    assert (running.returncode, said) == (128 + number, "bye\n")


@needs_busybox
def test_the_command_gets_its_signals_itself(tmp_path: Path) -> None:
    running = run_of(tmp_path, ["sh", "-c", "echo up; exec sleep 60"], setup=sh("true")).begin()
    assert running.stdout is not None and running.stdout.readline() == "up\n"
    running.send_signal(signal.SIGTERM)
    assert running.wait(20) == -signal.SIGTERM
    running.stdout.close()


@needs_busybox
@pytest.mark.parametrize(
    ("script", "code", "says"),
    [("echo $0 | sed s,.*/,,\n", 0, "script\ndone\n"), ("false | true\necho never\n", 1, ""), ("exit 9\n", 9, "")],
)
@pytest.mark.parametrize("path", ["/usr/bin:/bin", "/nowhere:/bin-without-bash"])
def test_the_set_up_script_fails_as_a_whole(tmp_path: Path, script: str, code: int, says: str, path: str) -> None:
    life = {"setupScript": {"inline": script}}
    run = run_of(tmp_path, ["/bin/echo", "done"], script, containerLifetime=life)
    assert run.end(PATH=path) == (code, says)
    assert run.stage == (f"failed 0 {code}\n" if code else "command\n")


@needs_busybox
def test_a_script_for_a_container_that_is_there(tmp_path: Path) -> None:
    text = "echo begins\n" + "# ä\n" * 60_000 + 'echo "it ends: $GREETING"; false | true\n'
    words = [word.replace(BUSYBOX, _REAL) for word in script_command(text)]
    assert max(len(word.encode()) for word in words) < 128 * 1024
    run = Run(tmp_path, words)
    assert run.end(GREETING="hello", TMPDIR=str(tmp_path)) == (1, "begins\nit ends: hello\n")


def test_a_script_that_is_too_long_says_so() -> None:
    life = {"setupScript": {"inline": "ä" * 200_000}}
    with pytest.raises(InvalidSpec, match="has 400000 bytes, at most 262144"):
        script_text(task(containerLifetime=life), "")


def test_scripts_by_their_source() -> None:
    reference = {"configMapKeyRef": {"name": "c", "key": "k"}}
    assert script_text(task(), "x") == ""
    assert script_text(task(containerLifetime={"setupScript": {"inline": "a"}}), "") == "a"
    assert script_text(task(containerLifetime={"setupScript": reference}), "b") == "b"
    assert "port=2224" in script_text(task(containerLifetime={"setupScript": {"packaged": "sshd"}}), "")
    assert LONGEST_SCRIPT_BYTES == 256 * 1024


def test_a_word_that_no_process_takes() -> None:
    with pytest.raises(InvalidSpec, match="NUL"):
        start_script(task(setup=[{"command": ["a\0b"]}]))


@needs_busybox
def test_the_packaged_script_is_run_once_and_again(tmp_path: Path) -> None:
    """With programs of the test's own in place of OpenSSH's."""
    own = tmp_path / "bin"
    own.mkdir()
    for name, body in {
        "sshd": f'echo "sshd $*" >>{tmp_path}/calls; echo $PPID >{tmp_path}/pid',
        "ssh-keygen": f'echo "keys $*" >>{tmp_path}/calls',
        "mkdir": "true",
    }.items():
        (own / name).write_text(f"#!/bin/sh\n{body}\n")
        (own / name).chmod(0o755)
    text = script_text(task(containerLifetime={"setupScript": {"packaged": "sshd"}}), "")
    text = text.replace("/run/iris-sshd.pid", f"{tmp_path}/pid")
    command = ["bash", "-eo", "pipefail", "-c", f"{text}\nsleep 0"]
    env = {"PATH": f"{own}:/usr/bin:/bin"}
    first = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert first.stdout == "sshd listens on port 2224\n"
    (tmp_path / "pid").write_text(str(os.getpid()))
    again = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert again.stdout == "sshd listens on port 2224 already\n"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == "keys -A" and calls[1].startswith("sshd -p 2224 ") and len(calls) == 2
