"""ScaleGroup: one kind of capacity, kept at a number of slices."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from iris_operator.api.base import Conditions, IntOrPercent, Model, Quantity, Resource, Time
from iris_operator.api.slice import RACK_RULES, FailureKind, SliceTemplateSpec


class SliceTemplate(Model):
    """What each slice of the group is made of."""

    spec: Annotated[
        SliceTemplateSpec,
        Field(description="Spec of each slice.", json_schema_extra={"x-kubernetes-validations": RACK_RULES}),
    ]


class Disruption(Model):
    """How many slices may be out at once by Iris's own doing: rollouts, replacements, ends of lifetimes."""

    max_unavailable: Annotated[
        IntOrPercent,
        Field(description="Slices, as a number or as a share of the group such as 10% (rounded down, at least 1)."),
    ] = "10%"


class ScaleGroupSpec(Model):
    """The group that is wanted."""

    cluster_name: Annotated[
        str,
        Field(
            max_length=253,
            description="IrisCluster, in the same namespace, whose settings apply. Empty: the only one there, or the one named default.",
        ),
    ] = ""
    min_slices: Annotated[
        int, Field(ge=0, le=1000, description="Slices that are always kept. Failed ones are replaced.")
    ] = 0
    max_slices: Annotated[
        int,
        Field(
            ge=0,
            le=1000,
            description="Bound on the group's slices, leaving ones included; failed ones whose nodes are given back don't count.",
        ),
    ] = 1
    buffer_slices: Annotated[
        int,
        Field(
            ge=0,
            le=1000,
            description="Warm spares: idle slices kept beyond what runs and waits, up to maxSlices.",
        ),
    ] = 0
    priority: Annotated[
        int,
        Field(
            ge=-1000000,
            le=1000000,
            description="Waiting Tasks are sent to the group of the highest priority that fits and may grow; then to the cheapest, then to the one that they fill best.",
        ),
    ] = 0
    cost_per_node_hour: Annotated[
        float,
        Field(
            ge=0,
            description="What one node costs an hour, in any one unit. For the choice between groups, and for iris simulate.",
        ),
    ] = 0
    node_resources: Annotated[
        dict[str, Quantity],
        Field(
            max_length=16,
            description="What Tasks may use of each node: resource name to quantity. What is left out is learned from the group's first Ready slice; until then a Task's demand for it is taken to fit, but for GPUs: template.spec.gpusPerNode says how many there are.",
        ),
    ] = Field(default_factory=dict)
    disruption: Annotated[Disruption, Field(description="How many slices may be out at once by Iris's own doing.")] = (
        Disruption()
    )
    failed_slices_history_limit: Annotated[
        int,
        Field(
            ge=0,
            le=100,
            description="Failed slices that are kept for people to read; their nodes are given back at once.",
        ),
    ] = 3
    template: Annotated[
        SliceTemplate,
        Field(
            description="What each slice is made of. After a change slices are replaced: idle ones first, as many at once as disruption allows."
        ),
    ]


class Boot(Model):
    """One past boot."""

    slice_name: Annotated[str, Field(description="Slice that booted.")]
    seconds: Annotated[int, Field(ge=0, description="From its NodePool's creation until all its nodes were Ready.")]


class Decision(Model):
    """One decision of the group's scaling."""

    time: Annotated[Time, Field(description="When it was taken.")]
    action: Annotated[str, Field(description="ScaleUp, ScaleDown, Replace, Roll, Expire, Block, Unblock.")]
    reason: Annotated[str, Field(description="Why, as one CamelCase word for programs.")]
    message: Annotated[str, Field(description="Why, for people, with the numbers.")] = ""


class Backoff(Model):
    """Why the group launches less than it wants, and until when."""

    reason: Annotated[
        FailureKind | str,
        Field(description="OverQuota, NoCapacity, InvalidRequest, Internal, Slow, or SlicesDieYoung."),
    ]
    message: Annotated[str, Field(description="What happened, with the numbers.")] = ""
    failures: Annotated[int, Field(ge=0, description="Failed launches in a row.")] = 0
    until: Annotated[
        Time | None,
        Field(description="No launch before this. Absent with InvalidRequest: none until the spec changes."),
    ] = None
    allowed_launches: Annotated[
        int,
        Field(ge=0, description="Launches that may be under way at once after that: 1 first, doubled by each success."),
    ] = 1
    generation: Annotated[int, Field(ge=0, description="The metadata.generation whose template failed.")] = 0
    counted: Annotated[list[str], Field(max_length=64, description="UIDs of the slices that are counted already.")] = (
        Field(default_factory=list)
    )


class ScaleGroupStatus(Model):
    """What the operator sees of the group."""

    observed_generation: Annotated[int | None, Field(description="The metadata.generation these facts belong to.")] = (
        None
    )
    conditions: Conditions = Field(default_factory=list)
    slices: Annotated[int, Field(ge=0, description="All slices of the group.")] = 0
    ready: Annotated[int, Field(ge=0, description="Slices that are Ready.")] = 0
    booting: Annotated[int, Field(ge=0, description="Slices on their way to Ready.")] = 0
    failed: Annotated[int, Field(ge=0, description="Slices that failed.")] = 0
    bounds: Annotated[str, Field(description="minSlices and maxSlices, such as 1-4.")] = ""
    message: Annotated[str, Field(description="What it does now and why.")] = ""
    idle: Annotated[int, Field(ge=0, description="Ready slices without a Task.")] = 0
    demand: Annotated[int, Field(ge=0, description="Slices that waiting Tasks need beyond what is Ready.")] = 0
    node_resources: Annotated[
        dict[str, Quantity],
        Field(description="What Tasks may use of each node, as learned from Ready slices: resource name to quantity."),
    ] = Field(default_factory=dict)
    recent_boots: Annotated[
        list[Boot], Field(max_length=10, description="The last boots, newest first: what is normal for this type.")
    ] = Field(default_factory=list)
    decisions: Annotated[list[Decision], Field(max_length=10, description="The last decisions, newest first.")] = Field(
        default_factory=list
    )
    backoff: Annotated[
        Backoff | None, Field(description="Present while the group launches less than it wants, and why.")
    ] = None
    blocked_until: Annotated[
        Time | None, Field(description="No launch before this; absent when none is held back.")
    ] = None
    losses: Annotated[int, Field(ge=0, description="Slices that were Ready and lost a node for good.")] = 0
    spot_losses: Annotated[
        int, Field(ge=0, description="The same of spot slices: CoreWeave took them away, as it may.")
    ] = 0


class ScaleGroup(Resource):
    """One kind of capacity: an instance type, in slices of so many nodes, kept between a minimum and a maximum."""

    KIND: ClassVar[str] = "ScaleGroup"
    PLURAL: ClassVar[str] = "scalegroups"

    spec: Annotated[
        ScaleGroupSpec,
        Field(
            description="The group that is wanted.",
            json_schema_extra={
                "x-kubernetes-validations": [
                    {
                        "rule": "self.minSlices <= self.maxSlices",
                        "fieldPath": ".minSlices",
                        "message": "minSlices is above maxSlices: lower minSlices or raise maxSlices",
                    }
                ]
            },
        ),
    ]
    status: Annotated[ScaleGroupStatus, Field(description="What the operator sees of it.")] = ScaleGroupStatus()
