"""What is written on a sandbox: all an agent needs to know of it after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

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
    labels: Mapping[str, str] = sandbox.labels
    attempt = labels.get(ATTEMPT, "")
    return SandboxFacts(
        task_uid=labels.get(TASK_UID, ""),
        attempt=int(attempt) if attempt.isdigit() else 0,
        worker_uid=labels.get(WORKER_UID, ""),
        image_digest=labels.get(IMAGE_DIGEST, ""),
        gpus=tuple(one for one in labels.get(GPUS, "").split(",") if one),
        log_path=labels.get(LOG_PATH, ""),
        started_at=parse_time(labels.get(STARTED_AT, "")),
        ports=from_label(labels.get(PORTS, "")),
        host_ip=labels.get(HOST_IP, ""),
        note=labels.get(NOTE, ""),
    )


def format_time(moment: datetime) -> str:
    """A label's value."""
    return moment.astimezone(UTC).strftime(_TIME)


def parse_time(text: str) -> datetime | None:
    """A label's value back."""
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def belongs(sandbox: Sandbox, task_uid: str, attempt: int, worker_uid: str) -> bool:
    """Whether it is this attempt's, run by this worker Pod."""
    found = facts(sandbox)
    return sandbox.id == container_id(task_uid, attempt) and found.worker_uid == worker_uid
