"""What an agent asks of a runtime. Units are in the names; times are UTC."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol

from iris_runtimes.execution import ExecRequest, ExecSession, Stats

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
class StoredImage:
    """An image on the node. `reference` is its full name.

    `size_bytes`: compressed and unpacked together; layers that images share count for each. `in_use`: a sandbox stands on
    it, running or not.
    """

    reference: str
    digest: str
    size_bytes: int
    last_used: datetime
    in_use: bool = False


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
class Tmpfs:
    """Memory as a directory; counts as the sandbox's memory. `mode` is octal, as chmod's."""

    container_path: str
    size_bytes: int
    mode: int = 0o1777


@dataclass(frozen=True)
class CgroupParent:
    """Where sandboxes' cgroups go. cgroupfs: a path; systemd: a slice's name."""

    path: str
    systemd: bool = False


@dataclass(frozen=True)
class PodContext:
    """What the agent's own container was given: the Pod's cgroup, its devices, environment and mounts.

    `network_namespace`: the Pod's, as a path on the node; empty where the runtime can't tell.
    """

    cgroup: CgroupParent
    devices: tuple[Device, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    image_registry: str = ""
    mounts: tuple[Mount, ...] = ()
    network_namespace: str = ""


@dataclass(frozen=True)
class SandboxSpec:
    """A command in an image. Empty `command` or `args`: the image's own. `before`: words put before what results, so
    whatever these name is started, with the command as its arguments.

    `gpus`: ids or indices, brought in with their driver's libraries by CDI, else by the NVIDIA runtime; where the node has
    neither, as bare `gpu_devices`: their own nodes, in the same order, then those that all GPUs share. `cdi_devices`: full
    names, `vendor.com/class=name`. `hugepage_limits_bytes`: page size in bytes -> bytes. Capabilities are written with or
    without CAP_, `ALL` is all of them. `network_namespace`: a path such as /proc/PID/ns/net; empty: the node's.

    `inside`: the id of another, running sandbox, in which this one is a process of its own: with its own log, exit and
    signals, in the other's files, limits and devices, and with its environment, directory and user where this spec says
    nothing. Of the rest only `id`, `image`, `labels`, `log_path`, `command` and `args` are looked at. It ends, and goes, with
    the other.
    """

    id: str
    image: str
    log_path: Path
    cgroup: CgroupParent
    labels: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    before: Sequence[str] = ()
    env: Sequence[tuple[str, str]] = ()
    working_dir: str = ""
    user: int | None = None
    group: int | None = None
    supplemental_groups: Sequence[int] = ()
    cpu_request_millicores: int = 0
    cpu_limit_millicores: int | None = None
    cpu_period_us: int = 100_000
    memory_limit_bytes: int | None = None
    pids_limit: int = 32768
    hugepage_limits_bytes: Mapping[int, int] = field(default_factory=dict)
    shm_size_bytes: int = 64 * 2**20
    devices: Sequence[Device] = ()
    cdi_devices: Sequence[str] = ()
    gpus: Sequence[str] = ()
    gpu_devices: Sequence[Device] = ()
    mounts: Sequence[Mount] = ()
    tmpfs: Sequence[Tmpfs] = ()
    oom_score_adj: int = 500
    hostname: str = ""
    network_namespace: str = ""
    privileged: bool = False
    allow_privilege_escalation: bool = False
    add_capabilities: Sequence[str] = ()
    drop_capabilities: Sequence[str] = ()
    inside: str = ""


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

    async def gpu_way(self, gpus: Sequence[str], devices: Sequence[Device]) -> str:
        """How sandboxes get these GPUs here, in words for people. `devices` as SandboxSpec.gpu_devices. NodeFault: they can't."""
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

    async def present(self, reference: str) -> Image | None:
        """The image if it is on the node, ready to start from; asks no registry."""
        ...

    async def images(self) -> list[StoredImage]:
        """The images of Iris on this node."""
        ...

    async def remove_image(self, reference: str, unused_since: datetime | None = None) -> None:
        """Remove it and what only it holds. Gone already is success. ImageInUse when a sandbox stands on it, when one is
        just being started, or when it was used after `unused_since`."""
        ...

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """Make and start. Idempotent by id: one that runs or has exited is returned as it is, a half-made one is finished.

        Inside another: SandboxNotFound when that is not there, SandboxNotRunning when it does not run.
        """
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

    async def execute(self, sandbox_id: str, request: ExecRequest) -> ExecSession:
        """Run a command in a running sandbox. SandboxNotRunning, CommandNotFound, CommandNotExecutable."""
        ...

    async def stats(self, sandbox_id: str) -> Stats:
        """What a running sandbox uses; of one inside another, what the other uses. SandboxNotRunning when it does not run."""
        ...

    async def remove(self, sandbox_id: str) -> None:
        """Kill what runs and remove everything but the log. Done already is success, from any half-made state.

        What is inside it goes with it.
        """
        ...

    def events(self) -> AsyncGenerator[Exited, None]:
        """Exits: of the sandboxes that have ended already, then as they come; none is missed, some may come twice.

        Ends with RuntimeUnavailable; then subscribe again.
        """
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...
