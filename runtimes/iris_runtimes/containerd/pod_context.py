"""What our own Pod was given, as its container's spec in containerd's namespace `k8s.io` tells: right for any cgroup driver."""

from __future__ import annotations

import json
from typing import Any

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import call_options
from iris_runtimes.containerd.proto import containers_pb2
from iris_runtimes.errors import NodeFault
from iris_runtimes.protocol import CgroupParent, Device, Mount, PodContext

_KUBERNETES = "k8s.io"
# What every container has; the rest came from a device plugin.
_USUAL_DEVICES = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console"}


async def read_pod_context(containers: rpc.Service, pod_uid: str) -> PodContext:
    """The context of the running container (not the sandbox) of that Pod. NodeFault when there is none."""
    request = containers_pb2.ListContainersRequest(
        filters=[f'labels."io.kubernetes.pod.uid"=={pod_uid},labels."io.cri-containerd.kind"==container']
    )
    answer = await containers.List(request, **call_options(_KUBERNETES))
    if not answer.containers:
        raise NodeFault(f"containerd on this node knows no container of Pod {pod_uid}")
    newest = max(answer.containers, key=lambda one: one.created_at.seconds * 10**9 + one.created_at.nanos)
    return parse_context(json.loads(newest.spec.value), newest.image)


def parse_context(spec: dict[str, Any], image: str = "") -> PodContext:
    """The context out of an OCI spec and the full name of the image."""
    linux = spec.get("linux") or {}
    devices = tuple(
        Device(str(one["path"]), str(one["path"]), "rw")
        for one in linux.get("devices") or []
        if one["path"] not in _USUAL_DEVICES
    )
    pairs = (pair.partition("=") for pair in (spec.get("process") or {}).get("env") or [])
    env = {name: value for name, _, value in pairs}
    registry = image.partition("/")[0] if "/" in image else ""
    return PodContext(parse_cgroup(str(linux["cgroupsPath"])), devices, env, registry, _binds(spec), _network(linux))


def _network(linux: dict[str, Any]) -> str:
    found = (one.get("path") for one in linux.get("namespaces") or [] if one.get("type") == "network")
    return next((str(path) for path in found if path), "")


def _binds(spec: dict[str, Any]) -> tuple[Mount, ...]:
    """What of the node it sees, by the node's own paths."""
    return tuple(
        Mount(str(one["source"]), str(one["destination"]).rstrip("/") or "/", "ro" in (one.get("options") or []))
        for one in spec.get("mounts") or []
        if one.get("type") == "bind"
    )


def parse_cgroup(path: str) -> CgroupParent:
    """The Pod's cgroup out of a container's cgroupsPath: `slice:prefix:name` (systemd) or `/a/b/name` (cgroupfs)."""
    parts = path.split(":")
    if len(parts) == 3:
        return CgroupParent(parts[0], systemd=True)
    return CgroupParent(path.rsplit("/", 1)[0])
