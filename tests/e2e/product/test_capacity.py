"""Scale groups on real nodes: from zero and back, quota and the next group, nodes that never boot, rollouts, drains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.product.world import World

pytestmark = pytest.mark.e2e

CPU, GPU = "cd-gp-i64-erapids", "gd-8xh100ib-i128"
QUICK = {
    "evaluationIntervalSeconds": 2,
    "scaleUpDelaySeconds": 0,
    "scaleDownDelaySeconds": 4,
    "startupGracePeriodSeconds": 60,
    "launchGraceSeconds": 2,
    "backoffSeconds": 20,
}
LOOP = "trap 'exit 1' TERM; while :; do sleep 0.1; done"


@pytest.fixture(scope="module", autouse=True)
def quick(world: World) -> Iterator[None]:
    """Delays of seconds instead of minutes, for this file only."""
    before = world.get("iriscluster", "default")
    assert before is not None
    world.kubectl(
        "patch", "iriscluster", "default", "--type=merge", "-p", yaml.safe_dump({"spec": {"autoscaler": QUICK}})
    )
    yield
    spec = before["spec"].get("autoscaler")
    world.kubectl(
        "patch", "iriscluster", "default", "--type=merge", "-p", yaml.safe_dump({"spec": {"autoscaler": spec}})
    )


@pytest.fixture
def made(world: World) -> Iterator[list[str]]:
    """What a test makes, as kind/name: gone at its end, with all NodePools of its groups."""
    names: list[str] = []
    yield names
    world.devcluster("cloud", "clear")
    for kind in ("task", "slice", "scalegroup"):
        mine = [name for name in names if name.startswith(f"{kind}/")]
        if mine:
            world.kubectl("delete", *mine, "--ignore-not-found", "--timeout=120s", "--wait=true")
    for name in names:
        group = name.removeprefix("scalegroup/")
        if group != name:
            world.until(lambda group=group: not _pools(world, group), f"NodePools of {group} to be gone", 90)  # type: ignore[misc]


def _group(world: World, made: list[str], name: str, template: dict[str, Any] | None = None, **spec: Any) -> None:
    made.append(f"scalegroup/{name}")
    template = {"instanceType": CPU, "nodeLabels": {"test": name}, **(template or {})}
    world.apply("ScaleGroup", name, {"template": {"spec": template}, **spec})


def _task(world: World, made: list[str], name: str, script: str, **spec: Any) -> None:
    made.append(f"task/{name}")
    world.task(name, script, **spec)


def _pools(world: World, group: str) -> list[str]:
    return world.names("nodepools", "-l", f"iris-scale-group={group}")


def _slices(world: World, group: str) -> list[dict[str, Any]]:
    return world.objects("slices", "--field-selector", f"spec.scaleGroupName={group}")


def _status(world: World, group: str) -> dict[str, Any]:
    status: dict[str, Any] = (world.get("scalegroup", group) or {}).get("status", {})
    return status


def test_from_zero_on_a_task_and_back_to_zero(world: World, made: list[str]) -> None:
    _group(world, made, "zero", maxSlices=2)
    _task(world, made, "wakes", "echo awake", placement={"scaleGroupName": "zero"})
    assert world.ended("wakes", 90)["phase"] == "Succeeded"
    world.until(lambda: not _slices(world, "zero"), "the idle slice to be given back", 90)
    assert _pools(world, "zero") == []
    # The group hears of it a moment later.
    world.until(lambda: _status(world, "zero")["slices"] == 0, "the group to count no slice", 15)
    actions = [one["action"] for one in _status(world, "zero")["decisions"]]
    assert "ScaleUp" in actions
    assert "ScaleDown" in actions


def test_a_slice_at_work_is_not_scaled_down(world: World, made: list[str]) -> None:
    """For more than twice as long as an idle one would stay."""
    _group(world, made, "busy", maxSlices=1)
    _task(world, made, "works-long", "sleep 14; echo through", placement={"scaleGroupName": "busy"})
    status = world.ended("works-long", 120)
    assert (status["phase"], status["attempt"]) == ("Succeeded", 1)


def test_over_quota_the_work_lands_on_the_next_group(world: World, made: list[str]) -> None:
    world.devcluster("cloud", "set", "--instance-type", GPU, "--quota", "0")
    try:
        _group(world, made, "first", {"instanceType": GPU}, maxSlices=2, priority=10)
        _group(world, made, "second", maxSlices=2, priority=1)
        _task(world, made, "lands", "echo landed")
        assert world.ended("lands", 120)["phase"] == "Succeeded"
        task = world.get("task", "lands")
        assert task is not None
        owner = world.get("slice", task["spec"]["binding"]["sliceName"])
        assert owner is not None
        assert owner["spec"]["scaleGroupName"] == "second"
        first = _status(world, "first")
        assert first["backoff"]["reason"] == "OverQuota"
        assert "quota" in first["backoff"]["message"]
    finally:
        world.devcluster("cloud", "set", "--instance-type", GPU, "--quota", "none")


def test_a_node_that_never_boots_fails_and_is_given_back(world: World, made: list[str]) -> None:
    before = world.get("iriscluster", "default")
    assert before is not None
    short = {"spec": {"timeouts": {"bootSeconds": 8}}}
    world.kubectl("patch", "iriscluster", "default", "--type=merge", "-p", yaml.safe_dump(short))
    try:
        made.append("slice/never")
        world.devcluster("cloud", "fault", "default-never", "--boot", "never")
        world.apply("Slice", "never", {"instanceType": CPU})
        found = world.until(
            lambda: (
                one if (one := world.get("slice", "never") or {}).get("status", {}).get("phase") == "Failed" else None
            ),
            "the slice to fail",
        )
        assert found["status"]["failure"] == "Slow"
        assert "bootSeconds" in found["status"]["message"]
        world.until(
            lambda: not world.names("nodepools", "-l", "iris-slice-id=default-never"), "its NodePool to be gone"
        )
    finally:
        normal = {"spec": {"timeouts": {"bootSeconds": before["spec"].get("timeouts", {}).get("bootSeconds")}}}
        world.kubectl("patch", "iriscluster", "default", "--type=merge", "-p", yaml.safe_dump(normal))


def test_a_changed_template_rolls_the_slices(world: World, made: list[str]) -> None:
    _group(world, made, "rolls", minSlices=2, maxSlices=3)
    world.kubectl("wait", "--for=condition=Ready", "scalegroup/rolls", "--timeout=120s")
    old = {one["metadata"]["uid"] for one in _slices(world, "rolls")}
    assert len(old) == 2
    _group(world, made, "rolls", {"nodeLabels": {"test": "rolls", "wave": "two"}}, minSlices=2, maxSlices=3)

    def rolled() -> bool:
        now = [one for one in _slices(world, "rolls") if "deletionTimestamp" not in one["metadata"]]
        assert sum(one.get("status", {}).get("phase") == "Ready" for one in _slices(world, "rolls")) >= 1
        new = [
            one for one in now if one["metadata"]["uid"] not in old and one["spec"]["nodeLabels"].get("wave") == "two"
        ]
        return len(new) == len(now) == 2 and all(one["status"]["phase"] == "Ready" for one in new)

    world.until(rolled, "both slices to be of the new template", 180)


def test_a_drained_slice_sends_its_tasks_elsewhere(world: World, made: list[str]) -> None:
    made += ["slice/drained", "slice/other"]
    for name in ("drained", "other"):
        world.apply("Slice", name, {"instanceType": CPU, "nodeLabels": {"test": "drain"}})
    for name in ("drained", "other"):
        world.kubectl("wait", "--for=condition=Ready", f"slice/{name}", "--timeout=120s")
    world.iris("slice", "cordon", "other")
    _task(world, made, "moves", f"echo here; {LOOP}")
    first = world.wait_phase("moves", "Running", seconds=60)["spec"]["binding"]["sliceName"]
    world.iris("slice", "uncordon", "other")
    world.iris("slice", "drain", first, "--timeout", "60")

    def moved() -> dict[str, Any] | None:
        task = world.get("task", "moves") or {}
        again = (task.get("status") or {}).get("attempt") == 2 and task["status"]["phase"] == "Running"
        return task if again else None

    task = world.until(moved, "the Task to run elsewhere", 60)
    assert task["spec"]["binding"]["sliceName"] != first
    assert task["status"].get("retries", {}).get("infrastructure", 0) == 0, "a drain costs no retry"
    assert task["status"]["attempts"][0]["reason"] == "SliceDrained"
    assert (world.get("slice", first) or {})["status"]["tasks"] == 0


def test_a_nodepool_without_its_slice_is_collected_and_a_strangers_is_not(world: World, made: list[str]) -> None:
    before = world.get("iriscluster", "default")
    assert before is not None
    world.kubectl("patch", "iriscluster", "default", "--type=merge", "-p", '{"spec":{"timeouts":{"orphanSeconds":3}}}')
    try:
        world.apply("Slice", "orphan", {"instanceType": CPU})
        world.kubectl("wait", "--for=condition=Ready", "slice/orphan", "--timeout=120s")
        stranger = {
            "apiVersion": "compute.coreweave.com/v1alpha1",
            "kind": "NodePool",
            "metadata": {"name": "strangers"},
            "spec": {"instanceType": CPU, "targetNodes": 0, "computeClass": "default"},
        }
        world.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(stranger))
        # As a person in trouble does it: the finalizer off by hand, the Slice gone at once.
        world.kubectl("delete", "slice", "orphan", "--wait=false")
        world.kubectl("patch", "slice", "orphan", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        world.until(
            lambda: not world.names("nodepools", "-l", "iris-slice-id=default-orphan"), "its NodePool to be gone", 60
        )
        assert world.names("nodepools", "--field-selector", "metadata.name=strangers") != []
    finally:
        world.kubectl("delete", "nodepool", "strangers", "--ignore-not-found", "--timeout=30s")
        world.kubectl(
            "patch", "iriscluster", "default", "--type=merge", "-p", '{"spec":{"timeouts":{"orphanSeconds":300}}}'
        )
