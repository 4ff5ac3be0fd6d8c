"""Whole GPUs of the worker Pod, shared out among its Tasks. Pure; who has what is on the sandboxes' labels.

The device plugin names the Pod's GPUs in NVIDIA_VISIBLE_DEVICES, and gives device nodes: one per GPU (/dev/nvidia0 ...), some
that all GPUs share (/dev/nvidiactl ...), and those of InfiniBand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from iris_operator.api.probe import PortStatus
from iris_runtimes.protocol import Device, PodContext

_ONE_GPU = re.compile(r"^/dev/nvidia(\d+)$")
_OF_GPUS = re.compile(r"^/dev/(nvidia.*|dri(/.*)?)$")
_NONE = {"", "void", "none", "all"}


@dataclass(frozen=True)
class Grant:
    """What one sandbox gets. `gpu_devices`: nodes of its GPUs, in their order where all are known, then those all GPUs share."""

    gpus: tuple[str, ...] = ()
    gpu_devices: tuple[Device, ...] = ()
    devices: tuple[Device, ...] = ()
    ports: tuple[PortStatus, ...] = ()


class NoFreeGpus(Exception):
    """Fewer are free than asked for; the message has the numbers."""


@dataclass(frozen=True)
class Inventory:
    """The worker's devices. `nodes`: a GPU's id -> its own device node, where it has one."""

    gpus: tuple[str, ...] = ()
    nodes: Mapping[str, Device] | None = None
    shared: tuple[Device, ...] = ()
    others: tuple[Device, ...] = ()

    def grant(self, count: int, rdma: bool, taken: Iterable[str]) -> Grant:
        """`count` GPUs that nobody has, lowest first, and the InfiniBand devices if asked for. Raises NoFreeGpus."""
        busy = set(taken)
        free = [gpu for gpu in self.gpus if gpu not in busy]
        if len(free) < count:
            raise NoFreeGpus(f"needs {count} GPUs; {len(free)} of this worker's {len(self.gpus)} are free")
        given = tuple(free[:count])
        return Grant(given, self.nodes_of(given), self.others if rdma else ())

    def nodes_of(self, gpus: Sequence[str]) -> tuple[Device, ...]:
        """Device nodes of these GPUs, then those that all share; of no GPU, none."""
        own = [self.nodes[gpu] for gpu in gpus if self.nodes and gpu in self.nodes]
        return (*own, *self.shared) if gpus else ()


def inventory(context: PodContext, minors: Mapping[str, int] | None = None) -> Inventory:
    """What the Pod was given. `minors`: GPU id -> number of its device node, as the driver says.

    Without the driver's word, ids that are numbers name their nodes, and others are paired with them in order.
    """
    visible = context.env.get("NVIDIA_VISIBLE_DEVICES", "")
    ids = tuple(visible.split(",")) if visible not in _NONE else ()
    numbered = sorted(
        ((int(match[1]), device) for device in context.devices if (match := _ONE_GPU.match(device.container_path))),
        key=lambda pair: pair[0],
    )
    if not ids:  # a plugin that only gives device nodes
        ids = tuple(str(number) for number, _ in numbered)
    by_number = dict(numbered)
    nodes: dict[str, Device] = {}
    for position, gpu in enumerate(ids):
        number = (minors or {}).get(gpu, int(gpu) if gpu.isdigit() else None)
        if number is None and position < len(numbered):
            number = numbered[position][0]
        if number is not None and number in by_number:
            nodes[gpu] = by_number[number]
    rest = [device for device in context.devices if not _ONE_GPU.match(device.container_path)]
    return Inventory(
        gpus=ids,
        nodes=nodes,
        shared=tuple(device for device in rest if _OF_GPUS.match(device.container_path)),
        others=tuple(device for device in rest if not _OF_GPUS.match(device.container_path)),
    )


def driver_minors(information: Iterable[str]) -> dict[str, int]:
    """GPU id -> device number, from the texts of /proc/driver/nvidia/gpus/*/information."""
    found: dict[str, int] = {}
    for text in information:
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        uuid, minor = fields.get("GPU UUID", "").strip(), fields.get("Device Minor", "").strip()
        if uuid and minor.isdigit():
            found[uuid] = int(minor)
    return found
