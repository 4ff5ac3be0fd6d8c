"""What the simulator knows at one moment, frozen: NodePools, machines, Nodes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from iris_devcluster.coreweave.catalogue import Catalogue
from iris_devcluster.coreweave.settings import Settings

GROUP = "compute.coreweave.com"
FINALIZER = "compute.coreweave.com/node-pool"
"""Ours: the vendor's finalizer is not documented; that a deleted NodePool waits for its nodes is."""
POOL_LABEL = "compute.coreweave.com/node-pool"
POOL_UID_LABEL = "compute.coreweave.com/node-pool-uid"
REMOVE_LABEL = "compute.coreweave.com/remove-node"
"""On a Node: take this one first when scaling down."""

Labels = Mapping[str, str]

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Pool:
    """A NodePool, parsed. `status` is as last written; `target` of racks is resolved by the plan."""

    name: str
    uid: str
    instance_type: str
    target_nodes: int | None = None
    target_racks: int | None = None
    created: datetime = _LONG_AGO
    generation: int = 1
    deleting: bool = False
    finalized: bool = True
    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    image: Mapping[str, str] = field(default_factory=dict)
    gpu_version: str = ""
    prefer_idle: bool = False
    priority: int = 0
    status: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_api(cls, body: Mapping[str, Any]) -> Pool:
        """From the API server's JSON; defaults there are the CRD's."""
        meta, spec = body["metadata"], body.get("spec") or {}
        return cls(
            name=meta["name"],
            uid=meta["uid"],
            instance_type=spec["instanceType"],
            target_nodes=spec.get("targetNodes"),
            target_racks=spec.get("targetRacks"),
            created=parse_time(meta["creationTimestamp"]),
            generation=meta.get("generation", 1),
            deleting="deletionTimestamp" in meta,
            finalized=FINALIZER in (meta.get("finalizers") or []),
            labels=spec.get("nodeLabels") or {},
            annotations=spec.get("nodeAnnotations") or {},
            taints=tuple(spec.get("nodeTaints") or ()),
            image=spec.get("image") or {},
            gpu_version=(spec.get("gpu") or {}).get("version", ""),
            prefer_idle=(spec.get("lifecycle") or {}).get("scaleDownStrategy") == "PreferIdle",
            priority=(spec.get("schedulingPriority") or {}).get("value", 0),
            status=body.get("status") or {},
        )


class Power(enum.StrEnum):
    """What was last done to a machine, and what should be."""

    OFF = "off"
    ON = "on"
    FROZEN = "frozen"


@dataclass(frozen=True)
class Machine:
    """A machine that a NodePool holds: one record of the inventory, written before anything is done to it."""

    name: str
    pool: str
    pool_uid: str
    instance_type: str
    assigned_at: datetime
    power: Power = Power.OFF
    registered: bool = False
    releasing: bool = False
    dead_since: datetime | None = None

    def to_data(self) -> dict[str, Any]:
        """JSON for the inventory."""
        return {
            "pool": self.pool,
            "poolUid": self.pool_uid,
            "instanceType": self.instance_type,
            "assignedAt": self.assigned_at.isoformat(),
            "power": str(self.power),
            "registered": self.registered,
            "releasing": self.releasing,
            "deadSince": self.dead_since.isoformat() if self.dead_since else None,
        }

    @classmethod
    def from_data(cls, name: str, data: Mapping[str, Any]) -> Machine:
        """The reverse of to_data."""
        return cls(
            name=name,
            pool=data["pool"],
            pool_uid=data["poolUid"],
            instance_type=data["instanceType"],
            assigned_at=parse_time(data["assignedAt"]),
            power=Power(data["power"]),
            registered=data["registered"],
            releasing=data["releasing"],
            dead_since=parse_time(data["deadSince"]) if data.get("deadSince") else None,
        )


@dataclass(frozen=True)
class NodeFact:
    """A Node object, as far as it matters here."""

    name: str
    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)

    @classmethod
    def from_api(cls, body: Mapping[str, Any]) -> NodeFact:
        """From the API server's JSON."""
        meta = body["metadata"]
        return cls(meta["name"], meta.get("labels") or {}, meta.get("annotations") or {})


@dataclass(frozen=True)
class HostSize:
    """The computer that all the nodes share: cores, bytes."""

    cpu: float
    memory: float


@dataclass(frozen=True)
class Snapshot:
    """Everything a plan is made from."""

    pools: tuple[Pool, ...]
    machines: Mapping[str, Machine]
    nodes: Mapping[str, NodeFact]
    running: frozenset[str]
    """Machines that the host has."""
    settings: Settings
    catalogue: Catalogue
    host: HostSize
    in_use: frozenset[str] = frozenset()
    """Nodes with Pods that a scale-down must spare."""
    busy: frozenset[str] = frozenset()
    """Machines that a step is being done to just now."""


def parse_time(text: str) -> datetime:
    """RFC 3339, always with a time zone."""
    return datetime.fromisoformat(text)
