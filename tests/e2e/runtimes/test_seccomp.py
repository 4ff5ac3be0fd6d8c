"""Our seccomp profile is containerd's own, for the capabilities that a sandbox gets."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.containerd.oci_security import capabilities
from iris_runtimes.containerd.seccomp import default_profile
from iris_runtimes.protocol import SandboxSpec
from tests.unit.iris_runtimes.containerd.build import spec

_CONTAINERD = "github.com/containerd/containerd/v2@v2.2.9"
_SOURCE = Path(__file__).parent / "seccomp_dump" / "main.go"


def _go(folder: Path, *words: str) -> str:
    done = subprocess.run(["go", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"go {' '.join(words)}: {done.stderr}"
    return done.stdout


def _by_name(profile: Mapping[str, Any]) -> dict[str, set[str]]:
    """System call -> its rules, whatever the order and grouping."""
    rules: dict[str, set[str]] = defaultdict(set)
    for group in profile["syscalls"]:
        rest = {key: value for key, value in group.items() if key != "names"}
        for name in group["names"]:
            rules[name].add(json.dumps(rest, sort_keys=True))
    return rules


@pytest.mark.cluster  # needs no cluster, but the network: Go modules
def test_it_is_containerds(tmp_path: Path) -> None:
    shutil.copy(_SOURCE, tmp_path)
    _go(tmp_path, "mod", "init", "dump")
    _go(tmp_path, "get", _CONTAINERD)
    _go(tmp_path, "mod", "tidy")
    _go(tmp_path, "build", "-o", "dump", ".")
    for granted in _capabilities():
        command = [str(tmp_path / "dump"), *granted]
        theirs = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        ours = default_profile(platform.machine(), granted)
        assert ours is not None
        assert ours["defaultAction"] == theirs["defaultAction"]
        assert ours["architectures"] == [
            one for one in theirs["architectures"] if one != "SCMP_ARCH_X32"
        ]  # see seccomp.py
        assert _by_name(ours) == _by_name(theirs), granted


def _capabilities() -> list[tuple[str, ...]]:
    """The default ones, each of the others with them, and all."""
    default, everything = (tuple(capabilities(spec(privileged=all_of_them))) for all_of_them in (False, True))
    return [default, *((*default, one) for one in everything if one not in default), everything]


@pytest.mark.e2e
@pytest.mark.asyncio(loop_scope="session")
async def test_it_is_in_force(runtime: ContainerdRuntime, make_spec: Callable[..., SandboxSpec]) -> None:
    # Making a user namespace needs no capability: only the profile forbids it.
    spec = make_spec("fenced", ["sh", "-c", "grep Seccomp: /proc/self/status; unshare -U true || echo refused"])
    await runtime.start(spec)
    await runtime.wait(spec.id)
    text = spec.log_path.read_text()
    assert "Seccomp:\t2" in text
    assert "refused" in text
