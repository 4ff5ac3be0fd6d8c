"""What a node's devices are called, and what a container gets for them. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

GPU = "nvidia.com/gpu"
RDMA = "rdma/ib"
NOTHING = "/dev/null"
"""Every fake device is this one in the host: it opens, reads nothing and swallows what is written."""

_NAMESPACE = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")


@dataclass(frozen=True)
class Device:
    """One device as the kubelet knows it."""

    id: str
    healthy: bool = True


@dataclass(frozen=True)
class Allocation:
    """What a container gets: environment, and pairs of paths (in the container, on the host)."""

    env: tuple[tuple[str, str], ...]
    paths: tuple[tuple[str, str], ...]


def gpus(node: str, count: int, sick: int = 0) -> list[Device]:
    """The node's GPUs with lasting ids; the last `sick` of them are Unhealthy."""
    return [Device(_gpu_id(node, index), healthy=index < count - sick) for index in range(count)]


def rdma(count: int) -> list[Device]:
    """Shares of the node's InfiniBand ports."""
    return [Device(f"ib-{index}") for index in range(count)]


def allocation(resource: str, ids: Sequence[str], everything: Sequence[Device]) -> Allocation:
    """What the container gets for these ids; KeyError-free: unknown ids are refused by the caller."""
    if resource == RDMA:
        return Allocation(env=(), paths=(("/dev/infiniband/uverbs0", NOTHING), ("/dev/infiniband/rdma_cm", NOTHING)))
    order = [device.id for device in everything]
    indexes = sorted(order.index(one) for one in ids)
    visible = ",".join(order[index] for index in indexes)
    names = [*(f"/dev/nvidia{index}" for index in indexes), "/dev/nvidiactl", "/dev/nvidia-uvm"]
    return Allocation(env=(("NVIDIA_VISIBLE_DEVICES", visible),), paths=tuple((name, NOTHING) for name in names))


def _gpu_id(node: str, index: int) -> str:
    return f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{index}')}"
