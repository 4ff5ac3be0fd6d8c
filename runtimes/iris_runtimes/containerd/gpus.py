"""How a sandbox gets its GPUs with their driver's libraries: by CDI where the node describes them, else by NVIDIA's runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iris_runtimes.errors import NodeFault

_KIND = "nvidia.com/gpu"
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_DRIVER = "NVIDIA_DRIVER_CAPABILITIES"


@dataclass(frozen=True)
class GpuRoad:
    """CDI devices to add, or the program that runc's place is taken by; and the environment that goes with it."""

    cdi_devices: tuple[str, ...] = ()
    runtime_binary: str = ""
    env: tuple[tuple[str, str], ...] = ()


def cdi_names(gpus: Sequence[str]) -> tuple[str, ...]:
    """The GPUs' names in CDI."""
    return tuple(f"{_KIND}={gpu}" for gpu in gpus)


def gpu_road(gpus: Sequence[str], in_cdi: bool, nvidia_runtime: str) -> GpuRoad:
    """NodeFault when the node offers neither. `in_cdi`: whether its CDI files describe all of the GPUs."""
    if not gpus:
        return GpuRoad()
    if in_cdi:
        # "void": a runtime of NVIDIA's below us must not add them a second time
        return GpuRoad(cdi_names(gpus), env=((_VISIBLE, "void"),))
    if nvidia_runtime:
        return GpuRoad((), nvidia_runtime, ((_VISIBLE, ",".join(gpus)), (_DRIVER, "all")))
    raise NodeFault(
        f"GPUs {', '.join(gpus)} can't be given: no CDI file describes {_KIND}, and there is no NVIDIA runtime"
    )
