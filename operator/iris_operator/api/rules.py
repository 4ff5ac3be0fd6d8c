"""CEL rules for the schemas, as the API server runs them."""

from __future__ import annotations

from pydantic import ConfigDict

# A part of a path that is not '..'. As patterns, since CEL's budget is not enough for lists of paths.
_PART = r"([^/.][^/]*|\.[^/.][^/]*|\.\.[^/]+|\.)"
RELATIVE_PATH = rf"^{_PART}(/{_PART}?)*$"
RELATIVE_PATH_OR_NONE = rf"^({_PART}(/{_PART}?)*)?$"
ABSOLUTE_PATH = rf"^(/{_PART}?)+$"


def rules(*found: dict[str, str]) -> ConfigDict:
    """A model's config that puts these rules on its schema."""
    return ConfigDict(json_schema_extra={"x-kubernetes-validations": [dict(one) for one in found]})


def exactly_one(where: str, *fields: str) -> dict[str, str]:
    """That an object (`where`: its name in messages) has exactly one of the fields."""
    count = " + ".join(f"(has(self.{field}) ? 1 : 0)" for field in fields)
    names = f"{', '.join(fields[:-1])} and {fields[-1]}"
    return {"rule": f"{count} == 1", "message": f"{where} takes exactly one of {names}"}
