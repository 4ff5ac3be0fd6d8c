"""What the four kinds share: object metadata, conditions, and the base model (camelCase on the wire, frozen in memory)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from iris_operator.api.names import API_VERSION
from iris_operator.api.quantity import QUANTITY_PATTERN


class Model(BaseModel):
    """A part of an object. Frozen; unknown fields are kept out, so that an older reader survives a newer writer."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, frozen=True, extra="ignore"
    )

    def wire(self) -> dict[str, Any]:
        """The JSON form: camelCase, unset (None) fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def stated(self) -> dict[str, Any]:
        """The JSON form of what was read or set, without defaults: what the API server really holds, or shall hold."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


def _rfc3339(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _rfc3339_micro(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


Time = Annotated[
    datetime,
    PlainSerializer(_rfc3339, return_type=str),
    Field(json_schema_extra={"type": "string", "format": "date-time"}),
]
"""metav1.Time: whole seconds, UTC."""

MicroTime = Annotated[
    datetime,
    PlainSerializer(_rfc3339_micro, return_type=str),
    Field(json_schema_extra={"type": "string", "format": "date-time"}),
]
"""metav1.MicroTime: microseconds, UTC."""

Quantity = Annotated[
    str,
    BeforeValidator(str),
    Field(json_schema_extra={"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN, "minimum": 0}),
]
"""A Kubernetes quantity such as 500m, 2 or 16Gi; a bare integer is taken too."""


IntOrPercent = Annotated[
    str,
    BeforeValidator(str),
    Field(
        json_schema_extra={"x-kubernetes-int-or-string": True, "pattern": r"^([0-9]+|[0-9]{1,2}%|100%)$", "minimum": 0}
    ),
]
"""A number such as 2, or a share such as 10%."""


class LocalObjectReference(Model):
    """Names an object in the same namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253, description="Name of the object, in the same namespace.")]


class OwnerReference(Model):
    """metav1.OwnerReference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Model):
    """The parts of metav1.ObjectMeta that Iris reads."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: list[str] = Field(default_factory=list)
    owner_references: list[OwnerReference] = Field(default_factory=list)


class Condition(Model):
    """metav1.Condition."""

    type: Annotated[str, Field(max_length=316, description="Kind of condition, in CamelCase.")]
    status: Annotated[Literal["True", "False", "Unknown"], Field(description="Whether the condition holds.")]
    reason: Annotated[str, Field(max_length=1024, min_length=1, description="Why, as one CamelCase word for programs.")]
    message: Annotated[str, Field(max_length=32768, description="Why, for people, with the numbers.")] = ""
    observed_generation: Annotated[
        int | None, Field(ge=0, description="The metadata.generation that this was judged on.")
    ] = None
    last_transition_time: Annotated[Time, Field(description="When the status last changed.")]


Conditions = Annotated[
    list[Condition],
    Field(
        description="What holds of this object, by type.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]


class Resource(Model):
    """One object of the API as Iris sees it: kind, metadata, spec, status."""

    KIND: ClassVar[str]
    PLURAL: ClassVar[str]

    api_version: str = API_VERSION
    kind: str = ""
    metadata: ObjectMeta

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def deleting(self) -> bool:
        """Whether a deletion is under way."""
        return self.metadata.deletion_timestamp is not None

    def owner_reference(self) -> dict[str, Any]:
        """A controller reference to this object, for its dependants' metadata."""
        return {
            "apiVersion": self.api_version,
            "kind": self.KIND,
            "name": self.metadata.name,
            "uid": self.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    @classmethod
    def parse(cls, body: Any) -> Self:
        """The object from its JSON form. Raises pydantic.ValidationError when the API server holds what the schema forbids."""
        return cls.model_validate(body)


def seconds(value: int) -> timedelta:
    """A field in seconds as a duration."""
    return timedelta(seconds=value)
