"""The OCI runtime spec of a sandbox: containerd's defaults (oci.WithDefaultSpec) plus what the Task asks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iris_runtimes.containerd.devices import DeviceNode
from iris_runtimes.containerd.image_config import ImageConfig, User
from iris_runtimes.containerd.oci_mounts import mounts
from iris_runtimes.containerd.oci_resources import process_limits, resources
from iris_runtimes.containerd.oci_security import EVERY_CAPABILITY, kernel_security, process_security
from iris_runtimes.errors import InvalidSpec
from iris_runtimes.protocol import CgroupParent, SandboxSpec

# Where a sandbox's log is: of a lost one, its last write is the last sign of life.
LOG_PATH_ANNOTATION = "dev.iris/log-path"
SPEC_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Spec"

_DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def cgroups_path(parent: CgroupParent, sandbox_id: str) -> str:
    """linux.cgroupsPath below the parent, for either cgroup driver."""
    if parent.systemd:
        return f"{parent.path}:iris:{sandbox_id}"
    return f"{parent.path.rstrip('/')}/iris-{sandbox_id}"


def process_args(spec: SandboxSpec, config: ImageConfig) -> list[str]:
    """Kubernetes' rule: a command drops the image's entrypoint and cmd, args alone drop its cmd."""
    if spec.command:
        return [*spec.before, *spec.command, *spec.args]
    args = [*config.entrypoint, *(spec.args or config.cmd)]
    if not args:
        raise InvalidSpec(f"image {spec.image} has no entrypoint: give a command")
    return [*spec.before, *args]


def environment(spec: SandboxSpec, config: ImageConfig) -> list[str]:
    """The image's, over a default PATH; the spec's over both; the last of a name wins."""
    merged: dict[str, str] = {}
    for pair in (_DEFAULT_PATH, *config.env):
        name, _, value = pair.partition("=")
        merged[name] = value
    merged.update(spec.env)
    return [f"{name}={value}" for name, value in merged.items()]


def build_spec(
    spec: SandboxSpec,
    config: ImageConfig,
    user: User,
    devices: Sequence[DeviceNode],
    *,
    cgroup_v2: bool,
    node_capabilities: int = EVERY_CAPABILITY,
) -> dict[str, Any]:
    """The whole spec as JSON. Without a network namespace given, network and resolver files are the node's."""
    groups = dict.fromkeys((*user.additional_gids, *spec.supplemental_groups))
    return {
        "ociVersion": "1.2.0",
        "process": {
            "user": {"uid": user.uid, "gid": user.gid, "additionalGids": list(groups)},
            "args": process_args(spec, config),
            "env": environment(spec, config),
            "cwd": spec.working_dir or config.working_dir or "/",
            **process_security(spec, node_capabilities),
            "rlimits": process_limits(devices),
            "oomScoreAdj": spec.oom_score_adj,
        },
        "root": {"path": "rootfs"},
        "hostname": spec.hostname or spec.id[:63],
        "mounts": mounts(spec),
        "annotations": {LOG_PATH_ANNOTATION: str(spec.log_path)},
        "linux": {
            "cgroupsPath": cgroups_path(spec.cgroup, spec.id),
            "namespaces": _namespaces(spec, cgroup_v2),
            "devices": [node.as_oci() for node in devices],
            "resources": resources(spec, devices),
            **kernel_security(spec, node_capabilities),
        },
    }


def _namespaces(spec: SandboxSpec, cgroup_v2: bool) -> list[dict[str, str]]:
    kinds = ["pid", "ipc", "uts", "mount", *(["cgroup"] if cgroup_v2 else [])]
    network = [{"type": "network", "path": spec.network_namespace}] if spec.network_namespace else []
    return [*({"type": kind} for kind in kinds), *network]
