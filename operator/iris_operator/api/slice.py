"""Slice: one unit of capacity: a NodePool, its nodes and their worker Pods, made and deleted as one."""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from iris_operator.api.base import Conditions, Model, Quantity, Resource, Time


class SlicePhase(StrEnum):
    """Where a Slice is in its life. Programs should read the conditions; this is for people."""

    PENDING = "Pending"  # no NodePool yet
    BOOTING = "Booting"  # NodePool exists; its nodes are not all Ready
    INITIALIZING = "Initializing"  # nodes Ready; worker Pods or agents are not
    READY = "Ready"
    DEGRADED = "Degraded"  # was Ready; a node or an agent is lost
    FAILED = "Failed"
    DELETING = "Deleting"


class Availability(StrEnum):
    """Whether a Slice takes Tasks."""

    SCHEDULABLE = "Schedulable"
    CORDONED = "Cordoned"  # no new Task; those on it go on
    DRAINED = "Drained"  # no new Task; those on it are stopped within their grace periods and placed elsewhere


class FailureKind(StrEnum):
    """Why a Slice failed, as what must be done about it differs."""

    OVER_QUOTA = "OverQuota"  # CoreWeave's quota: wait, or ask for more
    NO_CAPACITY = "NoCapacity"  # CoreWeave has no such node free: wait, or take another type
    INVALID_REQUEST = "InvalidRequest"  # CoreWeave refuses the NodePool as it stands: only another spec helps
    INTERNAL = "Internal"  # CoreWeave reports a fault of its own
    SLOW = "Slow"  # nodes or agents were not ready in time
    NODE_UNFIT = "NodeUnfit"  # a node came without what was ordered: GPUs, InfiniBand
    NODE_LOST = "NodeLost"  # it was Ready; a node or its agent stayed lost for longer than its repair delay


class Repair(Model):
    """What happens when a node of a Ready slice is lost."""

    policy: Annotated[
        Literal["Wait", "Replace"],
        Field(
            description="Wait: CoreWeave replaces a broken node in its NodePool; the slice waits for it, and the new node gets the lost one's rank. Replace: after delaySeconds the slice fails with reason NodeLost, its other Tasks are moved, its nodes are given back, and its ScaleGroup makes another."
        ),
    ] = "Replace"
    delay_seconds: Annotated[
        int, Field(ge=0, le=604800, description="How long a node may be lost before a slice of policy Replace fails.")
    ] = 900


class Taint(Model):
    """A taint on the slice's nodes."""

    key: Annotated[str, Field(min_length=1, max_length=253, description="Taint key.")]
    value: Annotated[str, Field(max_length=63, description="Taint value.")] = ""
    effect: Annotated[
        Literal["NoSchedule", "PreferNoSchedule", "NoExecute"],
        Field(description="What it does to Pods that don't tolerate it. Worker Pods do."),
    ]


class SliceTemplateSpec(Model):
    """What a slice is made of: shared by Slice and ScaleGroup."""

    instance_type: Annotated[
        str,
        Field(
            min_length=1,
            max_length=63,
            pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
            description="CoreWeave instance type, such as gd-8xh100ib-i128. One NodePool has one; it can't be changed.",
        ),
    ]
    compute_class: Annotated[
        Literal["default", "spot"],
        Field(description="default: reserved or on-demand nodes. spot: cheaper, may be taken away."),
    ] = "default"
    node_count: Annotated[
        int,
        Field(ge=1, le=1024, description="Nodes in the slice; each gets one worker Pod, ranks count from 0."),
    ] = 1
    gpus_per_node: Annotated[
        int,
        Field(ge=0, le=64, description="GPUs (nvidia.com/gpu) each node must offer before the slice is Ready."),
    ] = 0
    gpu_class: Annotated[
        str,
        Field(max_length=63, description="Kind of GPU, such as H100: shown to people, and a label on the nodes."),
    ] = ""
    infiniband: Annotated[
        bool,
        Field(
            description="Each node must offer InfiniBand (rdma/ib) before the slice is Ready; the worker Pod takes all its node offers."
        ),
    ] = False
    racks: Annotated[
        int,
        Field(
            ge=0,
            le=56,
            description="For rack-scale types (NVL72), which are bought by the rack of 18 nodes: how many racks. nodeCount must then be 18 times as many. 0: bought by the node.",
        ),
    ] = 0
    max_lifetime_seconds: Annotated[
        int | None,
        Field(
            ge=60,
            le=31536000,
            description="How long after it became Ready the slice is drained and deleted; its ScaleGroup makes another if one is needed. Absent: never.",
        ),
    ] = None
    repair: Annotated[Repair, Field(description="What happens when a node of a Ready slice is lost.")] = Repair()
    deletion_protection: Annotated[
        bool,
        Field(
            description="Refuse the slice's deletion while Tasks run on it, unless its annotation iris.dev/force-delete is true."
        ),
    ] = False
    node_labels: Annotated[
        dict[str, str],
        Field(
            max_length=32,
            description="More labels for the nodes. Names that begin with iris-managed, iris-scale-group or iris-slice-id are Iris's own.",
        ),
    ] = Field(default_factory=dict)
    node_taints: Annotated[
        list[Taint], Field(max_length=16, description="Taints for the nodes; the worker Pods tolerate them.")
    ] = Field(default_factory=list)

    def template_hash(self) -> str:
        """Ten hex digits that change with what is stated; fields at their defaults don't count, so that a new field of a
        later version rolls no slice."""
        stated = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
        text = json.dumps(stated, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]


class External(Model):
    """Machines of one's own, which are no nodes of this cluster."""

    service_account_name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=253,
            description="ServiceAccount, of the same namespace, that their agents ask as: it gets certificates for them.",
        ),
    ]


class SliceSpec(SliceTemplateSpec):
    """The slice that is wanted. What it is made of can't be changed: make another slice instead."""

    availability: Annotated[
        Availability,
        Field(
            description="Schedulable: takes Tasks. Cordoned: no new ones. Drained: no new ones, and those on it are stopped within their grace periods and placed elsewhere, without being charged. iris slice cordon, drain and uncordon set it."
        ),
    ] = Availability.SCHEDULABLE
    external: Annotated[
        External | None,
        Field(
            description="Its nodes are machines of one's own with an agent outside of Pods (docs/node.md): no NodePool is made, and instanceType only tells people what they are. It is never failed for a machine that is lost."
        ),
    ] = None
    hold_until: Annotated[
        Time | None,
        Field(
            description="Until then the slice is kept though idle: scaling down, template rollouts and its maximum lifetime leave it alone. iris slice hold sets it."
        ),
    ] = None

    cluster_name: Annotated[
        str,
        Field(
            max_length=253,
            description="IrisCluster, in the same namespace, whose settings apply. Empty: the only one there, or the one named default.",
        ),
    ] = ""
    scale_group_name: Annotated[
        str, Field(max_length=253, description="ScaleGroup that owns this slice. Set by the ScaleGroup.")
    ] = ""


class SliceNode(Model):
    """One node of the slice."""

    rank: Annotated[
        int, Field(ge=0, description="Position in the slice, from 0; a replaced node gets its predecessor's.")
    ]
    name: Annotated[str, Field(description="Name of the Node; empty until it registers.")] = ""
    ready: Annotated[bool, Field(description="Node Ready, worker Pod running and agent registered.")] = False
    worker_pod: Annotated[str, Field(description="Name of its worker Pod; empty until made.")] = ""
    worker_uid: Annotated[str, Field(description="UID of its worker Pod.")] = ""
    agent_version: Annotated[str, Field(description="Version its agent reports.")] = ""
    address: Annotated[str, Field(description="Address at which Tasks here are reached.")] = ""
    message: Annotated[str, Field(description="What it waits for, when not ready.")] = ""
    refuses: Annotated[
        str, Field(description="Why it takes no more Tasks though it is ready: its disk is full. Those on it go on.")
    ] = ""
    allocatable: Annotated[
        dict[str, Quantity], Field(description="What Tasks may use here: resource name to quantity.")
    ] = Field(default_factory=dict)
    lost_since: Annotated[
        Time | None, Field(description="Since when a node that was ready is not; absent while it is.")
    ] = None
    topology: Annotated[
        dict[str, str],
        Field(description="The node's NVLink and InfiniBand domains: node label to value. For placement."),
    ] = Field(default_factory=dict)


class SliceStatus(Model):
    """What the operator sees of the slice."""

    observed_generation: Annotated[int | None, Field(description="The metadata.generation these facts belong to.")] = (
        None
    )
    phase: Annotated[SlicePhase | None, Field(description="Where the slice is in its life, for people.")] = None
    phase_since: Annotated[Time | None, Field(description="Since when it is in this phase.")] = None
    message: Annotated[
        str,
        Field(description="What it waits for, how long that has taken and how long it may, or why it failed."),
    ] = ""
    conditions: Conditions = Field(default_factory=list)
    node_pool_name: Annotated[str, Field(description="Its NodePool (cluster-scoped).")] = ""
    nodes: Annotated[
        list[SliceNode],
        Field(
            max_length=1024,
            description="Its nodes by rank.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["rank"]},
        ),
    ] = Field(default_factory=list)
    nodes_ready: Annotated[str, Field(description="Ready nodes of wanted ones, such as 1/2.")] = ""
    tasks: Annotated[int, Field(ge=0, description="Tasks bound to this slice that have not ended.")] = 0
    idle_since: Annotated[Time | None, Field(description="Since when no Task is bound to it; absent while one is.")] = (
        None
    )
    ready_since: Annotated[Time | None, Field(description="When it first became Ready.")] = None
    launched_at: Annotated[Time | None, Field(description="When its NodePool was made: from then on it may bill.")] = (
        None
    )
    boot_seconds: Annotated[
        int | None, Field(ge=0, description="How long its nodes took, from launchedAt until all were Ready.")
    ] = None
    failure: Annotated[
        FailureKind | None, Field(description="Why it failed, as one word for programs; message has the numbers.")
    ] = None


_FIXED = (
    "clusterName", "scaleGroupName", "instanceType", "computeClass", "nodeCount", "racks", "gpusPerNode", "gpuClass",
    "infiniband", "nodeLabels", "nodeTaints", "external",
)  # fmt: skip
_MADE_OF_IS_FIXED = " && ".join(
    f"(has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field}))"
    for field in _FIXED
)
RACK_RULES: list[dict[str, str]] = [
    {
        "rule": "!has(self.racks) || self.racks == 0 || (has(self.nodeCount) && self.nodeCount == self.racks * 18)",
        "fieldPath": ".nodeCount",
        "message": "nodeCount is not 18 times racks: a rack has 18 nodes; set nodeCount to 18 * racks, or racks to 0",
    }
]
"""CEL rules of what a slice is made of; also a ScaleGroup's template's."""


class Slice(Resource):
    """One unit of capacity: a CoreWeave NodePool, its node(s) and the worker Pod(s) on them. It is made, watched, drained and deleted as one."""

    KIND: ClassVar[str] = "Slice"
    PLURAL: ClassVar[str] = "slices"

    spec: Annotated[
        SliceSpec,
        Field(
            description="The slice that is wanted.",
            json_schema_extra={
                "x-kubernetes-validations": [
                    {
                        "rule": _MADE_OF_IS_FIXED,
                        "message": "what a Slice is made of can't be changed: delete it and make another (availability, holdUntil, deletionProtection, repair and maxLifetimeSeconds can)",
                    },
                    *RACK_RULES,
                ]
            },
        ),
    ]
    status: Annotated[SliceStatus, Field(description="What the operator sees of it.")] = SliceStatus()
