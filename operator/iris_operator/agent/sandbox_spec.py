"""From a bound Task to the sandbox to make. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from iris_operator.agent import labels
from iris_operator.agent.gpus import Grant
from iris_operator.api.cluster import Defaults
from iris_operator.api.names import container_id
from iris_operator.api.quantity import amounts
from iris_operator.api.task import Task
from iris_operator.plan.task_requests import task_requests
from iris_runtimes.errors import InvalidSpec
from iris_runtimes.protocol import CgroupParent, Mount, SandboxSpec

# runc refuses less: its own start-up needs some megabytes.
_LEAST_MEMORY_BYTES = 6 * 2**20


@dataclass(frozen=True)
class Place:
    """What of a sandbox comes from its worker, not from its Task."""

    slice_name: str
    node_name: str
    worker_uid: str
    cgroup: CgroupParent
    mounts: tuple[Mount, ...] = ()


def sandbox_spec(
    task: Task, place: Place, grant: Grant, image_digest: str, log_path: Path, now: datetime
) -> SandboxSpec:
    """The sandbox of a bound Task's attempt. InvalidSpec when a quantity can't be honoured."""
    binding = task.spec.binding
    assert binding is not None
    limits = _limits(task)
    uid = task.metadata.uid
    return SandboxSpec(
        id=container_id(uid, binding.attempt),
        image=task.spec.image,
        log_path=log_path,
        cgroup=place.cgroup,
        labels={
            labels.TASK_UID: uid,
            labels.TASK_NAME: task.metadata.name,
            labels.TASK_NAMESPACE: task.metadata.namespace,
            labels.ATTEMPT: str(binding.attempt),
            labels.WORKER_UID: place.worker_uid,
            labels.IMAGE_DIGEST: image_digest,
            labels.GPUS: ",".join(grant.gpus),
            labels.STARTED_AT: labels.format_time(now),
            labels.LOG_PATH: str(log_path),
        },
        command=task.spec.command,
        args=task.spec.args,
        env=_environment(task, place, grant),
        working_dir=task.spec.working_dir,
        user=task.spec.security_context.run_as_user,
        group=task.spec.security_context.run_as_group,
        cpu_request_millicores=task_requests(task, Defaults()).get("cpu", 0),
        cpu_limit_millicores=limits.get("cpu"),
        memory_limit_bytes=limits.get("memory"),
        devices=grant.devices,
        mounts=place.mounts,
        hostname=place.node_name.split(".", 1)[0][:63],
    )


def _limits(task: Task) -> dict[str, int]:
    limits = amounts(task.spec.resources.limits)
    memory = limits.get("memory")
    if memory is not None and memory < _LEAST_MEMORY_BYTES:
        written = task.spec.resources.limits["memory"]
        raise InvalidSpec(f"memory limit {written} is below the least that a container starts with, 6Mi")
    return limits


def _environment(task: Task, place: Place, grant: Grant) -> list[tuple[str, str]]:
    """The Task's own, and over it what Iris says: a command may rely on the latter."""
    binding = task.spec.binding
    assert binding is not None
    return [
        *((one.name, one.value) for one in task.spec.env),
        ("IRIS_TASK_NAME", task.metadata.name),
        ("IRIS_TASK_NAMESPACE", task.metadata.namespace),
        ("IRIS_TASK_UID", task.metadata.uid),
        ("IRIS_ATTEMPT", str(binding.attempt)),
        ("IRIS_SLICE", binding.slice_name),
        ("IRIS_RANK", str(binding.rank)),
        ("IRIS_NODE_NAME", place.node_name),
        ("NVIDIA_VISIBLE_DEVICES", ",".join(grant.gpus) or "void"),
    ]
