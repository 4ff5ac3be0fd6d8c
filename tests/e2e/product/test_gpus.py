"""GPUs on a real node that describes them by CDI: a Task gets those that it was given, with what their driver brings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest

from iris_devcluster.nodes import Cluster
from tests.e2e.product.world import World

pytestmark = pytest.mark.e2e

SLICE, GPUS = "described", 8
SCRIPT = "ls /dev | grep nvidia; echo $BROUGHT $NVIDIA_VISIBLE_DEVICES; sleep 1000"


@pytest.fixture
def node(world: World) -> Iterator[str]:
    """A node of eight GPUs, whose file of CDI counts them in another order than /dev, as those of vendors may."""
    world.apply("Slice", SLICE, {"instanceType": "gd-8xh100ib-i128", "gpusPerNode": GPUS})
    world.kubectl("wait", "--for=condition=Ready", f"slice/{SLICE}", "--timeout=120s")
    devices = [
        {"name": str(GPUS - 1 - one), "containerEdits": {"deviceNodes": [_device(f"/dev/nvidia{one}")]}}
        for one in range(GPUS)
    ]
    common = {"env": ["BROUGHT=by-cdi"], "deviceNodes": [_device("/dev/nvidiactl")]}
    body = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": devices, "containerEdits": common}
    name = world.node_of(SLICE)
    # The worker Pod has had the folder made.
    command = f"printf %s {shlex.quote(json.dumps(body))} >/etc/cdi/nvidia.json"
    assert Cluster.open(world.root).node_exec(name, ["sh", "-c", command]).returncode == 0
    yield name
    world.kubectl("delete", "task/three", f"slice/{SLICE}", "--ignore-not-found", "--timeout=60s")


def _device(path: str) -> dict[str, str]:
    return {"path": path, "hostPath": "/dev/null"}  # every fake device is that one


def test_a_task_gets_its_gpus_by_cdi(world: World, node: str) -> None:
    resources = {"limits": {"nvidia.com/gpu": 3, "cpu": "100m", "memory": "64Mi"}}
    placement = {"sliceName": SLICE}
    world.task("three", SCRIPT, resources=resources, placement=placement, terminationGracePeriodSeconds=0)

    def whole() -> list[str]:
        said = world.log("three")
        return said.splitlines() if "by-cdi" in said else []

    lines = world.until(whole, "the Task's log")
    given = {line for line in lines if line.startswith("nvidia")}
    assert "nvidiactl" in given
    assert len(given) == 1 + 3
    assert "by-cdi void" in lines
    (shown,) = json.loads(world.iris("top", "nodes", SLICE, "-o", "json"))
    assert (shown["gpus"], shown["gpusGiven"], shown["gpusBy"]) == (GPUS, 3, "CDI")
