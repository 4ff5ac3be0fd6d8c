"""A sandbox that does nothing but stay, so that others run inside it (`SandboxSpec.inside`). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iris_runtimes.protocol import SandboxSpec

BUSYBOX = "/run/iris/bin/busybox"
"""A static busybox, as a sandbox sees it; whoever makes a holding sandbox mounts it there."""

# `wait` also takes those who have lost their parent: the first process of a sandbox has to.
_LOOP = "trap 'exit 0' TERM INT; while :; do \"$0\" sleep 2147483647 & wait; done"
HOLD_PROCESSES = 2
"""Itself: the loop and what it waits for. More than these is somebody else's."""


def hold_command(busybox: str = BUSYBOX) -> list[str]:
    """The command of a sandbox that stays until it is told to end: SIGTERM, exit code 0."""
    return [busybox, "sh", "-c", _LOOP, busybox]


def hold_spec(spec: SandboxSpec, busybox: str = BUSYBOX) -> SandboxSpec:
    """That sandbox, made to stay instead of running its own command."""
    return replace(spec, command=hold_command(busybox), args=())


def holds(args: Sequence[str]) -> bool:
    """Whether these are the words of a process that only stays."""
    return len(args) >= 5 and args[-2] == _LOOP
