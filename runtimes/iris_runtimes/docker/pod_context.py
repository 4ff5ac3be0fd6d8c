"""What our own Pod was given, by the Engine's record (cri-dockerd makes one), and its cgroup in the Engine's words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from iris_runtimes.errors import NodeFault
from iris_runtimes.protocol import CgroupParent, Device, Mount, PodContext

# cri-dockerd's labels
POD_UID_LABEL = "io.kubernetes.pod.uid"
TYPE_LABEL, CONTAINER = "io.kubernetes.docker.type", "container"


def context_of(found: Mapping[str, Any]) -> PodContext:
    """Of what GET /containers/ID/json shows of our own container."""
    host, config = found["HostConfig"], found["Config"]
    pairs = (pair.partition("=") for pair in config.get("Env") or [])
    image = str(config.get("Image") or "")
    return PodContext(
        engines_parent(str(host.get("CgroupParent") or "")),
        tuple(
            Device(one["PathOnHost"], one["PathInContainer"], one.get("CgroupPermissions") or "rw")
            for one in host.get("Devices") or []
        ),
        {name: value for name, _, value in pairs},
        image.partition("/")[0] if "/" in image else "",
        tuple(
            Mount(one["Source"], one["Destination"], not one.get("RW", True))
            for one in found.get("Mounts") or []
            if one.get("Type") == "bind"
        ),
    )


def engines_parent(path: str) -> CgroupParent:
    """A CgroupParent as the Engine has it."""
    return CgroupParent(path, systemd=path.endswith(".slice") and "/" not in path)


def parent_for(parent: CgroupParent, driver: str) -> CgroupParent:
    """The Pod's cgroup as an Engine of that cgroup driver takes it. NodeFault when it takes none such."""
    if not parent.path or parent.systemd == (driver == "systemd"):
        return parent
    if parent.systemd:
        return CgroupParent(slice_path(parent.path))
    raise NodeFault(
        f"the Engine's cgroup driver is systemd and the kubelet's is not, so Tasks can't be bounded by the worker Pod's "
        f"cgroup {parent.path}: give both the same driver"
    )


def slice_path(name: str) -> str:
    """Where systemd keeps a slice: `a-b.slice` is /a.slice/a-b.slice."""
    parts = name.removesuffix(".slice").split("-")
    folders = ["-".join(parts[: count + 1]) + ".slice" for count in range(len(parts))]
    return str(PurePosixPath("/", *folders))
