"""How a sandbox gets its GPUs: by CDI where the node has it, else by NVIDIA's runtime, else as device nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from iris_runtimes.errors import NodeFault
from iris_runtimes.protocol import Device

KINDS = ("nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu")
"""What nvidia-ctk and NVIDIA's device plugin call them in CDI; looked for in this order."""

_ONE_GPU = re.compile(r"/dev/nvidia\d+")
_PART_OF_ONE = "/dev/nvidia-caps/"  # of a MIG device, which has its GPU's node too
_ALL = "all"
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_DRIVER = "NVIDIA_DRIVER_CAPABILITIES"


@dataclass(frozen=True)
class GpuRoad:
    """CDI devices to add, or the program that runc's place is taken by, or device nodes; and the environment with it."""

    cdi_devices: tuple[str, ...] = ()
    runtime_binary: str = ""
    devices: tuple[Device, ...] = ()
    env: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> str:
        """For people."""
        if self.cdi_devices:
            return "CDI"
        if self.runtime_binary:
            return f"NVIDIA's runtime {self.runtime_binary}"
        return "device nodes, without the driver's libraries" if self.devices else ""


def cdi_names(
    gpus: Sequence[str], devices: Sequence[Device], described: Mapping[str, Mapping[str, Any]]
) -> tuple[str, ...]:
    """The GPUs' full names in CDI; empty unless it describes all of them.

    `devices`: their own nodes, in the same order, where they are known; what follows is shared. `described`: what one kind's
    devices bring, by their full names. A uuid is a name. A number is one only where no node is known: it counts by the PCI
    bus in CDI, and by the driver's minors in /dev, and these may differ.
    """
    own = _own(devices)
    nodes: Sequence[str] = own if len(own) == len(gpus) else [""] * len(gpus)
    found = [_name(gpu, node, described) for gpu, node in zip(gpus, nodes, strict=True)]
    return tuple(found) if all(found) else ()


def gpu_road(gpus: Sequence[str], devices: Sequence[Device], named: Sequence[str], nvidia_runtime: str) -> GpuRoad:
    """NodeFault when the node offers none. `named`: the GPUs in CDI; `devices`: their nodes and those that all share."""
    if not gpus:
        return GpuRoad()
    if named:
        # "void": a runtime of NVIDIA's below us must not add them a second time
        return GpuRoad(tuple(named), env=((_VISIBLE, "void"),))
    if nvidia_runtime:
        env = ((_VISIBLE, ",".join(gpus)), (_DRIVER, "all"))
        return GpuRoad(runtime_binary=nvidia_runtime, env=env)
    if len(_own(devices)) == len(gpus):
        return GpuRoad(devices=tuple(devices))
    raise NodeFault(
        f"GPUs {', '.join(gpus)} can't be given: no CDI file describes them as {KINDS[0]}, there is no NVIDIA runtime, "
        "and their device nodes are not known"
    )


def _own(devices: Sequence[Device]) -> list[str]:
    return [one.container_path for one in devices if _ONE_GPU.fullmatch(one.container_path)]


def _name(gpu: str, node: str, described: Mapping[str, Mapping[str, Any]]) -> str:
    by_id = next((name for name in described if name.partition("=")[2] == gpu), "")
    if by_id and not gpu.isdigit():
        return by_id
    if not node:
        return by_id
    same = {name: edits for name, edits in described.items() if _is_just(edits, node) and not name.endswith(f"={_ALL}")}
    return by_id if by_id in same else next(iter(sorted(same)), "")


def _is_just(edits: Mapping[str, Any], node: str) -> bool:
    """Whether a device is the whole GPU of that node, and no other."""
    paths = [str(one.get("path", "")) for one in edits.get("deviceNodes") or ()]
    whole = [path for path in paths if _ONE_GPU.fullmatch(path)]
    return whole == [node] and not any(path.startswith(_PART_OF_ONE) for path in paths)


def nvidia_program(config: Mapping[str, Any]) -> str:
    """The program of NVIDIA's runtime in containerd's settings for the kubelet (JSON of its CRI status); empty without one.

    The handler `nvidia`, as NVIDIA's own tools write it, or any whose program has its name.
    """
    runtimes = (config.get("containerd") or {}).get("runtimes") or {}
    programs = {name: str((one.get("options") or {}).get("BinaryName") or "") for name, one in runtimes.items()}
    ordered = chain([programs.get("nvidia", "")], (programs[name] for name in sorted(programs)))
    return next((path for path in ordered if path.rpartition("/")[2] == "nvidia-container-runtime"), "")
