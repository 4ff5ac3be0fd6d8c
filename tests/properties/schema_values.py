"""Values that a CRD's schema takes, for Hypothesis: all but the rules in CEL, so somewhat more than the API server would."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

_REPOSITORY = Path(__file__).resolve().parents[2]
_MOST_MEMBERS = 8  # optional ones of an object at a time: it is combinations that find something, not size
_MOST_ITEMS = 3
_MOST_TEXT = 40
_HUGE = 2**63 - 1


@lru_cache
def spec_schema(kind_plural: str) -> dict[str, Any]:
    """The generated schema of a kind's spec."""
    crd = yaml.safe_load((_REPOSITORY / "crds" / f"iris.dev_{kind_plural}.yaml").read_text())
    found: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Anything that this schema takes."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return _integers(schema) | _texts(schema)
    if schema["type"] == "boolean":
        return st.booleans()
    makers: dict[str, Callable[[dict[str, Any]], st.SearchStrategy[Any]]] = {
        "object": _objects, "array": _arrays, "string": _texts, "integer": _integers,
    }  # fmt: skip
    return makers[schema["type"]](schema)


def _objects(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "additionalProperties" in schema:
        return st.dictionaries(st.text(max_size=20), values(schema["additionalProperties"]), max_size=_MOST_ITEMS)
    members = {name: values(one) for name, one in schema.get("properties", {}).items()}
    needed = set(schema.get("required", ()))
    optional = sorted(set(members) - needed)

    @st.composite
    def made(draw: st.DrawFn) -> dict[str, Any]:
        chosen = draw(st.lists(st.sampled_from(optional), max_size=_MOST_MEMBERS, unique=True)) if optional else []
        return {name: draw(members[name]) for name in [*sorted(needed), *chosen]}

    return made()


def _arrays(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    least = schema.get("minItems", 0)
    most = min(schema.get("maxItems", _MOST_ITEMS), least + _MOST_ITEMS)
    keys: list[str] = schema.get("x-kubernetes-list-map-keys", [])
    items = values(schema["items"])
    if not keys:
        return st.lists(items, min_size=least, max_size=most)
    return st.lists(
        items, min_size=least, max_size=most, unique_by=lambda one: tuple(str(one.get(key)) for key in keys)
    )


def _texts(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 2**20)
    if schema.get("format") == "date-time":
        return st.datetimes().map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True).filter(lambda text: least <= len(text) <= most)
    return st.text(min_size=least, max_size=min(most, least + _MOST_TEXT))


def _integers(schema: dict[str, Any]) -> st.SearchStrategy[int]:
    return st.integers(schema.get("minimum", -_HUGE), schema.get("maximum", _HUGE))
