"""From a bound Task to the sandbox to make. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from iris_operator.agent.causes import stop_signal
from iris_operator.agent.inputs.model import NO_INPUTS, Inputs
from iris_operator.agent.node.gpus import Grant
from iris_operator.agent.node.ports import to_label, variables
from iris_operator.agent.sandbox import labels
from iris_operator.agent.sandbox.members import member_variables
from iris_operator.api.cluster import Defaults
from iris_operator.api.names import container_id
from iris_operator.api.quantity import amount, amounts
from iris_operator.api.task import Task
from iris_operator.plan.tasks.requests import task_requests
from iris_runtimes.errors import InvalidLimits, InvalidSpec
from iris_runtimes.protocol import CgroupParent, Mount, SandboxSpec

# runc refuses less: its own start-up needs some megabytes.
_LEAST_MEMORY_BYTES = 6 * 2**20
_PIDS = 32768
_HUGEPAGES = "hugepages-"
_SHM_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Place:
    """What of a sandbox comes from its worker, not from its Task. `network_namespace`: a path; empty: the node's."""

    slice_name: str
    node_name: str
    worker_uid: str
    cgroup: CgroupParent
    mounts: tuple[Mount, ...] = ()
    host_ip: str = ""
    network_namespace: str = ""


def sandbox_spec(
    task: Task,
    place: Place,
    grant: Grant,
    image_digest: str,
    log_path: Path,
    now: datetime,
    inputs: Inputs | None = None,
) -> SandboxSpec:
    """The sandbox of a bound Task's attempt. InvalidSpec when a quantity can't be honoured."""
    binding = task.spec.binding
    assert binding is not None
    given = inputs or NO_INPUTS
    limits, security = _limits(task), task.spec.security_context
    stop_signal(task)  # now, not when it is needed
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
            labels.HOST_IP: place.host_ip,
            **({labels.PORTS: to_label(grant.ports)} if grant.ports else {}),
        },
        command=task.spec.command,
        args=task.spec.args,
        env=_environment(task, place, grant, given),
        working_dir=task.spec.working_dir,
        user=security.run_as_user,
        group=security.run_as_group,
        supplemental_groups=security.supplemental_groups,
        cpu_request_millicores=task_requests(task, Defaults()).get("cpu", 0),
        cpu_limit_millicores=limits.get("cpu"),
        memory_limit_bytes=limits.get("memory"),
        pids_limit=task.spec.resources.pids or _PIDS,
        hugepage_limits_bytes=_hugepages(limits),
        shm_size_bytes=_shm_size(task),
        devices=grant.devices,
        gpus=grant.gpus,
        gpu_devices=grant.gpu_devices,
        mounts=(*place.mounts, *given.mounts),
        tmpfs=given.tmpfs,
        network_namespace=place.network_namespace,
        hostname=place.node_name.split(".", 1)[0][:63],
        privileged=security.privileged,
        allow_privilege_escalation=security.allow_privilege_escalation,
        add_capabilities=security.capabilities.add,
        drop_capabilities=security.capabilities.drop,
    )


def _limits(task: Task) -> dict[str, int]:
    limits = amounts(task.spec.resources.limits)
    memory = limits.get("memory")
    if memory is not None and memory < _LEAST_MEMORY_BYTES:
        written = task.spec.resources.limits["memory"]
        raise InvalidSpec(f"memory limit {written} is below the least that a container starts with, 6Mi")
    return limits


def _hugepages(limits: Mapping[str, int]) -> dict[int, int]:
    """`hugepages-2Mi: 64Mi` as page size in bytes -> bytes."""
    found = {}
    for name, limit in limits.items():
        if name.startswith(_HUGEPAGES):
            try:
                found[amount("memory", name.removeprefix(_HUGEPAGES))] = limit
            except ValueError:
                raise InvalidLimits(f"limit {name} names no size of huge pages, such as hugepages-2Mi") from None
    return found


def _shm_size(task: Task) -> int:
    written = task.spec.resources.shm_size
    return _SHM_BYTES if written is None else amount("memory", written)


def _environment(task: Task, place: Place, grant: Grant, inputs: Inputs) -> list[tuple[str, str]]:
    """The Task's own, and over it what Iris says: a command may rely on the latter."""
    binding = task.spec.binding
    assert binding is not None
    return [
        *inputs.env,
        ("IRIS_TASK_NAME", task.metadata.name),
        ("IRIS_TASK_NAMESPACE", task.metadata.namespace),
        ("IRIS_TASK_UID", task.metadata.uid),
        ("IRIS_ATTEMPT", str(binding.attempt)),
        ("IRIS_SLICE", binding.slice_name),
        *member_variables(binding),
        ("IRIS_NODE_NAME", place.node_name),
        ("IRIS_HOST_IP", place.host_ip),
        *variables(grant.ports),
        ("NVIDIA_VISIBLE_DEVICES", ",".join(grant.gpus) or "void"),
    ]
