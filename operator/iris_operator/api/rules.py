"""CEL rules for the schemas, as the API server runs them."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

# A part of a path that is not '..'. As patterns, since CEL's budget is not enough for lists of paths.
_PART = r"([^/.][^/]*|\.[^/.][^/]*|\.\.[^/]+|\.)"
RELATIVE_PATH = rf"^{_PART}(/{_PART}?)*$"
RELATIVE_PATH_OR_NONE = rf"^({_PART}(/{_PART}?)*)?$"
ABSOLUTE_PATH = rf"^(/{_PART}?)+$"


Rule = dict[str, Any]


def rules(*found: Rule) -> ConfigDict:
    """A model's config that puts these rules on its schema."""
    return ConfigDict(json_schema_extra={"x-kubernetes-validations": [dict(one) for one in found]})


def at_creation(rule: Rule) -> Rule:
    """The rule, asked only when an object is made: what it looks at never changes, and each field that it names costs the API
    server some 20 KB of garbage, at every write of status and binding too."""
    return {**rule, "rule": f"oldSelf.hasValue() || ({rule['rule']})", "optionalOldSelf": True}


def exactly_one(where: str, *fields: str) -> Rule:
    """That an object (`where`: its name in messages) has exactly one of the fields."""
    count = " + ".join(f"(has(self.{field}) ? 1 : 0)" for field in fields)
    names = f"{', '.join(fields[:-1])} and {fields[-1]}"
    return {"rule": f"{count} == 1", "message": f"{where} takes exactly one of {names}"}
