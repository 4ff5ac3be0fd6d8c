"""What an agent asks of a runtime. Units are in the names; times are UTC."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol

PullPolicy = Literal["Always", "IfNotPresent", "Never"]


class SandboxState(StrEnum):
    """Where a sandbox is. CREATED: exists, its command was never started."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True)
class RuntimeVersion:
    """Name and version of the runtime."""

    name: str
    version: str


@dataclass(frozen=True)
class Credentials:
    """For a registry."""

    username: str
    password: str


@dataclass(frozen=True)
class PullProgress:
    """Bytes fetched of those known so far."""

    done_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Image:
    """A pulled image: the reference asked for and the digest it stands for now."""

    reference: str
    digest: str


@dataclass(frozen=True)
class Device:
    """A host device for a sandbox. `permissions`: of r, w, m."""

    host_path: str
    container_path: str
    permissions: str = "rw"


@dataclass(frozen=True)
class Mount:
    """A bind mount."""

    host_path: str
    container_path: str
    read_only: bool = False


@dataclass(frozen=True)
class CgroupParent:
    """Where sandboxes' cgroups go. cgroupfs: a path; systemd: a slice's name."""

    path: str
    systemd: bool = False


@dataclass(frozen=True)
class PodContext:
    """What the agent's own container was given: the Pod's cgroup, its devices and environment."""

    cgroup: CgroupParent
    devices: tuple[Device, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    image_registry: str = ""


@dataclass(frozen=True)
class SandboxSpec:
    """A command in an image. Empty `command` or `args`: the image's own. Network is the node's."""

    id: str
    image: str
    log_path: Path
    cgroup: CgroupParent
    labels: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    env: Sequence[tuple[str, str]] = ()
    working_dir: str = ""
    user: int | None = None
    group: int | None = None
    cpu_request_millicores: int = 0
    cpu_limit_millicores: int | None = None
    memory_limit_bytes: int | None = None
    pids_limit: int = 32768
    devices: Sequence[Device] = ()
    mounts: Sequence[Mount] = ()
    oom_score_adj: int = 500
    hostname: str = ""


@dataclass(frozen=True)
class Exit:
    """How a command ended. `exit_code` is 128 plus the signal's number when a signal ended it.

    `lost`: nobody saw it end (its shim was killed, the node rebooted, it ended while the runtime was away). Then
    `exit_code` is 255 and `exited_at` its last sign of life: the platform's fault, not the command's.
    """

    exit_code: int
    exited_at: datetime
    oom_killed: bool = False
    memory_peak_bytes: int | None = None
    lost: bool = False


@dataclass(frozen=True)
class Sandbox:
    """A sandbox as observed. `exit` only when EXITED; from `list` it lacks the memory's facts, ask `get` for those."""

    id: str
    labels: Mapping[str, str]
    state: SandboxState
    pid: int = 0
    exit: Exit | None = None


@dataclass(frozen=True)
class Exited:
    """Event: the command of a sandbox ended. Ask `get` for the rest."""

    id: str


class Runtime(Protocol):
    """A container runtime of a node. All calls raise errors.RuntimeFault subclasses, RuntimeUnavailable when it is gone."""

    async def version(self) -> RuntimeVersion:
        """Also the liveness check."""
        ...

    async def pod_context(self, pod_uid: str) -> PodContext:
        """What the Pod of that UID, whose container we run in, was given."""
        ...

    async def pull(
        self,
        reference: str,
        policy: PullPolicy = "IfNotPresent",
        credentials: Sequence[Credentials] = (),
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> Image:
        """The image, fetched when the policy wants it. Credentials are tried in order; none: anonymous."""
        ...

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """Make and start. Idempotent by id: one that runs or has exited is returned as it is, a half-made one is finished."""
        ...

    async def list(self) -> list[Sandbox]:
        """All sandboxes of Iris on this node."""
        ...

    async def get(self, sandbox_id: str) -> Sandbox:
        """One sandbox, with how it ended."""
        ...

    async def wait(self, sandbox_id: str) -> Exit:
        """How its command ended, once it has. SandboxNotFound when it is gone or was never started."""
        ...

    async def signal(self, sandbox_id: str, signal: int, *, everyone: bool = False) -> None:
        """Signal the command, or every process of the sandbox. One that has exited is no error."""
        ...

    async def remove(self, sandbox_id: str) -> None:
        """Kill what runs and remove everything but the log. Done already is success, from any half-made state."""
        ...

    def events(self) -> AsyncGenerator[Exited, None]:
        """Exits: of the sandboxes that have ended already, then as they come; none is missed, some may come twice.

        Ends with RuntimeUnavailable; then subscribe again.
        """
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...
