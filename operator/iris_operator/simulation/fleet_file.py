"""A fleet: ScaleGroups and an IrisCluster as kubectl applies them, and how the vendor is to behave. From YAML text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from iris_operator.api.cluster import IrisCluster, IrisClusterSpec
from iris_operator.api.names import GPU_RESOURCE, RDMA_RESOURCE
from iris_operator.api.quantity import amounts, plus, to_quantities
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.simulation.behaviour import Behaviour, BootTime, InstanceType, Window
from iris_operator.simulation.spans import Span
from iris_operator.simulation.workload import TraceError, first_problem

VENDOR_KIND = "SimulatedVendor"
_NODE = {"cpu": "64", "memory": "500Gi"}
_Share = Annotated[float, Field(ge=0, le=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)


class BootRow(_Strict):
    """How long nodes boot: half of them at most p50, 95 of 100 at most p95 (log-normal), none under least."""

    p50: Span = 1320.0
    p95: Span = 1620.0
    least: Span = 0.0


class CapacityRow(_Strict):
    """From then on (since the trace's start), so many nodes in all."""

    since: Span = 0.0
    nodes: Annotated[int, Field(ge=0)]


class TypeRow(_Strict):
    """One instance type; shares are of nodes, from 0 to 1."""

    resources: dict[str, str | int] = Field(default_factory=dict)
    boot: BootRow = BootRow()
    never_boots: _Share = 0.0
    unfit: _Share = 0.0
    mean_hours_between_failures: Annotated[float, Field(ge=0)] = 0.0
    quota: Annotated[int | None, Field(ge=0)] = None
    capacity: list[CapacityRow] = Field(default_factory=list)


class VendorSpec(_Strict):
    """Everything around Iris."""

    types: dict[str, TypeRow] = Field(default_factory=dict)
    release: Span = 120.0
    replace: Span = 600.0
    task_start: Span = 1.0


@dataclass(frozen=True)
class Fleet:
    """What is simulated, besides Tasks."""

    cluster: IrisClusterSpec
    groups: tuple[ScaleGroup, ...]
    behaviour: Behaviour


def parse_fleet(texts: Iterable[str]) -> Fleet:
    """From the texts of some files together. Raises TraceError."""
    cluster, vendor = IrisClusterSpec(), VendorSpec()
    groups: dict[str, ScaleGroup] = {}
    for number, body in enumerate(_documents(texts), start=1):
        kind = body.get("kind", "")
        name = (body.get("metadata") or {}).get("name", "")
        where = f"document {number} ({kind} {name})".replace(" )", ")")
        try:
            if kind == "ScaleGroup":
                groups[name] = ScaleGroup.parse(body)
            elif kind == "IrisCluster":
                cluster = IrisCluster.parse(body).spec
            elif kind == VENDOR_KIND:
                vendor = VendorSpec.model_validate(body.get("spec") or {})
            else:
                raise TraceError(f"{where}: only ScaleGroup, IrisCluster and {VENDOR_KIND} are known here")
        except ValidationError as error:
            raise TraceError(f"{where}: {first_problem(error)}") from error
    if not groups:
        raise TraceError("it has no ScaleGroup: without one there is nowhere to run")
    images = cluster.images.model_copy(update={"agent": cluster.images.agent or "simulated"})
    return Fleet(
        cluster.model_copy(update={"images": images}), tuple(groups.values()), _behaviour(vendor, groups.values())
    )


def _documents(texts: Iterable[str]) -> Iterable[dict[str, Any]]:
    for text in texts:
        try:
            found = list(yaml.safe_load_all(text))
        except yaml.YAMLError as error:
            raise TraceError(f"it is not YAML: {error}") from error
        for body in found:
            if body is None:
                continue
            if not isinstance(body, dict):
                raise TraceError(f"a document is no object: {str(body)[:60]}")
            yield body


def _behaviour(vendor: VendorSpec, groups: Iterable[ScaleGroup]) -> Behaviour:
    types = {name: _type(row) for name, row in vendor.types.items()}
    for group in groups:
        spec = group.spec.template.spec
        known = types.get(spec.instance_type) or types.get("*") or InstanceType(resources={})
        types[spec.instance_type] = replace(known, resources=known.resources or _resources(group))
    return Behaviour(
        types=types,
        release_seconds=vendor.release,
        replace_seconds=vendor.replace,
        task_start_seconds=vendor.task_start,
    )


def _type(row: TypeRow) -> InstanceType:
    return InstanceType(
        resources={name: str(text) for name, text in row.resources.items()},
        boot=BootTime(row.boot.p50, row.boot.p95, row.boot.least),
        never_boots=row.never_boots,
        unfit=row.unfit,
        mtbf_hours=row.mean_hours_between_failures,
        quota=row.quota,
        capacity=tuple(Window(one.since, one.nodes) for one in sorted(row.capacity, key=lambda one: one.since)),
    )


def _resources(group: ScaleGroup) -> dict[str, str]:
    """What a node offers when nobody says: the group's own words, and a bit more for Iris itself."""
    spec = group.spec.template.spec
    devices = {GPU_RESOURCE: spec.gpus_per_node, RDMA_RESOURCE: int(spec.infiniband)}
    offers = {**_NODE, **{name: str(number) for name, number in devices.items() if number}}
    said = amounts({**offers, **group.spec.node_resources})
    own = amounts({"cpu": "1", "memory": "1Gi"}) if group.spec.node_resources else {}
    return to_quantities(plus(said, own))
