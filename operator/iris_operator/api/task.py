"""Task: a user's command in a container, placed on a slice and run by its agent."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from iris_operator.api.base import Conditions, LocalObjectReference, Model, Quantity, Resource, Time
from iris_operator.api.env import EnvFromSource, EnvVar
from iris_operator.api.life import Cause, ContainerLifetime, Retries, RetryPolicy, SetupCommand, TaskTimeouts
from iris_operator.api.member import MAX_REPLICAS, ContainerSeen, MemberBinding
from iris_operator.api.probe import ContainerPort, Lifecycle, PortStatus, Probe
from iris_operator.api.rules import rules
from iris_operator.api.task_rules import RESOURCE_RULES, TASK_RULES
from iris_operator.api.volume import Bundle, Volume, VolumeMount


class TaskPhase(StrEnum):
    """Where a Task is in its life."""

    PENDING = "Pending"
    ASSIGNED = "Assigned"  # bound; its agent has not begun yet
    BUILDING = "Building"  # its image and inputs are brought, its set-up runs
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    KILLED = "Killed"  # stopped by Iris or a person: its deletion, or its slice's
    PREEMPTED = "Preempted"  # its place was taken back more often than its retry policy allows
    WORKER_LOST = "WorkerLost"  # its worker or node is gone: not the command's fault

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self in _ENDED


_ENDED = frozenset(
    (TaskPhase.SUCCEEDED, TaskPhase.FAILED, TaskPhase.KILLED, TaskPhase.PREEMPTED, TaskPhase.WORKER_LOST)
)


class ResourceRequirements(Model):
    """What a Task is counted with and bounded by."""

    model_config = rules(*RESOURCE_RULES)

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
            description="What the container can't exceed: cpu, memory, hugepages-2Mi and the like. GPUs are whole devices: request and limit are one.",
        ),
    ] = Field(default_factory=dict)
    pids: Annotated[int | None, Field(ge=1, le=4194304, description="Most processes and threads. Absent: 32768.")] = (
        None
    )
    shm_size: Annotated[Quantity | None, Field(description="Size of /dev/shm. Absent: 64Mi.")] = None


_CAPABILITY = Annotated[str, Field(max_length=32, pattern=r"^[A-Z][A-Z_]*$")]


class Capabilities(Model):
    """Linux capabilities, without CAP_, or ALL."""

    add: Annotated[
        list[_CAPABILITY],
        Field(max_length=48, description="Added; only those that IrisCluster spec.policy.allowedCapabilities names."),
    ] = Field(default_factory=list)
    drop: Annotated[list[_CAPABILITY], Field(max_length=48, description="Taken away.")] = Field(default_factory=list)


class SecurityContext(Model):
    """Who the command runs as."""

    run_as_user: Annotated[
        int | None, Field(ge=0, le=2147483647, description="User id of the command. Absent: the image's.")
    ] = None
    run_as_group: Annotated[
        int | None, Field(ge=0, le=2147483647, description="Group id of the command. Absent: the image's.")
    ] = None
    supplemental_groups: Annotated[
        list[Annotated[int, Field(ge=0, le=2147483647)]],
        Field(max_length=64, description="More groups of the command."),
    ] = Field(default_factory=list)
    privileged: Annotated[
        bool,
        Field(
            description="All devices and capabilities of the node; only where IrisCluster spec.policy.allowPrivileged."
        ),
    ] = False
    allow_privilege_escalation: Annotated[bool, Field(description="Whether set-uid programs work, such as sudo.")] = (
        False
    )
    capabilities: Annotated[Capabilities, Field(description="Linux capabilities beside the usual ones.")] = (
        Capabilities()
    )


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
    stop_for: Annotated[
        str,
        Field(description="With stopReason Preempted: name of the Task, in the same namespace, that needs its place."),
    ] = ""
    member: Annotated[
        MemberBinding | None,
        Field(description="Of a member of a Task of several replicas: which, and where the others are."),
    ] = None


class TaskSpec(Model):
    """The command that is wanted. What of it may change later: task_policy."""

    cluster_name: Annotated[
        str,
        Field(
            max_length=253,
            description="IrisCluster, in the same namespace, whose settings apply. Empty: the only one there, or the one named default.",
        ),
    ] = ""
    runtime: Annotated[
        Literal["", "containerd", "docker", "enroot"],
        Field(description="Runtime that must run it. Empty: the one of its slice's nodes."),
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
    env_from: Annotated[
        list[EnvFromSource], Field(max_length=64, description="Variables from whole objects; env goes over them.")
    ] = Field(default_factory=list)
    setup: Annotated[
        list[SetupCommand],
        Field(
            max_length=32, description="Commands before the main one, in order; the first that fails fails the Task."
        ),
    ] = Field(default_factory=list)
    bundle: Annotated[Bundle | None, Field(description="Code brought to the container.")] = None
    volumes: Annotated[
        list[Volume],
        Field(
            max_length=64,
            description="What may be mounted.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    volume_mounts: Annotated[
        list[VolumeMount],
        Field(
            max_length=64,
            description="Where volumes appear in the container.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["mountPath"]},
        ),
    ] = Field(default_factory=list)
    ports: Annotated[
        list[ContainerPort],
        Field(
            max_length=32,
            description="Ports that the command listens on, on its node's address.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    service_name: Annotated[
        str,
        Field(
            max_length=63,
            pattern=r"^([a-z]([-a-z0-9]*[a-z0-9])?)?$",
            description="Service without a selector, in the same namespace, whose endpoints this Task's ports join, by name, while it is ready.",
        ),
    ] = ""
    startup_probe: Annotated[
        Probe | None,
        Field(description="Asked until it succeeds; the other two begin then. Failing, the attempt fails."),
    ] = None
    liveness_probe: Annotated[
        Probe | None, Field(description="Failing, the command is stopped and the attempt fails.")
    ] = None
    readiness_probe: Annotated[Probe | None, Field(description="Shown as condition Ready, and in the Service.")] = None
    lifecycle: Annotated[Lifecycle, Field(description="What is done around the command's end.")] = Lifecycle()
    container_lifetime: Annotated[
        ContainerLifetime,
        Field(
            description="How long its container lives. PerRun: as long as the Task. Persistent: it stays on its node under its name, for the next Task there. NoLaunch: it must be there already."
        ),
    ] = ContainerLifetime()
    timeouts: Annotated[TaskTimeouts, Field(description="How long it may take.")] = TaskTimeouts()
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
    priority: Annotated[
        int,
        Field(
            ge=-1000,
            le=1000,
            description="Higher goes first: when Tasks wait for a place, and for the place of running Tasks of lower priority in the same namespace, which are stopped for it and run again later (retryPolicy.preemption), where no node is on its way. May be changed at any time.",
        ),
    ] = 0
    replicas: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_REPLICAS,
            description="How many copies of the command run together, on one slice. Above 1 the Task itself is never placed: it owns Tasks NAME-0, NAME-1 ..., placed all at once, and all repeated when one of them must be.",
        ),
    ] = 1
    binding: Annotated[Binding | None, Field(description="Where it runs. Written by the operator only.")] = None


class Attempt(Model):
    """One attempt that is over and was followed, or will be, by another."""

    attempt: Annotated[int, Field(ge=1, description="Which attempt, from 1.")]
    reason: Annotated[str, Field(description="Why it ended, as one CamelCase word.")]
    message: Annotated[str, Field(description="Why it ended, for people.")] = ""
    cause: Annotated[
        Cause | None,
        Field(
            description="Whose fault its end was, so which budget of retryPolicy it counts against. Absent: nobody's."
        ),
    ] = None
    slice_name: Annotated[str, Field(description="Slice it ran on.")] = ""
    node_name: Annotated[str, Field(description="Node it ran on.")] = ""
    log_path: Annotated[str, Field(description="Its log on that node.")] = ""
    log_archive: Annotated[str, Field(description="URL of its log in object storage, once it is there.")] = ""
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
    retries: Annotated[Retries, Field(description="Retries so far, by whose fault they were.")] = Retries()
    retry_after: Annotated[Time | None, Field(description="The next attempt is not placed before this.")] = None
    ended_attempt: Annotated[
        int | None, Field(ge=1, description="The last attempt that is over, whether or not another follows.")
    ] = None
    attempts: Annotated[list[Attempt], Field(max_length=10, description="Earlier attempts, newest first.")] = Field(
        default_factory=list
    )
    members_ready: Annotated[
        str,
        Field(
            description="Of a Task of several replicas: members that run and are ready, or are done, of all, such as 3/4."
        ),
    ] = ""
    container: Annotated[
        ContainerSeen | None,
        Field(description="Of a member whose container outlives it: what its node has, told before its start."),
    ] = None
    node_name: Annotated[str, Field(description="Node it ran on.")] = ""
    image_digest: Annotated[str, Field(description="Digest of the image that was run.")] = ""
    container_id: Annotated[str, Field(description="Containerd container, in namespace iris of the node.")] = ""
    log_path: Annotated[str, Field(description="Log on the node; iris logs shows it.")] = ""
    log_archive: Annotated[
        str,
        Field(description="URL of the last attempt's log in object storage, once it is there; attempts have theirs."),
    ] = ""
    host_ip: Annotated[
        str,
        Field(description="Address of its node; with worker.hostNetwork false, of its worker Pod.", alias="hostIP"),
    ] = ""
    ports: Annotated[list[PortStatus], Field(max_length=32, description="Its ports on that address.")] = Field(
        default_factory=list
    )
    start_time: Annotated[Time | None, Field(description="When the command started.")] = None
    finish_time: Annotated[Time | None, Field(description="When it ended.")] = None
    exit_code: Annotated[
        int | None, Field(description="Its exit code; 128 plus the signal's number when a signal ended it.")
    ] = None


class Task(Resource):
    """A user's command in a container: placed on a slice, run by the node agent as a containerd sandbox."""

    KIND: ClassVar[str] = "Task"
    PLURAL: ClassVar[str] = "tasks"

    spec: Annotated[
        TaskSpec,
        Field(
            description="The command that is wanted. Of it only priority may change later.",
            json_schema_extra={"x-kubernetes-validations": TASK_RULES},
        ),
    ]
    status: Annotated[TaskStatus, Field(description="What the agent and the operator see of it.")] = TaskStatus()

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status.phase is not None and self.status.phase.ended

    @property
    def waits(self) -> bool:
        """Whether it has no place; members wait as one, which is their Task."""
        if self.spec.replicas > 1:
            return self.status.phase in (None, TaskPhase.PENDING)
        return self.spec.binding is None and not self.ended and not self.owner_uid

    @property
    def owner_uid(self) -> str:
        """UID of the Task that this one is a member of; empty when it is a member of none."""
        for owner in self.metadata.owner_references:
            if owner.controller and owner.kind == Task.KIND:
                return owner.uid
        return ""
