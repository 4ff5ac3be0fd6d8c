"""ScaleGroup: one kind of capacity, kept at a number of slices."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from iris_operator.api.base import Conditions, Model, Resource
from iris_operator.api.slice import SliceTemplateSpec


class SliceTemplate(Model):
    """What each slice of the group is made of."""

    spec: Annotated[SliceTemplateSpec, Field(description="Spec of each slice.")]


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
        Field(ge=0, le=1000, description="Bound on the group's slices, failed and leaving ones included."),
    ] = 1
    template: Annotated[
        SliceTemplate,
        Field(description="What each slice is made of. A change applies to slices made from then on."),
    ]


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
    message: Annotated[str, Field(description="The last decision and why.")] = ""


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
