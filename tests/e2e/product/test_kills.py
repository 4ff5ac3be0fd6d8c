"""kill -9 of each process while a Task runs: it ends once, with its log whole, and nothing is left."""

from __future__ import annotations

import os
import signal

import pytest

from tests.e2e.product.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("slice_name")]

STEPS = 8
SCRIPT = f"echo start; i=0; while [ $i -lt {STEPS} ]; do i=$((i+1)); echo step $i; sleep 1; done; echo end"
WHOLE = ["start", *(f"step {number}" for number in range(1, STEPS + 1)), "end"]


@pytest.mark.parametrize("victim", ["operator", "agent", "containerd", "kubelet"])
def test_kill_nine_loses_nothing_and_runs_nothing_twice(world: World, victim: str) -> None:
    name = f"through-{victim}"
    node = world.node_of("shared")
    world.task(name, SCRIPT)
    world.wait_phase(name, "Running")
    _kill(world, victim, node)
    status = world.ended(name, 90)
    assert (status["phase"], status["exitCode"], status["attempt"]) == ("Succeeded", 0, 1)
    assert world.until(lambda: world.log(name).splitlines(), "the log") == WHOLE
    world.until(lambda: not world.containers(node), "the container to be removed")
    world.kubectl("delete", "task", name, "--timeout=60s")
    world.kubectl("wait", "--for=condition=Ready", "slice/shared", "--timeout=120s")


def _kill(world: World, victim: str, node: str) -> None:
    if victim == "operator":
        pod = world.names("pods", "-l", "app.kubernetes.io/name=iris-operator")[0].removeprefix("pod/")
        world.kill_in_pod(pod, "iris-operator")
    elif victim == "agent":
        world.kill_in_pod("shared-worker-0", "iris-agent")
    else:
        os.kill(world.node_processes(node)[victim], signal.SIGKILL)
