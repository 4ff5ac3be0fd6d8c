"""A Task of higher priority takes the place of a lower one, which ends in its own time and runs again later."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.product.world import World

pytestmark = pytest.mark.e2e

# The first attempt never ends by itself; the one after it is done at once.
_LOW = """
echo attempt $IRIS_ATTEMPT
[ $IRIS_ATTEMPT -gt 1 ] && exit 0
trap 'echo told; exit 3' TERM
while :; do sleep 0.1; done
"""
_HIGH = "echo up; while [ ! -e /tmp/go ]; do sleep 0.1; done"


def _all_of(world: World, slice_name: str) -> dict[str, Any]:
    """What leaves no room for a second one on the slice's node."""
    found = world.get("slice", slice_name)
    assert found is not None
    return {"requests": {"cpu": found["status"]["nodes"][0]["allocatable"]["cpu"]}}


def test_the_higher_takes_the_place_of_the_lower(world: World, slice_name: str) -> None:
    wants = {"resources": _all_of(world, slice_name), "placement": {"sliceName": slice_name}}
    bye = {"preStop": {"exec": {"command": ["sh", "-c", "echo bye >/proc/1/fd/1"]}}}
    world.task("low", _LOW, lifecycle=bye, terminationGracePeriodSeconds=20, **wants)
    world.wait_phase("low", "Running")
    world.task("high", _HIGH, priority=10, terminationGracePeriodSeconds=2, **wants)

    world.wait_phase("high", "Running")
    low = world.get("task", "low")
    assert low is not None
    assert (low["status"]["phase"], low["status"]["retries"]["preemption"]) == ("Pending", 1)
    (first,) = low["status"]["attempts"]
    assert (first["reason"], first["cause"], first["exitCode"]) == ("Preempted", "Preemption", 3)
    assert "its place is for Task high" in first["message"]
    events = world.kubectl(
        "get", "events", "-o", "jsonpath={range .items[*]}{.regarding.name}{.involvedObject.name} {.reason}{'\\n'}{end}"
    )
    assert {"low Preempted", "high Preempting"} <= set(events.splitlines())

    world.iris("exec", "high", "--", "touch", "/tmp/go")
    assert world.ended("high")["phase"] == "Succeeded"
    status = world.ended("low")
    assert (status["phase"], status["attempt"]) == ("Succeeded", 2)
    assert world.iris("logs", "low") == "attempt 2\n"
    assert world.iris("logs", "low", "--previous") == "attempt 1\nbye\ntold\n"
