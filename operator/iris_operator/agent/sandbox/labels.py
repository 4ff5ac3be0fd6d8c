"""What is written on a sandbox: all an agent needs to know of it after a restart."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from iris_operator.agent.node.ports import from_label
from iris_operator.api.names import container_id
from iris_operator.api.probe import PortStatus
from iris_runtimes.protocol import Sandbox

TASK_UID = "iris.dev/task-uid"
TASK_NAME = "iris.dev/task-name"
TASK_NAMESPACE = "iris.dev/task-namespace"
ATTEMPT = "iris.dev/attempt"
WORKER_UID = "iris.dev/worker-uid"
IMAGE_DIGEST = "iris.dev/image-digest"
GPUS = "iris.dev/gpus"
STARTED_AT = "iris.dev/started-at"
LOG_PATH = "iris.dev/log-path"
PORTS = "iris.dev/ports"
HOST_IP = "iris.dev/host-ip"
NOTE = "iris.dev/note"  # what a person may want to know of how it runs

_READ = (TASK_UID, ATTEMPT, WORKER_UID, IMAGE_DIGEST, GPUS, LOG_PATH, STARTED_AT, PORTS, HOST_IP, NOTE)
_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


@dataclass(frozen=True)
class SandboxFacts:
    """A sandbox's labels, read. `started_at` is the moment before its start; None when unreadable."""

    task_uid: str
    attempt: int
    worker_uid: str
    image_digest: str
    gpus: tuple[str, ...]
    log_path: str
    started_at: datetime | None
    ports: tuple[PortStatus, ...] = ()
    host_ip: str = ""
    note: str = ""


def facts(sandbox: Sandbox) -> SandboxFacts:
    """Read the labels; what is missing is empty, so that a foreign sandbox matches no Task."""
    return _read(*map(sandbox.labels.get, _READ))


# Asked for a dozen times in a Task's life, and of every sandbox at each start. As many as a node can have, twice.
@lru_cache(maxsize=1024)
def _read(
    task_uid: str | None,
    attempt: str | None,
    worker_uid: str | None,
    image_digest: str | None,
    gpus: str | None,
    log_path: str | None,
    started_at: str | None,
    ports: str | None,
    host_ip: str | None,
    note: str | None,
) -> SandboxFacts:
    """From the values of `_READ`."""
    return SandboxFacts(
        task_uid=task_uid or "",
        attempt=int(attempt) if attempt and attempt.isdigit() else 0,
        worker_uid=worker_uid or "",
        image_digest=image_digest or "",
        gpus=tuple(one for one in (gpus or "").split(",") if one),
        log_path=log_path or "",
        started_at=parse_time(started_at or ""),
        ports=from_label(ports or ""),
        host_ip=host_ip or "",
        note=note or "",
    )


def format_time(moment: datetime) -> str:
    """A label's value."""
    return moment.astimezone(UTC).strftime(_TIME)


def parse_time(text: str) -> datetime | None:
    """A label's value back."""
    try:
        return datetime.fromisoformat(text) if text.endswith("Z") else None
    except ValueError:
        return None


def belongs(sandbox: Sandbox, task_uid: str, attempt: int, worker_uid: str) -> bool:
    """Whether it is this attempt's, run by this worker Pod."""
    found = facts(sandbox)
    return sandbox.id == container_id(task_uid, attempt) and found.worker_uid == worker_uid
