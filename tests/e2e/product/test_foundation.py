"""Issue 3's last paragraph, word for word, on real nodes with the installed chart and the example files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.product.world import EXAMPLES, World

pytestmark = pytest.mark.e2e


def test_slice_and_task_from_apply_to_nothing_left(world: World) -> None:
    world.kubectl("apply", "-f", str(EXAMPLES / "slice.yaml"))
    world.kubectl("wait", "--for=condition=Ready", "slice/hello", "--timeout=120s")
    found = world.get("slice", "hello")
    assert found is not None
    assert found["status"]["phase"] == "Ready"
    node = world.node_of("hello")

    world.kubectl("apply", "-f", str(EXAMPLES / "task.yaml"))
    log = world.iris("logs", "hello", "-f")
    assert log.splitlines() == [f"Hello from {node}", "step 1", "step 2", "step 3", "done"]
    status = world.ended("hello")
    assert (status["phase"], status["exitCode"], status["reason"]) == ("Succeeded", 0, "Completed")
    world.kubectl("wait", "--for=condition=Complete", "task/hello", "--timeout=10s")
    world.until(lambda: not world.containers(node), "the container to be removed")

    world.kubectl("delete", "-f", str(EXAMPLES / "task.yaml"), "--timeout=30s")
    world.kubectl("delete", "-f", str(EXAMPLES / "slice.yaml"), "--timeout=60s")
    assert world.names("nodepools", "-l", "iris-slice-id=default-hello") == []
    assert world.names("pods", "-l", "iris.dev/slice=hello") == []
    assert world.names("nodes", "-l", "iris-slice-id=default-hello") == []


def test_gpu_slice_and_task(world: World) -> None:
    world.kubectl("apply", "-f", str(EXAMPLES / "gpu-slice.yaml"))
    world.kubectl("wait", "--for=condition=Ready", "slice/h100", "--timeout=120s")
    world.kubectl("apply", "-f", str(EXAMPLES / "gpu-task.yaml"))
    status = world.ended("two-gpus")
    log = world.iris("logs", "two-gpus")
    assert status["phase"] == "Succeeded", log
    devices = log.splitlines()[0].removeprefix("devices: ").split(",")
    assert len(devices) == 2
    given = [
        line for line in log.splitlines()[1:] if re.fullmatch(r"nvidia\d+", line)
    ]  # nvidiactl and such are everyone's
    assert len(given) == 2
    world.kubectl("delete", "task/two-gpus", "slice/h100", "--timeout=90s")


def test_scale_group_keeps_its_spare(world: World) -> None:
    world.kubectl("apply", "-f", str(EXAMPLES / "scalegroup.yaml"))
    own = ("slices", "--field-selector", "spec.scaleGroupName=cpu")
    world.until(lambda: world.names(*own), "a warm spare")
    (first,) = world.names(*own)
    world.kubectl("wait", "--for=condition=Ready", first, "--timeout=120s")
    world.kubectl("delete", first, "--timeout=60s")
    world.until(lambda: [one for one in world.names(*own) if one != first], "another slice in its place")
    world.kubectl("delete", "scalegroup/cpu", "--cascade=foreground", "--timeout=90s")
    world.until(lambda: not world.names("nodepools", "-l", "iris-scale-group=cpu"), "its NodePools to be gone")


def test_demand_goes_to_the_group_of_the_highest_priority(world: World) -> None:
    at_once = '{"spec": {"autoscaler": {"scaleUpDelaySeconds": 0}}}'
    world.kubectl("patch", "iriscluster", "default", "--type=merge", "-p", at_once)
    world.kubectl("apply", "-f", str(EXAMPLES / "scalegroups.yaml"))
    world.task("routed", "true", resources={"limits": {"cpu": "100m", "memory": "32Mi"}})
    bound = world.wait_phase("routed", "Succeeded", seconds=180)["spec"]["binding"]
    ran_on = world.get("slice", bound["sliceName"])
    assert ran_on is not None and ran_on["spec"]["scaleGroupName"] == "reserved"
    world.kubectl("delete", "task/routed")
    world.kubectl("delete", "scalegroup/reserved", "scalegroup/spot", "--cascade=foreground", "--timeout=90s")
    world.until(lambda: not world.names("nodepools", "-l", "iris-scale-group in (reserved,spot)"), "no NodePool left")
    usual = '{"spec": {"autoscaler": {"scaleUpDelaySeconds": null}}}'
    world.kubectl("patch", "iriscluster", "default", "--type=merge", "-p", usual)


def test_every_example_is_run_here() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [path.name for path in EXAMPLES.glob("*.yaml") if f'(EXAMPLES / "{path.name}")' not in tests] == []
