"""Containers that outlive their Tasks, on a real node: what one Task leaves, the next finds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.product.world import World

pytestmark = pytest.mark.e2e


def _stays(policy: str = "Persistent", **lifetime: Any) -> dict[str, Any]:
    return {
        "containerLifetime": {"policy": policy, "name": "lab", **lifetime},
        "placement": {"sliceName": "lab"},
        "terminationGracePeriodSeconds": 2,
    }


def test_what_one_task_leaves_the_next_finds(world: World) -> None:
    world.apply("Slice", "lab", {"instanceType": "cd-gp-i64-erapids"})
    world.kubectl("wait", "--for=condition=Ready", "slice/lab", "--timeout=120s")
    script = "set -u\necho making it ready\necho ready >/tmp/ready\nfalse | cat\n"  # pipefail: this ends it
    world.task("broken", "echo never", **_stays(setupScript={"inline": script}))
    status = world.ended("broken")
    assert (status["phase"], status["reason"]) == ("Failed", "SetupFailed")
    assert "exited with 1" in status["message"] and "making it ready" in status["message"]

    script = script.replace("false | cat\n", "")
    world.task("first", "cat /tmp/ready; echo mine >/tmp/left", **_stays(setupScript={"inline": script}))
    assert world.ended("first")["phase"] == "Succeeded"
    assert world.iris("logs", "first").splitlines() == ["making it ready", "ready"]

    world.task("second", "cat /tmp/left; sleep 1000 & exit 3", **_stays())
    status = world.ended("second")
    assert (status["phase"], status["exitCode"]) == ("Failed", 3)
    assert world.iris("logs", "second").splitlines() == ["mine"]

    world.task(
        "third", "cat /tmp/left; trap 'echo told; exit 0' TERM; while :; do sleep 0.1; done", **_stays("NoLaunch")
    )
    world.wait_phase("third", "Running")
    world.kill_in_pod("lab-worker-0", "iris-agent")
    world.until(lambda: "mine" in world.log("third"), "the log after the agent's end")
    world.kubectl("delete", "task", "third", "--timeout=60s")

    world.task(
        "fourth", "echo never", **{**_stays("NoLaunch"), "containerLifetime": {"policy": "NoLaunch", "name": "other"}}
    )
    status = world.ended("fourth")
    assert (status["phase"], status["reason"]) == ("Failed", "ContainerNotRunning")
    world.kubectl("delete", "task", "broken", "first", "second", "fourth", "--timeout=60s")
    world.kubectl("delete", "slice", "lab", "--timeout=120s")
