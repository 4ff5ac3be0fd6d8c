"""Task: a user's command in a container, placed on a slice and run by its agent."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from iris_operator.api.base import Conditions, LocalObjectReference, Model, Quantity, Resource, Time


class TaskPhase(StrEnum):
    """Where a Task is in its life."""

    PENDING = "Pending"
    BUILDING = "Building"  # bound; its image is being pulled
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    KILLED = "Killed"  # stopped by Iris or a person: its deletion, or its slice's
    WORKER_LOST = "WorkerLost"  # its worker or node is gone: not the command's fault

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self in (TaskPhase.SUCCEEDED, TaskPhase.FAILED, TaskPhase.KILLED, TaskPhase.WORKER_LOST)


class EnvVar(Model):
    """One environment variable."""

    name: Annotated[
        str, Field(min_length=1, max_length=1024, pattern=r"^[^=\x00]+$", description="Name of the variable.")
    ]
    value: Annotated[str, Field(max_length=131072, description="Its value, taken literally.")] = ""


class ResourceRequirements(Model):
    """What a Task is counted with and bounded by."""

    requests: Annotated[
        dict[str, Quantity],
        Field(
            max_length=16,
            description="What the scheduler counts: cpu, memory, nvidia.com/gpu ... to quantity. What is left out is taken from limits, then from the cluster's defaults.",
        ),
    ] = Field(default_factory=dict)
    limits: Annotated[
        dict[str, Quantity],
        Field(
            max_length=16,
            description="What the container can't exceed: cpu and memory. GPUs are whole devices: request and limit are one.",
        ),
    ] = Field(default_factory=dict)


class SecurityContext(Model):
    """Who the command runs as."""

    run_as_user: Annotated[
        int | None, Field(ge=0, le=2147483647, description="User id of the command. Absent: the image's.")
    ] = None
    run_as_group: Annotated[
        int | None, Field(ge=0, le=2147483647, description="Group id of the command. Absent: the image's.")
    ] = None


class Placement(Model):
    """Where a Task may run; empty fields don't restrict."""

    slice_name: Annotated[str, Field(max_length=253, description="Only on this Slice.")] = ""
    scale_group_name: Annotated[str, Field(max_length=253, description="Only on slices of this ScaleGroup.")] = ""


class Binding(Model):
    """Where an attempt of a Task runs. Written by the operator only."""

    slice_name: Annotated[str, Field(min_length=1, description="Slice it was placed on.")]
    node_name: Annotated[str, Field(min_length=1, description="Node of that slice.")]
    worker_pod: Annotated[str, Field(min_length=1, description="Worker Pod whose agent runs it.")]
    worker_uid: Annotated[
        str, Field(min_length=1, description="UID of that Pod: a Pod of the same name made later is not it.")
    ]
    rank: Annotated[int, Field(ge=0, description="The node's rank in the slice.")]
    attempt: Annotated[int, Field(ge=1, description="Which attempt this is, from 1.")]
    bound_at: Annotated[Time, Field(description="When it was placed.")]
    stop_reason: Annotated[
        str,
        Field(
            description="Set to have the agent end this attempt, within its grace period: why, such as SliceDeleted."
        ),
    ] = ""


class RetryPolicy(Model):
    """How often a Task is run again, by whose fault it ended."""

    infrastructure: Annotated[
        int,
        Field(
            ge=0,
            le=1000,
            description="Retries when the node or its worker was lost. A slice's drain or deletion costs none: the Task is placed elsewhere.",
        ),
    ] = 10


class TaskSpec(Model):
    """The command that is wanted. Immutable."""

    cluster_name: Annotated[
        str,
        Field(
            max_length=253,
            description="IrisCluster, in the same namespace, whose settings apply. Empty: the only one there, or the one named default.",
        ),
    ] = ""
    image: Annotated[
        str,
        Field(
            min_length=1,
            max_length=1024,
            pattern=r"^\S+$",
            description="Container image to run, by tag or digest.",
        ),
    ]
    image_pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"], Field(description="When the node pulls the image.")
    ] = "IfNotPresent"
    image_pull_secrets: Annotated[
        list[LocalObjectReference],
        Field(
            max_length=16,
            description="Secrets of type kubernetes.io/dockerconfigjson to pull with, tried in order.",
        ),
    ] = Field(default_factory=list)
    command: Annotated[
        list[str], Field(max_length=1024, description="Replaces the image's entrypoint. Not run in a shell.")
    ] = Field(default_factory=list)
    args: Annotated[
        list[str], Field(max_length=4096, description="Arguments of the entrypoint; replaces the image's.")
    ] = Field(default_factory=list)
    env: Annotated[
        list[EnvVar],
        Field(
            max_length=1024,
            description="Environment of the command, over the image's.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    working_dir: Annotated[
        str,
        Field(
            max_length=4096,
            pattern=r"^(/.*)?$",
            description="Directory the command starts in, absolute. Empty: the image's.",
        ),
    ] = ""
    resources: Annotated[ResourceRequirements, Field(description="What it is counted with and bounded by.")] = (
        ResourceRequirements()
    )
    security_context: Annotated[SecurityContext, Field(description="Who the command runs as.")] = SecurityContext()
    placement: Annotated[Placement, Field(description="Where it may run.")] = Placement()
    termination_grace_period_seconds: Annotated[
        int, Field(ge=0, le=86400, description="Between SIGTERM and SIGKILL when it is stopped.")
    ] = 30
    retry_policy: Annotated[RetryPolicy, Field(description="How often it is run again, by whose fault it ended.")] = (
        RetryPolicy()
    )
    binding: Annotated[Binding | None, Field(description="Where it runs. Written by the operator only.")] = None


class Attempt(Model):
    """One attempt that is over and was followed, or will be, by another."""

    attempt: Annotated[int, Field(ge=1, description="Which attempt, from 1.")]
    reason: Annotated[str, Field(description="Why it ended, as one CamelCase word.")]
    message: Annotated[str, Field(description="Why it ended, for people.")] = ""
    charged: Annotated[bool, Field(description="Whether it counts against retryPolicy.infrastructure.")] = True
    slice_name: Annotated[str, Field(description="Slice it ran on.")] = ""
    node_name: Annotated[str, Field(description="Node it ran on.")] = ""
    log_path: Annotated[str, Field(description="Its log on that node.")] = ""
    start_time: Annotated[Time | None, Field(description="When its command started; absent when it never did.")] = None
    finish_time: Annotated[Time | None, Field(description="When it ended.")] = None
    exit_code: Annotated[int | None, Field(description="Its exit code, when it had one.")] = None


class TaskStatus(Model):
    """What the agent and the operator see of the Task."""

    observed_generation: Annotated[int | None, Field(description="The metadata.generation these facts belong to.")] = (
        None
    )
    phase: Annotated[TaskPhase | None, Field(description="Where the Task is in its life.")] = None
    reason: Annotated[
        str,
        Field(description="Why, as one CamelCase word: Completed, Error, OOMKilled, InsufficientResources ..."),
    ] = ""
    message: Annotated[str, Field(description="Why, for people, with the numbers.")] = ""
    conditions: Conditions = Field(default_factory=list)
    attempt: Annotated[int | None, Field(ge=1, description="The attempt these facts are of.")] = None
    retries: Annotated[int, Field(ge=0, description="Retries charged to retryPolicy.infrastructure.")] = 0
    ended_attempt: Annotated[
        int | None, Field(ge=1, description="The last attempt that is over, whether or not another follows.")
    ] = None
    attempts: Annotated[list[Attempt], Field(max_length=10, description="Earlier attempts, newest first.")] = Field(
        default_factory=list
    )
    node_name: Annotated[str, Field(description="Node it ran on.")] = ""
    image_digest: Annotated[str, Field(description="Digest of the image that was run.")] = ""
    container_id: Annotated[str, Field(description="Containerd container, in namespace iris of the node.")] = ""
    log_path: Annotated[str, Field(description="Log on the node; iris logs shows it.")] = ""
    start_time: Annotated[Time | None, Field(description="When the command started.")] = None
    finish_time: Annotated[Time | None, Field(description="When it ended.")] = None
    exit_code: Annotated[
        int | None, Field(description="Its exit code; 128 plus the signal's number when a signal ended it.")
    ] = None


_IMMUTABLE = "a Task's spec can't be changed: delete it and make another"
_EXCEPT_BINDING = " && ".join(
    f"(has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field}))"
    for field in (
        "clusterName", "image", "imagePullPolicy", "imagePullSecrets", "command", "args", "env", "workingDir",
        "resources", "securityContext", "placement", "terminationGracePeriodSeconds", "retryPolicy",
    )
)  # fmt: skip
# 2 and "2" are one number: quantities may be written either way.
_GPU_WHOLE = " && ".join(
    f"(!has(self.resources) || !has(self.resources.{part}) || !('nvidia.com/gpu' in self.resources.{part}) || "
    f"string(self.resources.{part}['nvidia.com/gpu']).matches('^[0-9]+$'))"
    for part in ("requests", "limits")
)
_GPU_SAME = (
    "!has(self.resources) || !has(self.resources.requests) || !('nvidia.com/gpu' in self.resources.requests) || "
    "!has(self.resources.limits) || !('nvidia.com/gpu' in self.resources.limits) || "
    "string(self.resources.requests['nvidia.com/gpu']) == string(self.resources.limits['nvidia.com/gpu'])"
)


class Task(Resource):
    """A user's command in a container: placed on a slice, run by the node agent as a containerd sandbox."""

    KIND: ClassVar[str] = "Task"
    PLURAL: ClassVar[str] = "tasks"

    spec: Annotated[
        TaskSpec,
        Field(
            description="The command that is wanted.",
            json_schema_extra={
                "x-kubernetes-validations": [
                    {"rule": _EXCEPT_BINDING, "message": _IMMUTABLE},
                    {
                        "rule": _GPU_WHOLE,
                        "fieldPath": ".resources",
                        "message": "nvidia.com/gpu is not a whole number: GPUs are whole devices, such as 1 or 8",
                    },
                    {
                        "rule": _GPU_SAME,
                        "fieldPath": ".resources",
                        "message": "nvidia.com/gpu in requests and limits differ: GPUs are whole devices, set just limits",
                    },
                ]
            },
        ),
    ]
    status: Annotated[TaskStatus, Field(description="What the agent and the operator see of it.")] = TaskStatus()

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status.phase is not None and self.status.phase.ended
