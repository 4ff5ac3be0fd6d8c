"""What runc's words at a failed start mean, and who must act; every engine that uses runc passes them on. Pure."""

from __future__ import annotations

import re

from iris_runtimes.errors import (
    CommandNotExecutable,
    CommandNotFound,
    InvalidLimits,
    InvalidSpec,
    NodeFault,
    RuntimeFault,
)

_WRAPPERS = re.compile(r"error during container init: |unable to start container process: |runc create failed: ")
_NOT_FOUND = re.compile(r"executable file not found|no such file or directory")
_NOT_EXECUTABLE = re.compile(r"permission denied|exec format error|is a directory")

_MEANINGS: tuple[tuple[re.Pattern[str], type[RuntimeFault], str], ...] = (
    (
        re.compile(r"chdir to cwd|Cwd must be an absolute path|mkdir .*: not a directory"),
        InvalidSpec,
        "the working directory can't be used",
    ),
    (
        re.compile(r"unable to set memory limit|OOM-killed"),
        InvalidLimits,
        "the memory limit is too low to start anything",
    ),
    (re.compile(r"unable to setup user"), InvalidSpec, "the user or group can't be used"),
    (re.compile(r"hugetlb|hugepage", re.IGNORECASE), InvalidLimits, "this node can't limit such huge pages"),
    (re.compile(r"cpu\.(cfs_|max)|pids\.(max|limit)"), InvalidLimits, "the kernel refuses the limit"),
    (
        re.compile(r"unable to apply caps|error setting rlimit"),
        NodeFault,
        "the node's own privileges are too few for what the sandbox asks",
    ),
    (re.compile(r"no space left on device"), NodeFault, "the node's disk is full"),
)


def meaning_of(words: str, command: str, image: str) -> RuntimeFault:
    """The typed error of those words; NodeFault when they are new to us."""
    last = _WRAPPERS.split(words)[-1]
    if "exec:" in last or f'"{command}"' in last:
        if _NOT_FOUND.search(last):
            return CommandNotFound(f"{command} is not in the image {image}")
        if _NOT_EXECUTABLE.search(last):
            return CommandNotExecutable(f"{command} in the image {image} can't be executed: {last}")
    for signs, kind, meaning in _MEANINGS:
        if signs.search(words):
            return kind(f"{meaning}: {last}")
    return NodeFault(f"the sandbox could not be started: {last}")
