"""CRDs from the models: structural OpenAPI v3 schemas, printer columns, selectable fields. Run `python -m iris_operator.api.crd`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from iris_operator.api.base import Resource
from iris_operator.api.cluster import IrisCluster
from iris_operator.api.names import GROUP, VERSION
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.api.task_policy import binding, policy


def _column(name: str, path: str, kind: str = "string", description: str = "", priority: int = 0) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "jsonPath": path, "type": kind}
    if description:
        column["description"] = description
    if priority:
        column["priority"] = priority
    return column


_AGE = _column("Age", ".metadata.creationTimestamp", "date")
_READY_REASON = ".status.conditions[?(@.type=='Ready')].reason"

_PRINTER_COLUMNS: dict[type[Resource], list[dict[str, Any]]] = {
    IrisCluster: [
        _column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        _column("Slices", ".status.slices.total", "integer"),
        _column("SlicesReady", ".status.slices.ready", "integer"),
        _column("Pending", ".status.tasks.pending", "integer", "Tasks that wait"),
        _column("Running", ".status.tasks.running", "integer", "Tasks that run"),
        _column("CPU-Free", ".status.free.cpu"),
        _column("GPU-Free", ".status.free.nvidia\\.com/gpu"),
        _column("Reason", _READY_REASON, priority=1),
        _AGE,
    ],
    ScaleGroup: [
        _column("Ready", ".status.ready", "integer", "Slices that are Ready"),
        _column("Booting", ".status.booting", "integer", "Slices on their way"),
        _column("Failed", ".status.failed", "integer", "Slices that failed"),
        _column("Bounds", ".status.bounds", description="minSlices-maxSlices"),
        _column("Demand", ".status.demand", "integer", "Slices that waiting Tasks need beyond what is Ready"),
        _column("Blocked", ".status.backoff.reason", description="Why launches are held back"),
        _column("Until", ".status.blockedUntil", description="No launch before this"),
        _column("Decision", ".status.decisions[0].message", description="The last decision and why"),
        _column("Instance", ".spec.template.spec.instanceType", priority=1),
        _column("Message", ".status.message", description="What it does now and why", priority=1),
        _AGE,
    ],
    Slice: [
        _column("Phase", ".status.phase"),
        _column("Group", ".spec.scaleGroupName"),
        _column("Nodes", ".status.nodesReady", description="Ready/wanted"),
        _column("Tasks", ".status.tasks", "integer", "Tasks bound that have not ended"),
        _column("Idle", ".status.idleSince", "date", "For how long no Task was bound"),
        _column("Age", ".metadata.creationTimestamp", "date"),
        _column("Instance", ".spec.instanceType", priority=1),
        _column("Message", ".status.message", description="What it waits for, or why it failed", priority=1),
    ],
    Task: [
        _column("Phase", ".status.phase"),
        _column("Reason", ".status.reason"),
        _column("Members", ".status.membersReady", description="Ready/wanted, where it has replicas"),
        _column("Attempt", ".status.attempt", "integer", "The attempt that this is said of"),
        _column("Node", ".spec.binding.nodeName"),
        _column("Exit", ".status.exitCode", "integer"),
        _AGE,
        _column("Slice", ".spec.binding.sliceName", priority=1),
        _column("Ready", ".status.conditions[?(@.type=='Ready')].status", priority=1),
        _column("Retries", ".status.retries", description="Retries so far, by whose fault they were", priority=1),
        _column("Started", ".status.startTime", "date", priority=1),
        _column("Image", ".spec.image", priority=1),
        _column("Message", ".status.message", priority=1),
    ],
}
_SHORT_NAMES: dict[type[Resource], list[str]] = {
    IrisCluster: ["ic"],
    ScaleGroup: ["sg"],
    Slice: ["sl"],
    Task: ["tk"],
}
_SELECTABLE_FIELDS: dict[type[Resource], list[str]] = {
    Slice: [".spec.scaleGroupName", ".status.phase"],
    Task: [".spec.binding.nodeName", ".spec.binding.sliceName", ".status.phase"],
}
_SCALE: dict[type[Resource], dict[str, Any]] = {
    # kubectl scale sets how many slices are kept, whatever the demand
    ScaleGroup: {"scale": {"specReplicasPath": ".spec.minSlices", "statusReplicasPath": ".status.slices"}},
}
KINDS: list[type[Resource]] = [IrisCluster, ScaleGroup, Slice, Task]


def _structural(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Pydantic's JSON schema as a structural one: references inlined, `null` alternatives and titles dropped."""
    schema = dict(schema)
    reference = schema.pop("$ref", None)
    if reference:
        target = definitions[reference.rsplit("/", 1)[-1]]
        schema = {**target, **schema}  # a field's own description wins over its type's
    alternatives = [one for one in schema.pop("anyOf", []) if one.get("type") != "null"]
    if alternatives:
        schema = {**alternatives[0], **schema}
        return _structural(schema, definitions)
    if schema.pop("const", None) is not None and "enum" not in schema:
        raise ValueError("const in a CRD schema: use Literal with several values")
    _drop_unstructural(schema)
    if "properties" in schema:
        schema["properties"] = {name: _structural(part, definitions) for name, part in schema["properties"].items()}
        schema.pop("additionalProperties", None)
        if "default" in schema and isinstance(schema["default"], dict):
            schema["default"] = {}  # members default themselves; a copy here would hide a later change of theirs
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            schema[name] = _structural(schema[name], definitions)
    return schema


def _drop_unstructural(schema: dict[str, Any]) -> None:
    for name in ("title", "discriminator", "propertyNames"):
        schema.pop(name, None)
    if schema.get("default", ...) is None:
        schema.pop("default")
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)


def _without_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """Status is written by programs: a default there would look like an observation."""
    schema = {name: value for name, value in schema.items() if name != "default"}
    if "properties" in schema:
        schema["properties"] = {name: _without_defaults(part) for name, part in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            schema[name] = _without_defaults(schema[name])
    return schema


def openapi_schema(model: type[Resource]) -> dict[str, Any]:
    """The structural schema of a kind."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    definitions = raw.pop("$defs", {})
    spec = _structural(raw["properties"]["spec"], definitions)
    status = _without_defaults(_structural(raw["properties"]["status"], definitions))
    schema: dict[str, Any] = {
        "type": "object",
        "description": " ".join((model.__doc__ or "").split()),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }
    if "spec" in raw.get("required", []):
        schema["required"] = ["spec"]
    return schema


def crd(model: type[Resource]) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": openapi_schema(model)},
        "subresources": {"status": {}, **_SCALE.get(model, {})},
        "additionalPrinterColumns": _PRINTER_COLUMNS[model],
    }
    if model in _SELECTABLE_FIELDS:
        version["selectableFields"] = [{"jsonPath": path} for path in _SELECTABLE_FIELDS[model]]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{model.PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": model.KIND,
                "listKind": f"{model.KIND}List",
                "plural": model.PLURAL,
                "singular": model.KIND.lower(),
                "shortNames": _SHORT_NAMES[model],
                "categories": ["iris"],
            },
            "versions": [version],
        },
    }


def files() -> dict[str, str]:
    """File name -> YAML text of every CRD, and of the policy that goes with Tasks."""
    head = "# Generated from operator/iris_operator/api by `make generate`. Do not edit.\n"
    bodies = {f"{GROUP}_{model.PLURAL}.yaml": crd(model) for model in KINDS}
    bodies |= {f"{GROUP}_tasks-policy.yaml": policy(), f"{GROUP}_tasks-policy-binding.yaml": binding()}
    return {name: head + yaml.safe_dump(body, sort_keys=False, width=110) for name, body in bodies.items()}


def main(root: Path, check: bool) -> int:
    """Write the CRDs below `root` (crds/ and the chart), or only compare; returns how many files differ."""
    stale = 0
    for folder in (root / "crds", root / "charts" / "iris" / "files" / "crds"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files().items():
            path = folder / name
            if path.exists() and path.read_text() == text:
                continue
            stale += 1
            if check:
                sys.stderr.write(f"{path.relative_to(root)} is not what the models say: run make generate\n")
            else:
                path.write_text(text)
    return stale


if __name__ == "__main__":
    only_check = "--check" in sys.argv[1:]
    differing = main(Path.cwd(), only_check)
    sys.exit(1 if only_check and differing else 0)
