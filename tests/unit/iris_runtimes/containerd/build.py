"""Builders of what the containerd driver works on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iris_runtimes import rpc
from iris_runtimes.containerd.image_config import ImageConfig
from iris_runtimes.protocol import CgroupParent, SandboxSpec


def spec(**changes: Any) -> SandboxSpec:
    """A sandbox of busybox."""
    base: dict[str, Any] = {
        "id": "task-1-1",
        "image": "registry.test/busybox:1",
        "log_path": Path("/var/cache/iris/logs/1/1/output.log"),
        "cgroup": CgroupParent("/kubepods/pod1"),
        "command": ("sh",),
    }
    return SandboxSpec(**{**base, **changes})


def config(**changes: Any) -> ImageConfig:
    """An image without entrypoint, cmd and user."""
    base: dict[str, Any] = {"digest": "sha256:1", "chain_id": "sha256:2", "layers": ("sha256:3",)}
    return ImageConfig(**{**base, **changes})


def failed(words: str, code: rpc.StatusCode = rpc.StatusCode.UNKNOWN) -> rpc.RpcError:
    """A failed call."""
    return rpc.RpcError(code, words)
