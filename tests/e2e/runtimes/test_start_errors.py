"""Starts that fail say who must act, and leave nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.errors import (
    CommandNotExecutable,
    CommandNotFound,
    ImageNotFound,
    InvalidLimits,
    InvalidSpec,
    NodeFault,
    RuntimeFault,
)
from iris_runtimes.protocol import Device, Mount, SandboxSpec
from tests.e2e.runtimes.private_containerd import PrivateContainerd

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

CASES: dict[str, tuple[list[str], dict[str, Any], type[RuntimeFault]]] = {
    "not-on-the-path": (["nope"], {}, CommandNotFound),
    "no-such-file": (["/nope/x"], {}, CommandNotFound),
    "a-directory": (["/tmp"], {}, CommandNotExecutable),
    "not-executable": (["/etc/passwd"], {}, CommandNotExecutable),
    "directory-is-a-file": (["pwd"], {"working_dir": "/bin/busybox"}, InvalidSpec),
    "relative-directory": (["pwd"], {"working_dir": "here"}, InvalidSpec),
    "memory-of-a-page": (["true"], {"memory_limit_bytes": 4096}, InvalidLimits),
    "user-out-of-range": (["id"], {"user": 2**31 + 5}, InvalidSpec),
    "no-such-device": (["true"], {"devices": [Device("/dev/nope", "/dev/nope")]}, NodeFault),
    "no-such-mount": (["true"], {"mounts": [Mount("/no/such", "/mnt")]}, NodeFault),
    "no-such-image": (["true"], {"image": "registry.test/none:1"}, ImageNotFound),
}


@pytest.mark.parametrize("name", CASES)
async def test_failed_start(
    containerd: PrivateContainerd, runtime: ContainerdRuntime, make_spec: Callable[..., SandboxSpec], name: str
) -> None:
    command, more, fault = CASES[name]
    spec = make_spec(name, command, **more)
    with pytest.raises(fault) as caught:
        await runtime.start(spec)
    assert type(caught.value) is fault
    assert "\n" not in str(caught.value)
    assert spec.id not in {one.id for one in await runtime.list()}
    for what in (["tasks", "ls"], ["snapshots", "ls"]):
        assert spec.id not in containerd.call(*what)
    assert not containerd.runc_state(spec.id).exists()


async def test_a_log_that_cant_be_made_is_the_nodes_fault(
    runtime: ContainerdRuntime, make_spec: Callable[..., SandboxSpec], tmp_path: Path
) -> None:
    (tmp_path / "blocked").write_text("a file where the log's folder should be")
    with pytest.raises(NodeFault, match="log"):
        await runtime.start(make_spec("blocked", ["true"]))
