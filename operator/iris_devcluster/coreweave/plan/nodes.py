"""How a machine becomes a node: its name, labels, size and devices."""

from __future__ import annotations

import hashlib
from collections.abc import Container
from datetime import datetime

from iris_devcluster.coreweave import quantity
from iris_devcluster.coreweave.catalogue import InstanceType
from iris_devcluster.coreweave.model import POOL_LABEL, POOL_UID_LABEL, Machine, Pool, Snapshot
from iris_devcluster.coreweave.plan.actions import DeviceOffer, NodeSpec


def new_name(pool: Pool, index: int, now: datetime, taken: Container[str]) -> str:
    """Seven characters as the vendor's own names have, never given twice: the moment is part of it."""
    salt = 0
    while True:
        seed = f"{pool.uid}/{now.isoformat()}/{index}/{salt}"
        name = "g" + hashlib.sha256(seed.encode()).hexdigest()[:6]
        if name not in taken:
            return name
        salt += 1


def labels_of(pool: Pool, kind: InstanceType, zone: str) -> dict[str, str]:
    """The NodePool's own labels and those that CKS puts on its nodes (docs/coreweave-nodepool.md has the sources)."""
    labels = {
        **pool.labels,
        "node.kubernetes.io/instance-type": kind.name,
        "node.coreweave.cloud/type": kind.name,
        "node.coreweave.cloud/class": "gpu" if kind.gpus else "cpu",
        "node.coreweave.cloud/state": "production",
        POOL_LABEL: pool.name,
        POOL_UID_LABEL: pool.uid,
        "topology.kubernetes.io/region": zone.rstrip("ABCDEF"),
        "topology.kubernetes.io/zone": zone,
    }
    if kind.gpus:
        labels |= {
            "gpu.nvidia.com/class": kind.gpu_class,
            "gpu.nvidia.com/model": kind.gpu_model,
            "gpu.nvidia.com/count": str(kind.gpus),
        }
    return labels


def spec_of(machine: Machine, pool: Pool, snapshot: Snapshot) -> NodeSpec:
    """The node's boot configuration; what the computer has beyond the node's size is reserved for the system."""
    kind = snapshot.catalogue[machine.instance_type]
    settings, host = snapshot.settings, snapshot.host
    cpu = min(kind.cpu, quantity.parse(settings.node_cpu))
    memory = min(kind.memory, quantity.parse(settings.node_memory))
    return NodeSpec(
        name=machine.name,
        labels=labels_of(pool, kind, settings.zone),
        annotations=pool.annotations,
        taints=pool.taints,
        system_reserved={
            "cpu": quantity.millicores(max(0.0, host.cpu - cpu)),
            "memory": quantity.kibibytes(max(0.0, host.memory - memory)),
        },
    )


def offer_of(machine: Machine, snapshot: Snapshot) -> DeviceOffer:
    """The devices that the node advertises, less those that a fault took."""
    kind = snapshot.catalogue[machine.instance_type]
    values = snapshot.settings.of(machine.instance_type, machine.pool, machine.name)
    gpus = kind.gpus if values.gpus is None else min(kind.gpus, values.gpus)
    return DeviceOffer(gpus=gpus, sick_gpus=min(gpus, values.sick_gpus or 0), rdma=kind.rdma)
