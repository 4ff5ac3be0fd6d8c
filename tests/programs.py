"""Our programs as processes of their own, without each importing for seconds what the one before had imported.

Forked by a helper (tests/nursery.py) that lives as long as this process: kill -9, signals, exit codes and files are as with
subprocess; only the start of the interpreter is not. Some tests start the installed programs themselves.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[1]
_PIPE_BYTES = 65536  # what a pipe takes before anybody reads it


class Program:
    """One of our console scripts, running. `argv[0]` is its name."""

    def __init__(
        self,
        argv: Sequence[str],
        stdin: int,
        stdout: int,
        stderr: int,
        env: Mapping[str, str] | None = None,
        cwd: Path = _REPOSITORY,
    ) -> None:
        """stdin, stdout, stderr: open files, which stay open here. `env`: this process's, when not given."""
        self.args = list(argv)
        told = {"argv": self.args, "env": dict(os.environ if env is None else env), "cwd": str(cwd)}
        self._ended, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(_nursery(), [json.dumps(told).encode()], [stdin, stdout, stderr, theirs.fileno()])
        self.pid = int(self._ended.recv(64))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The return code, None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """The return code; subprocess.TimeoutExpired when it runs on after so many seconds."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Nothing when it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """As the kernel would."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], seconds)[0]:
            with self._ended:
                self.returncode = int(self._ended.recv(64))
        return self.returncode


def run(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    timeout: float = 90,
    stdin: bytes = b"",
    cwd: Path = _REPOSITORY,
) -> subprocess.CompletedProcess[str]:
    """Run to the end; its output as text. Killed, and subprocess.TimeoutExpired, when it takes longer."""
    assert len(stdin) < _PIPE_BYTES, "somebody would have to write while it reads"
    pipes = [os.pipe() for _ in range(3)]
    (theirs, ours), (out, out_end), (err, err_end) = pipes
    program = Program(argv, theirs, out_end, err_end, env, cwd)
    os.write(ours, stdin)
    for each in (theirs, ours, out_end, err_end):
        os.close(each)
    with ThreadPoolExecutor(2) as pool:
        reading = [pool.submit(_read, each) for each in (out, err)]
        try:
            code = program.wait(timeout)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait(10)
            raise
        stdout, stderr = (each.result() for each in reading)
    return subprocess.CompletedProcess(list(argv), code, stdout, stderr)


def _read(number: int) -> str:
    with open(number, "rb") as file:
        return file.read().decode(errors="replace")


@cache
def _nursery() -> socket.socket:
    """Started when first needed; it ends with us, and its children with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-P", str(_REPOSITORY / "tests/nursery.py"), str(theirs.fileno())]
    with theirs:
        running = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=_REPOSITORY, start_new_session=True)

    def end() -> None:
        ours.close()
        running.wait(10)

    atexit.register(end)
    return ours
