"""docs/api.md from the models: every field with its type, default, bounds and meaning. Run `python -m iris_operator.api.reference`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iris_operator.api import crd
from iris_operator.api.base import Resource
from iris_operator.api.quantity import QUANTITY_PATTERN

_FILE = Path("docs/api.md")
_HEAD = """<!-- Generated from operator/iris_operator/api by `make generate`. Do not edit. -->
# API reference: `iris.dev/v1alpha1`

Four kinds, all namespaced. The same words are in the cluster: `kubectl explain slice.spec`. `kubectl get iris` lists all of them.
A *quantity* is Kubernetes': `500m`, `2`, `16Gi`. A field marked **required** has no default.
"""


def render() -> str:
    """The whole page."""
    return _HEAD + "".join(_kind(model) for model in crd.KINDS)


def _kind(model: type[Resource]) -> str:
    body = crd.crd(model)
    names, version = body["spec"]["names"], body["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    parts = [
        f"\n## {model.KIND}\n\n{schema['description']}\n\n",
        f"`kubectl get {names['plural']}`, short `{names['shortNames'][0]}`; ",
        f"columns {_listed(one['name'] for one in version['additionalPrinterColumns'])}",
    ]
    selectable = [one["jsonPath"].lstrip(".") for one in version.get("selectableFields", [])]
    if selectable:
        parts.append(f"; field selectors {_listed(selectable)}")
    parts.append(".\n")
    for part in ("spec", "status"):
        parts.append(_section(part, schema["properties"][part]))
    return "".join(parts)


def _section(name: str, schema: dict[str, Any]) -> str:
    rules = [rule["message"] for rule in schema.get("x-kubernetes-validations", [])]
    said = f" Rules: {'; '.join(rules)}." if rules else ""
    head = f"\n### {name}\n\n{schema['description']}{said}\n\n| field | type | default, bounds | meaning |\n|---|---|---|---|\n"
    rows = [
        f"| `{path}` | {_type(one)} | {_bounds(one, needed)} | {_cell(one)} |\n" for path, one, needed in _walk(schema)
    ]
    return head + "".join(rows)


def _walk(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Path, schema and whether it is required, of each field below, in the models' order."""
    for name, part in schema.get("properties", {}).items():
        yield prefix + name, part, name in schema.get("required", [])
        yield from _walk(part, f"{prefix}{name}.")
        if isinstance(part.get("items"), dict):
            yield from _walk(part["items"], f"{prefix}{name}[].")


def _type(schema: dict[str, Any]) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity" if schema.get("pattern") == QUANTITY_PATTERN else "integer or string"
    if schema.get("format") == "date-time":
        return "time"
    if isinstance(schema.get("items"), dict):
        return f"list of {_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "object"))


def _bounds(schema: dict[str, Any], required: bool) -> str:
    said = ["**required**"] if required else []
    if "default" in schema and schema["default"] not in ("", {}, []):
        said.append(f"`{json.dumps(schema['default'])}`")
    if "enum" in schema:
        said.append("one of " + _listed(schema["enum"]))
    for name, words in (
        ("minimum", "≥ {}"),
        ("maximum", "≤ {}"),
        ("maxItems", "at most {}"),
        ("maxProperties", "at most {}"),
    ):
        if name in schema and not schema.get("x-kubernetes-int-or-string"):
            said.append(words.format(schema[name]))
    return ", ".join(said)


def _cell(schema: dict[str, Any]) -> str:
    within = [*schema.get("x-kubernetes-validations", [])]
    if isinstance(schema.get("items"), dict):
        within += schema["items"].get("x-kubernetes-validations", [])
    said = [str(schema.get("description", "")), *(f"Rule: {one['message']}." for one in within)]
    return " ".join(said).replace("|", "\\|")


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main(root: Path, check: bool) -> bool:
    """Write the page below `root`, or only compare; whether it was stale."""
    path, text = root / _FILE, render()
    if path.exists() and path.read_text() == text:
        return False
    if check:
        sys.stderr.write(f"{_FILE} is not what the models say: run make generate\n")
    else:
        path.write_text(text)
    return True


if __name__ == "__main__":
    only_check = "--check" in sys.argv[1:]
    sys.exit(1 if main(Path.cwd(), only_check) and only_check else 0)
