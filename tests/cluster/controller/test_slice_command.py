"""`iris slice` with the real operator behind it: drained means drained."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from iris_operator.ports.kube import NODEPOOLS, SLICES, TASKS
from tests.cluster.controller.world import World
from tests.programs import run

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]


async def _iris(kubeconfig: Path, world: World, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error; the world turns on meanwhile."""
    argv = ["iris", *arguments, "-n", world.namespace, "--kubeconfig", str(kubeconfig)]
    done = await asyncio.to_thread(run, argv, {**os.environ, "NO_COLOR": "1"}, 60)
    return done.returncode, done.stdout, done.stderr


async def test_an_idle_slice_is_drained_at_once_and_comes_back(world: World, kubeconfig: Path) -> None:
    await world.make(SLICES, "s", {"instanceType": "cd-gp-i64-erapids"})
    await world.phase(SLICES, "s", "Ready")
    for _ in range(2):  # the word of the first drain is not taken for the second
        done = await _iris(kubeconfig, world, "slice", "drain", "s", "--timeout", "20s")
        assert done[:2] == (0, "slice/s: drained, no Task is left on it\n"), done
        assert (await _iris(kubeconfig, world, "slice", "uncordon", "s"))[0] == 0


async def test_a_drain_waits_for_its_tasks_and_places_nothing_new(world: World, kubeconfig: Path) -> None:
    await world.make(SLICES, "s", {"instanceType": "cd-gp-i64-erapids"})
    await world.phase(SLICES, "s", "Ready")
    await world.make(TASKS, "one", {"image": "iris/task:1"})
    await world.bound("one")
    code, _, err = await _iris(kubeconfig, world, "slice", "drain", "s", "--timeout", "3s")
    assert code == 1 and "1 Task left: one" in err
    assert (await world.find(TASKS, "one"))["spec"]["binding"]["stopReason"] == "SliceDrained"
    await world.make(TASKS, "two", {"image": "iris/task:1"})
    await world.agent_says("one", "Succeeded", exitCode=0, reason="Completed")
    code, out, _ = await _iris(kubeconfig, world, "slice", "drain", "s", "--timeout", "20s")
    assert (code, out) == (0, "slice/s: drained, no Task is left on it\n")
    assert "binding" not in (await world.find(TASKS, "two"))["spec"]


async def test_delete_ends_when_the_node_pool_is_gone(world: World, kubeconfig: Path) -> None:
    await world.make(SLICES, "s", {"instanceType": "cd-gp-i64-erapids"})
    await world.phase(SLICES, "s", "Ready")
    code, out, _ = await _iris(kubeconfig, world, "slice", "delete", "s", "--timeout", "40s")
    assert (code, out) == (0, "slice/s: gone\n")
    assert await world.all(NODEPOOLS) == []
