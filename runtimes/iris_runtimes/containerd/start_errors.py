"""What runc's and containerd's words at a failed start mean, and who must act."""

from __future__ import annotations

import re

import grpc

from iris_runtimes.containerd.channel import status_of, translate
from iris_runtimes.errors import (
    CommandNotExecutable,
    CommandNotFound,
    InvalidSpec,
    NodeFault,
    RuntimeFault,
    RuntimeUnavailable,
)

_NOT_FOUND = re.compile(r"executable file not found|no such file or directory")
_NOT_EXECUTABLE = re.compile(r"permission denied|exec format error|is a directory")


def start_error(error: grpc.aio.AioRpcError, command: str, image: str) -> RuntimeFault:
    """The typed error of a start that failed."""
    _, words = status_of(error)
    translated = translate(error)
    if isinstance(translated, RuntimeUnavailable):
        return translated
    last = words.rsplit("error during container init: ", 1)[-1].rsplit("unable to start container process: ", 1)[-1]
    if "exec:" in last or f'"{command}"' in last:
        if _NOT_FOUND.search(last):
            return CommandNotFound(f"{command} is not in the image {image}")
        if _NOT_EXECUTABLE.search(last):
            return CommandNotExecutable(f"{command} in the image {image} can't be executed: {last}")
    if "chdir to cwd" in words:
        return InvalidSpec(f"the working directory can't be entered: {last}")
    if "unable to set memory limit" in words or "possibly OOM-killed" in words:
        return InvalidSpec(f"the memory limit is too low to start anything: {last}")
    return NodeFault(f"the sandbox could not be started: {last}")
