"""By which road a sandbox gets its GPUs, and by what names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from iris_runtimes.containerd.gpus import GpuRoad, cdi_names, gpu_road, nvidia_program
from iris_runtimes.errors import NodeFault
from iris_runtimes.protocol import Device

GPU = "nvidia.com/gpu"
CTL = "/dev/nvidiactl"


def nodes(*paths: str) -> list[Device]:
    return [Device(path, path) for path in paths]


def described(**devices: list[str]) -> Mapping[str, Mapping[str, Any]]:
    """Name -> the paths of its nodes; a name is written without its leading `_`."""
    return {
        f"{GPU}={name.lstrip('_').replace('_', '-')}": {"deviceNodes": [{"path": path} for path in paths]}
        for name, paths in devices.items()
    }


FOUR_AND_SEVEN = described(_0=["/dev/nvidia7"], _1=["/dev/nvidia4"], all=["/dev/nvidia4", "/dev/nvidia7"])
ONE = described(_0=["/dev/nvidia0", "/dev/dri/card1"], all=["/dev/nvidia0"])
BY_UUID = described(GPU_a=["/dev/nvidia0"], GPU_b=["/dev/nvidia1"])
SLICED = described(_0_1=["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3"], MIG_x=["/dev/nvidia0", "/dev/nvidia-caps/c"])

NAMES: dict[str, tuple[list[str], list[Device], Mapping[str, Mapping[str, Any]], tuple[str, ...]]] = {
    "by uuid": (["GPU-b"], nodes("/dev/nvidia1", CTL), BY_UUID, (f"{GPU}=GPU-b",)),
    "a number counts otherwise in CDI than in /dev": (
        ["4", "7"], nodes("/dev/nvidia4", "/dev/nvidia7", CTL), FOUR_AND_SEVEN, (f"{GPU}=1", f"{GPU}=0")
    ),
    "a uuid by its node, where CDI counts": (["GPU-a"], nodes("/dev/nvidia4", CTL), FOUR_AND_SEVEN, (f"{GPU}=1",)),
    "a number without a node": (["1"], [], FOUR_AND_SEVEN, (f"{GPU}=1",)),
    "a machine's only one is not all": (["0"], nodes("/dev/nvidia0"), ONE, (f"{GPU}=0",)),
    "one of them is not described": (["GPU-a", "GPU-c"], nodes("/dev/nvidia0", "/dev/nvidia2"), BY_UUID, ()),
    "a part of a GPU is not the GPU": (["GPU-a"], nodes("/dev/nvidia0"), SLICED, ()),
    "a part by its uuid": (["MIG-x"], nodes("/dev/nvidia0"), SLICED, (f"{GPU}=MIG-x",)),
    "no files": (["0"], nodes("/dev/nvidia0"), {}, ()),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_in_cdi(name: str) -> None:
    gpus, devices, files, expected = NAMES[name]
    assert cdi_names(gpus, devices, files) == expected


OWN = nodes("/dev/nvidia0", "/dev/nvidia1", CTL)
ROADS: dict[str, tuple[list[str], list[Device], list[str], str, GpuRoad]] = {
    "none": ([], OWN, [], "nvidia", GpuRoad()),
    "cdi first": (
        ["0"], OWN, [f"{GPU}=0"], "nvidia", GpuRoad((f"{GPU}=0",), env=(("NVIDIA_VISIBLE_DEVICES", "void"),))
    ),
    "nvidia's runtime": (
        ["a", "b"], OWN, [], "nvidia",
        GpuRoad((), "nvidia", env=(("NVIDIA_VISIBLE_DEVICES", "a,b"), ("NVIDIA_DRIVER_CAPABILITIES", "all"))),
    ),
    "device nodes": (["a", "b"], OWN, [], "", GpuRoad(devices=tuple(OWN))),
}  # fmt: skip


@pytest.mark.parametrize("name", ROADS)
def test_the_road(name: str) -> None:
    gpus, devices, named, program, expected = ROADS[name]
    assert gpu_road(gpus, devices, named, program) == expected


@pytest.mark.parametrize("devices", [[], nodes(CTL), OWN], ids=["no nodes", "shared ones only", "not one for each"])
def test_no_road(devices: list[Device]) -> None:
    with pytest.raises(NodeFault, match=r"no CDI file.*no NVIDIA runtime.*nodes are not known"):
        gpu_road(["0"], devices, [], "")


PROGRAMS: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({"containerd": {"runtimes": {"runc": {"options": {"BinaryName": ""}}}}}, ""),
    "no options": ({"containerd": {"runtimes": {"runc": {"options": None}}}}, ""),
    "nothing is said": ({}, ""),
    "as NVIDIA's tools write it": (
        {"containerd": {"runtimes": {
            "a": {"options": {"BinaryName": "/opt/nvidia-container-runtime"}},
            "nvidia": {"options": {"BinaryName": "/usr/bin/nvidia-container-runtime"}},
            "nvidia-cdi": {"options": {"BinaryName": "/usr/bin/nvidia-container-runtime.cdi"}},
        }}},
        "/usr/bin/nvidia-container-runtime",
    ),
    "under another name": (
        {"containerd": {"runtimes": {"gpu": {"options": {"BinaryName": "/opt/nvidia-container-runtime"}}}}},
        "/opt/nvidia-container-runtime",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_nvidias_program(name: str) -> None:
    config, expected = PROGRAMS[name]
    assert nvidia_program(config) == expected
