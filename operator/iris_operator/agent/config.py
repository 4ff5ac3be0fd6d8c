"""What the worker Pod tells its agent, by environment variables that the operator's manifest sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from iris_operator.api.names import CACHE_DIR, STREAM_PORT, WORKER_PORT

DEFAULT_SOCKET = "/run/containerd/containerd.sock"


class ConfigError(Exception):
    """The environment is incomplete; the message names the variables."""


@dataclass(frozen=True)
class AgentConfig:
    """Who this agent is, and where things are on its node.

    `host_ip`: the address that it and its Tasks are reached at; without `host_network` it is the worker Pod's own.
    `images_dir`: a folder on the file system of the runtime's images; in a Pod its own root is one. `outside`: it runs in no
    Pod: see agent/node/outside.
    """

    node_name: str
    pod_name: str
    pod_namespace: str
    pod_uid: str
    host_ip: str
    slice_name: str
    rank: int
    port: int = WORKER_PORT
    stream_port: int = STREAM_PORT
    containerd_socket: str = DEFAULT_SOCKET
    cache_dir: Path = Path(CACHE_DIR)
    image_registry: str = ""
    cluster_name: str = ""
    busybox: Path = Path("/usr/libexec/iris/busybox")
    images_dir: Path = Path("/")
    runtime: str = "containerd"
    outside: bool = False
    host_network: bool = True

    @property
    def logs_dir(self) -> Path:
        """Folder with one folder per Task uid."""
        return self.cache_dir / "logs"

    def log_path(self, task_uid: str, attempt: int) -> Path:
        """Where one attempt's output goes."""
        return self.logs_dir / task_uid / str(attempt) / "output.log"


_REQUIRED = ("NODE_NAME", "POD_NAME", "POD_NAMESPACE", "POD_UID", "IRIS_SLICE", "IRIS_RANK")


def from_environment(env: Mapping[str, str]) -> AgentConfig:
    """The configuration. ConfigError names all that is missing or is no number."""
    missing = [name for name in _REQUIRED if not env.get(name)]
    if missing:
        raise ConfigError(
            f"not set: {', '.join(missing)}. iris-agent runs in a worker Pod, whose manifest sets these; "
            "elsewhere, set them by hand"
        )
    return AgentConfig(
        node_name=env["NODE_NAME"],
        pod_name=env["POD_NAME"],
        pod_namespace=env["POD_NAMESPACE"],
        pod_uid=env["POD_UID"],
        host_ip=env.get("HOST_IP", ""),
        slice_name=env["IRIS_SLICE"],
        rank=_number(env, "IRIS_RANK", 0),
        port=_number(env, "IRIS_PORT", WORKER_PORT),
        stream_port=_number(env, "IRIS_STREAM_PORT", STREAM_PORT),
        containerd_socket=env.get("IRIS_CONTAINERD_SOCKET") or DEFAULT_SOCKET,
        cache_dir=Path(env.get("IRIS_CACHE_DIR") or CACHE_DIR),
        image_registry=env.get("IRIS_DEFAULT_REGISTRY", ""),
        cluster_name=env.get("IRIS_CLUSTER", ""),
        busybox=Path(env.get("IRIS_BUSYBOX") or AgentConfig.busybox),
        images_dir=Path(env.get("IRIS_IMAGES_DIR") or "/"),
        runtime=env.get("IRIS_RUNTIME") or "containerd",
        outside=bool(env.get("IRIS_OUTSIDE")),
        host_network=env.get("IRIS_HOST_NETWORK", "true") == "true",  # a Pod made by an older operator doesn't say
    )


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name) or str(default)
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{name} is {text!r}, not a whole number") from None
