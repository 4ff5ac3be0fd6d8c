"""What a plan may contain."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from iris_devcluster.coreweave.model import Labels, Machine


class StepKind(enum.StrEnum):
    """What can be done to a machine."""

    BOOT = "boot"
    CUT = "cut"
    FREEZE = "freeze"
    THAW = "thaw"
    REMOVE = "remove"


@dataclass(frozen=True)
class NodeSpec:
    """How a node boots; the same fields as the cluster's own NodeSpec."""

    name: str
    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    system_reserved: Labels = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One thing to do to one machine; `spec` only for BOOT."""

    kind: StepKind
    machine: str
    reason: str
    spec: NodeSpec | None = None


@dataclass(frozen=True)
class NodePatch:
    """Labels and annotations to set on a Node."""

    node: str
    labels: Labels
    annotations: Labels


@dataclass(frozen=True)
class DeviceOffer:
    """Devices that a node advertises: `gpus` of which `sick_gpus` Unhealthy, and `rdma` of rdma/ib."""

    gpus: int = 0
    sick_gpus: int = 0
    rdma: int = 0


@dataclass(frozen=True)
class PoolEvent:
    """An Event on a NodePool."""

    pool: str
    uid: str
    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True)
class Plan:
    """All that should be done now. Records come before steps, so that a crash in between loses nothing."""

    add_finalizer: tuple[str, ...] = ()
    drop_finalizer: tuple[str, ...] = ()
    records: tuple[Machine, ...] = ()
    steps: tuple[Step, ...] = ()
    node_patches: tuple[NodePatch, ...] = ()
    devices: Mapping[str, DeviceOffer] = field(default_factory=dict)
    statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    events: tuple[PoolEvent, ...] = ()
    wake_at: datetime | None = None
