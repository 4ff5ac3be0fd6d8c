"""IrisCluster: the settings of one installation."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from iris_operator.api.base import Conditions, LocalObjectReference, Model, Quantity, Resource, Time
from iris_operator.api.names import CONTROLLER_PORT, STREAM_PORT, WORKER_PORT
from iris_operator.api.rules import ABSOLUTE_PATH, rules

Seconds = Annotated[int, Field(ge=1, le=604800)]


class CoreWeavePlatform(Model):
    """Where on CoreWeave this installation rents."""

    region: Annotated[
        str,
        Field(
            max_length=63,
            description="CoreWeave region or zone the cluster is in, such as US-EAST-04A. Shown to people; the CKS cluster itself fixes where NodePools boot.",
        ),
    ] = ""


class Platform(Model):
    """The provider of nodes."""

    coreweave: Annotated[
        CoreWeavePlatform, Field(description="CoreWeave Kubernetes Service (CKS), by its NodePools.")
    ] = CoreWeavePlatform()


class Controller(Model):
    """Where the operator is reached."""

    port: Annotated[int, Field(ge=1, le=65535, description="Port of the operator's HTTP API and /health.")] = (
        CONTROLLER_PORT
    )
    service_name: Annotated[str, Field(max_length=63, description="Service in front of the operator.")] = (
        "iris-controller-svc"
    )


class Images(Model):
    """Container images of Iris itself."""

    agent: Annotated[
        str,
        Field(
            max_length=1024,
            description="Image of the node agent in the worker Pod. Empty: slices wait in phase Initializing, and this IrisCluster is not Ready, reason AgentImageMissing.",
        ),
    ] = ""
    pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"], Field(description="When nodes pull the agent's image.")
    ] = "IfNotPresent"


class WorkerClaim(Model):
    """A PersistentVolumeClaim that every worker Pod mounts, for Tasks to use."""

    claim_name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=253,
            description="Its name, in the cluster's namespace; ReadWriteMany if several nodes use it.",
        ),
    ]
    read_only: Annotated[bool, Field(description="Mounted read-only.")] = False


class DiskSpace(Model):
    """When a node's disk counts as full, and what is done then."""

    model_config = rules(
        {
            "rule": "(has(self.collectImagesBelowPercent) ? self.collectImagesBelowPercent : 75) <= "
            "(has(self.collectImagesAbovePercent) ? self.collectImagesAbovePercent : 85)",
            "message": "collectImagesBelowPercent is over collectImagesAbovePercent: images would be collected for ever",
        }
    )

    collect_images_above_percent: Annotated[
        int, Field(ge=1, le=100, description="Use above which unused images are removed, the longest unused first.")
    ] = 85
    collect_images_below_percent: Annotated[int, Field(ge=1, le=100, description="Use at which that stops.")] = 75
    refuse_tasks_above_percent: Annotated[
        int,
        Field(ge=1, le=100, description="Use above which no more Tasks start on the node: condition DiskPressure."),
    ] = 95


class Worker(Model):
    """The worker Pod on each node of a slice."""

    model_config = rules(
        {
            "rule": "!has(self.hostNetwork) || self.hostNetwork || !has(self.runtime) || self.runtime == 'containerd'",
            "message": "hostNetwork false needs runtime containerd: the others run Tasks on the node's network",
        }
    )

    port: Annotated[
        int, Field(ge=1, le=65535, description="Port of the agent's /health and /metrics, on the worker's address.")
    ] = WORKER_PORT
    stream_port: Annotated[
        int,
        Field(
            ge=1,
            le=65535,
            description="Port of the agent's logs, exec and other streams, by TLS, for the gateway only; another one than port.",
        ),
    ] = STREAM_PORT
    service_account_name: Annotated[str, Field(max_length=253, description="ServiceAccount the agent runs as.")] = (
        "iris-agent"
    )
    image_pull_secrets: Annotated[
        list[LocalObjectReference],
        Field(max_length=16, description="Secrets to pull the agent's image with."),
    ] = Field(default_factory=list)
    runtime: Annotated[
        Literal["containerd", "docker", "enroot"],
        Field(description="What runs Tasks on the nodes. Slices made before a change keep theirs."),
    ] = "containerd"
    host_network: Annotated[
        bool,
        Field(
            description="Worker Pods, and so their Tasks, are on the node's network. false: each worker Pod has an address of its own, which its Tasks share, and NetworkPolicies hold for them. Worker Pods made before a change keep theirs."
        ),
    ] = True
    max_tasks: Annotated[int, Field(ge=1, le=4096, description="Most Tasks on one node at a time.")] = 256
    volume_claims: Annotated[
        list[WorkerClaim],
        Field(
            max_length=16,
            description="PersistentVolumeClaims for Tasks; a change reaches the worker Pods made after it.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["claimName"]},
        ),
    ] = Field(default_factory=list)
    disk: Annotated[DiskSpace, Field(description="When a node's disk counts as full.")] = DiskSpace()
    headroom: Annotated[
        dict[str, Quantity],
        Field(
            description="Left free on each node beside the worker Pod, for DaemonSets that come later: resource name to quantity."
        ),
    ] = Field(default_factory=lambda: {"cpu": "100m", "memory": "128Mi"})
    agent_reserve: Annotated[
        dict[str, Quantity],
        Field(description="Part of the worker Pod that Tasks can't have: the agent's own cpu and memory."),
    ] = Field(default_factory=lambda: {"cpu": "100m", "memory": "256Mi"})


class Timeouts(Model):
    """How long a slice may take in each phase before it counts as failed."""

    boot_seconds: Annotated[
        Seconds,
        Field(
            description="From the NodePool's creation until all its nodes are Ready. Bare metal takes 20 to 30 minutes."
        ),
    ] = 1800
    init_seconds: Annotated[
        Seconds, Field(description="From the nodes being Ready until all agents are registered.")
    ] = 1800
    fit_seconds: Annotated[
        int,
        Field(
            ge=0,
            le=604800,
            description="How long a node that is Ready may lack its GPUs or InfiniBand (device plugins start late) before the slice fails as NodeUnfit.",
        ),
    ] = 300
    orphan_seconds: Annotated[
        int,
        Field(
            ge=0,
            le=604800,
            description="How long a NodePool that Iris made may be without its Slice before it is deleted.",
        ),
    ] = 300
    agent_lease_seconds: Annotated[
        int,
        Field(
            ge=20,
            le=600,
            description="An agent whose Lease was not renewed for this long counts as lost. Agents renew every 10 seconds.",
        ),
    ] = 40


class Autoscaler(Model):
    """How slices are added and taken away."""

    evaluation_interval_seconds: Annotated[
        Seconds,
        Field(description="How often demand is looked at when nothing changes; a new Task is looked at at once."),
    ] = 10
    scale_up_delay_seconds: Annotated[
        int, Field(ge=0, le=86400, description="How long a Task must have waited before slices are made for it.")
    ] = 60
    scale_down_delay_seconds: Annotated[
        int, Field(ge=0, le=604800, description="How long a slice must have been idle before it is given back.")
    ] = 300
    startup_grace_period_seconds: Annotated[
        int,
        Field(
            ge=0,
            le=604800,
            description="How long after its launch a slice that is not Ready yet is kept though no Task wants it any more; and a slice lost sooner after it became Ready than this has died young.",
        ),
    ] = 2400
    launches_per_minute: Annotated[
        int, Field(ge=1, le=10000, description="NodePools made a minute, over all groups; as many may be made at once.")
    ] = 60
    launch_grace_seconds: Annotated[
        int,
        Field(
            ge=0,
            le=604800,
            description="How long a ScaleGroup's slice may be over quota or without capacity before it fails, so that its demand goes to the next group. Slices made by hand wait for bootSeconds.",
        ),
    ] = 60
    backoff_seconds: Annotated[
        Seconds,
        Field(
            description="How long a group that failed to launch waits first; doubled by each failure, and spread by up to a fifth."
        ),
    ] = 60
    max_backoff_seconds: Annotated[Seconds, Field(description="The longest that it waits.")] = 1800


class Defaults(Model):
    """What Tasks get when they don't say."""

    image_registry: Annotated[
        str,
        Field(
            max_length=253,
            description="Registry, as host or host:port, of Tasks' images that name none. Empty: the one that the agent's own image came from.",
        ),
    ] = ""
    task_requests: Annotated[
        dict[str, Quantity],
        Field(description="Resources requested for a Task that requests none: resource name to quantity."),
    ] = Field(default_factory=lambda: {"cpu": "100m", "memory": "64Mi"})


class Policy(Model):
    """What Tasks of this cluster may ask for. A Task that asks for more fails at once, reason PolicyDenied."""

    allow_privileged: Annotated[
        bool, Field(description="Whether securityContext.privileged may be set: such a Task owns its node.")
    ] = False
    allowed_capabilities: Annotated[
        list[Annotated[str, Field(max_length=32)]],
        Field(max_length=48, description="Capabilities that Tasks may add, without CAP_; ALL allows every one."),
    ] = Field(default_factory=list)
    allowed_host_paths: Annotated[
        list[Annotated[str, Field(max_length=4096, pattern=ABSOLUTE_PATH)]],
        Field(
            max_length=64, description="Paths of the node that hostPath volumes may name, with what lies below them."
        ),
    ] = Field(default_factory=list)


class LogArchive(Model):
    """Object storage that logs of ended Tasks are copied to, so that they outlive their slice."""

    endpoint: Annotated[
        str,
        Field(
            max_length=4096,
            pattern=r"^(https?://.+)?$",
            description="URL of the S3-compatible service, with the bucket in its path, or where it says {bucket}.",
        ),
    ] = ""
    region: Annotated[str, Field(max_length=63, description="Region to sign for.")] = "us-east-1"
    bucket: Annotated[str, Field(max_length=255, description="Bucket. Empty: logs aren't archived.")] = ""
    prefix: Annotated[
        str, Field(max_length=512, description="Put before each key: <prefix><namespace>/<task>/<uid>/<attempt>.log.")
    ] = ""
    secret_name: Annotated[
        str,
        Field(
            max_length=253, description="Secret, in the cluster's namespace, with keys accessKeyID and secretAccessKey."
        ),
    ] = ""


class Logs(Model):
    """What becomes of Tasks' logs."""

    max_bytes: Annotated[
        Quantity,
        Field(
            description="Most that one attempt's log takes on its node: older parts are dropped beyond it. 0: all is kept."
        ),
    ] = "0"
    archive: Annotated[LogArchive, Field(description="Where they are copied when a Task ends.")] = LogArchive()


class IrisClusterSpec(Model):
    """Settings; a change reaches the running operator at once."""

    platform: Annotated[Platform, Field(description="The provider of nodes.")] = Platform()
    controller: Annotated[Controller, Field(description="Where the operator is reached.")] = Controller()
    images: Annotated[Images, Field(description="Container images of Iris itself.")] = Images()
    worker: Annotated[Worker, Field(description="The worker Pod on each node of a slice.")] = Worker()
    timeouts: Annotated[Timeouts, Field(description="How long a slice may take in each phase.")] = Timeouts()
    autoscaler: Annotated[Autoscaler, Field(description="How slices are added and taken away.")] = Autoscaler()
    defaults: Annotated[Defaults, Field(description="What Tasks get when they don't say.")] = Defaults()
    policy: Annotated[Policy, Field(description="What Tasks may ask for.")] = Policy()
    logs: Annotated[Logs, Field(description="What becomes of Tasks' logs.")] = Logs()


class PhaseCounts(Model):
    """Tasks by phase."""

    pending: Annotated[int, Field(ge=0, description="Waiting for room or for the agent.")] = 0
    running: Annotated[int, Field(ge=0, description="Assigned, building or running.")] = 0
    succeeded: Annotated[int, Field(ge=0, description="Ended with exit code 0.")] = 0
    failed: Annotated[int, Field(ge=0, description="Ended otherwise.")] = 0


class SliceCounts(Model):
    """Slices by what they are worth."""

    total: Annotated[int, Field(ge=0, description="All slices of this cluster.")] = 0
    ready: Annotated[int, Field(ge=0, description="Ready for Tasks.")] = 0
    failed: Annotated[int, Field(ge=0, description="Failed.")] = 0


class AgentVersion(Model):
    """How many agents run one version."""

    version: Annotated[str, Field(description="Version that the agents report.")]
    count: Annotated[int, Field(ge=0, description="Agents that report it.")]


class IrisClusterStatus(Model):
    """What the operator sees of the whole installation."""

    observed_generation: Annotated[int | None, Field(description="The metadata.generation these facts belong to.")] = (
        None
    )
    conditions: Conditions = Field(default_factory=list)
    slices: Annotated[SliceCounts, Field(description="Slices of this cluster.")] = SliceCounts()
    tasks: Annotated[PhaseCounts, Field(description="Tasks of this cluster by phase.")] = PhaseCounts()
    capacity: Annotated[
        dict[str, Quantity],
        Field(description="What Tasks may use on all Ready slices: resource name to quantity."),
    ] = Field(default_factory=dict)
    free: Annotated[
        dict[str, Quantity], Field(description="What of it no Task requests now: resource name to quantity.")
    ] = Field(default_factory=dict)
    agents: Annotated[
        list[AgentVersion],
        Field(
            max_length=64,
            description="Versions of the agents, with their counts.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["version"]},
        ),
    ] = Field(default_factory=list)
    operator_version: Annotated[str, Field(description="Version of the operator that wrote this.")] = ""
    last_settings_change: Annotated[
        Time | None, Field(description="When the operator last took over changed settings.")
    ] = None


class IrisCluster(Resource):
    """The settings of one Iris installation. The one in a namespace is the default for Slices, ScaleGroups and Tasks there that name none."""

    KIND: ClassVar[str] = "IrisCluster"
    PLURAL: ClassVar[str] = "irisclusters"

    spec: Annotated[IrisClusterSpec, Field(description="Settings; a change reaches the running operator at once.")] = (
        IrisClusterSpec()
    )
    status: Annotated[IrisClusterStatus, Field(description="What the operator sees.")] = IrisClusterStatus()
