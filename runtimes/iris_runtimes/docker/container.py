"""Between our words and the Engine's: what to create, and what it shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from iris_runtimes.errors import InvalidLimits, NotSupported
from iris_runtimes.protocol import Exit, Sandbox, SandboxSpec, SandboxState

MANAGED_LABEL = "iris.dev/managed"
# Where to write the log: a new agent goes on writing it
LOG_PATH_LABEL = "iris.dev/docker-log-path"
NAME = "docker"
_RDMA_FOLDER = "/dev/infiniband/"
_LEAST_SHARES, _MOST_SHARES = 2, 262_144
_LEAST_MEMORY_BYTES = 6 * 2**20  # the Engine's own


def create_body(spec: SandboxSpec, image: str) -> dict[str, Any]:
    """Body of POST /containers/create. NotSupported names the field that the Engine has no word for."""
    if spec.hugepage_limits_bytes:
        raise NotSupported(NAME, "hugepage_limits_bytes", "the Engine has no such limit")
    if spec.inside:
        raise NotSupported(NAME, "inside", "an exec's log and exit do not outlive the agent")
    if spec.network_namespace:
        raise NotSupported(NAME, "network_namespace", "the Engine joins no namespace by its path")
    body: dict[str, Any] = {
        "Image": image,
        "Env": [f"{name}={value}" for name, value in spec.env],
        "WorkingDir": spec.working_dir,
        "User": _user(spec),
        "Hostname": spec.hostname or spec.id[:63],
        "Labels": {**spec.labels, MANAGED_LABEL: "true", LOG_PATH_LABEL: str(spec.log_path)},
        "HostConfig": _host_config(spec),
    }
    if spec.command:  # Kubernetes' rule: a command drops the image's entrypoint and cmd, args alone drop its cmd
        body |= {"Entrypoint": [*spec.before, *spec.command], "Cmd": list(spec.args)}
    elif spec.args:
        body["Cmd"] = list(spec.args)
    return body


def _user(spec: SandboxSpec) -> str:
    if spec.user is None:
        if spec.group is not None:
            raise NotSupported(NAME, "group", "the Engine takes a group only with a user")
        return ""
    return f"{spec.user}:{spec.group or 0}"


def _host_config(spec: SandboxSpec) -> dict[str, Any]:
    found: dict[str, Any] = {
        "NetworkMode": "host",
        "CpuShares": min(max(_LEAST_SHARES, spec.cpu_request_millicores * 1024 // 1000), _MOST_SHARES),
        "PidsLimit": spec.pids_limit,
        "ShmSize": spec.shm_size_bytes,
        "OomScoreAdj": spec.oom_score_adj,
        "Privileged": spec.privileged,
        "CapAdd": list(spec.add_capabilities),
        "CapDrop": list(spec.drop_capabilities),
        "GroupAdd": [str(one) for one in spec.supplemental_groups],
        "RestartPolicy": {"Name": "no"},
        # kept whole until we have it in our own file
        "LogConfig": {"Type": "json-file", "Config": {}},
        "Mounts": [
            {"Type": "bind", "Source": one.host_path, "Target": one.container_path, "ReadOnly": one.read_only}
            for one in spec.mounts
        ]
        + [
            {
                "Type": "tmpfs",
                "Target": one.container_path,
                "TmpfsOptions": {"SizeBytes": one.size_bytes, "Mode": one.mode},
            }
            for one in spec.tmpfs
        ],
        "Devices": [
            {"PathOnHost": one.host_path, "PathInContainer": one.container_path, "CgroupPermissions": one.permissions}
            for one in spec.devices
        ],
        "DeviceRequests": _device_requests(spec),
    }
    if spec.cgroup.path:
        found["CgroupParent"] = spec.cgroup.path
    if not (spec.privileged or spec.allow_privilege_escalation):
        found["SecurityOpt"] = ["no-new-privileges"]
    if spec.cpu_limit_millicores:
        found["CpuPeriod"] = spec.cpu_period_us
        found["CpuQuota"] = max(1000, spec.cpu_limit_millicores * spec.cpu_period_us // 1000)
    if any(one.container_path.startswith(_RDMA_FOLDER) for one in spec.devices):
        found["Ulimits"] = [{"Name": "memlock", "Soft": -1, "Hard": -1}]
    return found | _memory(spec)


def _memory(spec: SandboxSpec) -> dict[str, int]:
    if not spec.memory_limit_bytes:
        return {}
    if spec.memory_limit_bytes < _LEAST_MEMORY_BYTES:
        raise InvalidLimits(f"a memory limit of {spec.memory_limit_bytes} bytes is below Docker's least, 6 MiB")
    # swap = memory: no swap on top, as the kubelet does
    return {"Memory": spec.memory_limit_bytes, "MemorySwap": spec.memory_limit_bytes}


def _device_requests(spec: SandboxSpec) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []
    if spec.gpus:
        asked.append({"Driver": "nvidia", "DeviceIDs": list(spec.gpus), "Capabilities": [["gpu"]]})
    if spec.cdi_devices:
        asked.append({"Driver": "cdi", "DeviceIDs": list(spec.cdi_devices)})
    return asked


def sandbox_of(found: Mapping[str, Any]) -> Sandbox:
    """Of what GET /containers/ID/json shows."""
    state = found["State"]
    labels = without_own(found["Config"].get("Labels") or {})
    name = str(found["Name"]).lstrip("/")
    status = state["Status"]
    if status == "created":
        return Sandbox(name, labels, SandboxState.CREATED)
    if status in ("exited", "dead"):
        ended = Exit(int(state["ExitCode"]), parse_time(state["FinishedAt"]), bool(state.get("OOMKilled")))
        return Sandbox(name, labels, SandboxState.EXITED, 0, ended)
    return Sandbox(name, labels, SandboxState.RUNNING, int(state.get("Pid") or 0))


def without_own(labels: Mapping[str, str]) -> dict[str, str]:
    """The spec's labels again."""
    return {name: value for name, value in labels.items() if name not in (MANAGED_LABEL, LOG_PATH_LABEL)}


def parse_time(text: str) -> datetime:
    """Go's RFC 3339 with nanoseconds."""
    whole, _, rest = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{rest[:6]:0<6}").replace(tzinfo=UTC)


def digest_of(found: Mapping[str, Any], repository: str) -> str:
    """The registry's digest of an image that GET /images/NAME/json shows; an image that was only built here has its id."""
    digests: Sequence[str] = found.get("RepoDigests") or ()
    own = [one for one in digests if one.partition("@")[0] == repository]
    return (own or list(digests) or [f"@{found['Id']}"])[0].partition("@")[2]
