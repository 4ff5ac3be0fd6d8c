"""Where a Task's environment comes from; names and meaning are those of a Pod's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from iris_operator.api.base import Model
from iris_operator.api.rules import exactly_one, rules

_NAME = Field(min_length=1, max_length=253, description="Name of the object, in the Task's namespace.")
_KEY = Field(min_length=1, max_length=253, description="Key in the object.")
_OPTIONAL = Field(description="Whether the Task starts without it when the object or the key is absent.")


class KeySelector(Model):
    """One key of a Secret or a ConfigMap."""

    name: Annotated[str, _NAME]
    key: Annotated[str, _KEY]
    optional: Annotated[bool, _OPTIONAL] = False


class FieldSelector(Model):
    """A fact of the Task itself."""

    field_path: Annotated[
        Literal[
            "metadata.name",
            "metadata.namespace",
            "metadata.uid",
            "spec.binding.attempt",
            "spec.binding.sliceName",
            "spec.binding.nodeName",
            "spec.binding.rank",
            "status.hostIP",
        ],
        Field(description="Which fact."),
    ]


class EnvVarSource(Model):
    """Where a variable's value comes from: exactly one of these."""

    model_config = rules(exactly_one("valueFrom", "secretKeyRef", "configMapKeyRef", "fieldRef"))

    secret_key_ref: Annotated[KeySelector | None, Field(description="A key of a Secret.")] = None
    config_map_key_ref: Annotated[KeySelector | None, Field(description="A key of a ConfigMap.")] = None
    field_ref: Annotated[FieldSelector | None, Field(description="A fact of the Task itself.")] = None


class EnvVar(Model):
    """One environment variable."""

    model_config = rules(
        {
            "rule": "!has(self.valueFrom) || !has(self.value) || self.value == ''",
            "message": "value and valueFrom are both set: keep one",
        }
    )

    name: Annotated[
        str, Field(min_length=1, max_length=1024, pattern=r"^[^=\x00]+$", description="Name of the variable.")
    ]
    value: Annotated[str, Field(max_length=131072, description="Its value, taken literally.")] = ""
    value_from: Annotated[EnvVarSource | None, Field(description="Where its value comes from, instead of value.")] = (
        None
    )


class ObjectSelector(Model):
    """All keys of a Secret or a ConfigMap."""

    name: Annotated[str, _NAME]
    optional: Annotated[bool, _OPTIONAL] = False


class EnvFromSource(Model):
    """Variables from all keys of one object: exactly one of secretRef and configMapRef."""

    model_config = rules(exactly_one("envFrom", "secretRef", "configMapRef"))

    prefix: Annotated[str, Field(max_length=253, description="Put before each key's name.")] = ""
    secret_ref: Annotated[ObjectSelector | None, Field(description="A Secret.")] = None
    config_map_ref: Annotated[ObjectSelector | None, Field(description="A ConfigMap.")] = None
