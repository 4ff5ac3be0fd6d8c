"""What a Task can ask for, and what it is told."""

from __future__ import annotations

import pytest

from tests.e2e.product.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("slice_name")]


def test_exit_code_is_told(world: World) -> None:
    world.task("fails", "echo bad; exit 3")
    status = world.ended("fails")
    assert (status["phase"], status["exitCode"], status["reason"]) == ("Failed", 3, "Error")
    assert "3" in status["message"]
    assert world.iris("logs", "fails") == "bad\n"


def test_environment_user_directory(world: World) -> None:
    world.task("asks", 'id -u; id -g; pwd; echo "$GREETING"', env=[{"name": "GREETING", "value": "hello"}],
               workingDir="/tmp", securityContext={"runAsUser": 1234, "runAsGroup": 99})  # fmt: skip
    world.ended("asks")
    assert world.iris("logs", "asks").split() == ["1234", "99", "/tmp", "hello"]


def test_out_of_memory_is_told(world: World) -> None:
    world.task("eats", "x=a; while :; do x=$x$x; done", resources={"limits": {"memory": "32Mi"}})
    status = world.ended("eats")
    assert (status["phase"], status["reason"]) == ("Failed", "OOMKilled")
    assert "32Mi" in status["message"]


def test_missing_command_is_the_users(world: World) -> None:
    world.apply("Task", "lost", {"image": "iris/task:dev", "command": ["/nonexistent"]})
    status = world.ended("lost")
    assert (status["phase"], status["reason"]) == ("Failed", "CommandNotFound")
    assert "/nonexistent" in status["message"]


def test_missing_image_is_told(world: World) -> None:
    world.apply("Task", "no-image", {"image": "iris/no-such-image:1", "command": ["true"]})
    status = world.ended("no-image")
    assert (status["phase"], status["reason"]) == ("Failed", "ImageNotFound")


def test_delete_stops_it_within_its_grace(world: World) -> None:
    world.task("told", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done",
               terminationGracePeriodSeconds=20)  # fmt: skip
    world.wait_phase("told", "Running")
    node = world.node_of("shared")
    assert world.containers(node)
    world.kubectl("delete", "task", "told", "--timeout=15s")
    assert not world.containers(node)


def test_delete_kills_what_will_not_stop(world: World) -> None:
    world.task("deaf", "trap '' TERM; while :; do sleep 0.1; done", terminationGracePeriodSeconds=1)
    world.wait_phase("deaf", "Running")
    world.kubectl("delete", "task", "deaf", "--timeout=15s")
    assert not world.containers(world.node_of("shared"))


def test_too_large_says_the_numbers(world: World) -> None:
    world.task("huge", "true", resources={"requests": {"nvidia.com/gpu": 8}})
    found = world.wait_phase("huge", "Pending")
    message = world.until(lambda: (world.get("task", "huge") or found)["status"].get("message"), "a message")
    assert "nvidia.com/gpu 8" in message
    world.kubectl("delete", "task", "huge", "--timeout=15s")


def test_many_tasks_all_end_once(world: World) -> None:
    names = [f"many-{number}" for number in range(30)]
    for name in names:
        world.task(name, "echo $IRIS_TASK_NAME", resources={"requests": {"cpu": "50m", "memory": "16Mi"}})
    for name in names:
        assert world.ended(name, 90)["phase"] == "Succeeded"
    assert world.iris("logs", names[0]) == f"{names[0]}\n"
    world.kubectl("delete", "tasks", *names, "--timeout=60s")
    assert not world.containers(world.node_of("shared"))
