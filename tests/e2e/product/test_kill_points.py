"""The operator killed at every step of a slice's life, on real nodes: it goes on from there, and nothing is left."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.product.world import World

pytestmark = pytest.mark.e2e

NAME = "nine-lives"


def _has_finalizer(world: World) -> bool:
    return bool((world.get("slice", NAME) or {}).get("metadata", {}).get("finalizers"))


def _some(kind: str, labels: str) -> Callable[[World], bool]:
    return lambda world: bool(world.names(kind, "-l", labels))


def _phase(wanted: str) -> Callable[[World], bool]:
    return lambda world: bool((world.get("slice", NAME) or {}).get("status", {}).get("phase") == wanted)


def _pool_deleting(world: World) -> bool:
    pool = world.get("nodepool", f"default-{NAME}")
    return pool is None or "deletionTimestamp" in pool["metadata"]


BIRTH = {
    "finalizer": _has_finalizer,
    "NodePool": _some("nodepools", f"iris-slice-id=default-{NAME}"),
    "node": _some("nodes", f"iris-slice-id=default-{NAME}"),
    "worker Pod": _some("pods", f"iris.dev/slice={NAME}"),
    "agent": _some("leases", f"iris.dev/slice={NAME}"),
}
DEATH = {"deleting": _phase("Deleting"), "NodePool deleting": _pool_deleting}


def _kill_operator(world: World) -> None:
    """Its process, as the kernel would; and its Pod and its Lease, so that another leads at once: test_slices waits for one."""

    def running() -> str:
        pod = world.leader().rpartition("_")[0]  # a standby's death would prove nothing
        return pod if pod and world.get("pod", pod) else ""

    pod = world.until(running, "an operator that leads")
    world.kill_in_pod(pod, "iris-operator")
    world.kubectl("delete", "pod", pod, "--force", "--grace-period=0")
    world.kubectl("delete", "lease", "iris-operator")


def test_killed_at_every_step_it_leaks_nothing(world: World) -> None:
    world.apply("Slice", NAME, {"instanceType": "cd-gp-i64-erapids"})
    for step, reached in BIRTH.items():
        world.until(lambda reached=reached: reached(world), step, 60)  # type: ignore[misc]
        _kill_operator(world)
    world.kubectl("wait", "--for=condition=Ready", f"slice/{NAME}", "--timeout=90s")
    found = world.get("slice", NAME)
    assert found is not None
    assert len(world.names("nodepools", "-l", f"iris-slice-id=default-{NAME}")) == 1
    assert len(world.names("pods", "-l", f"iris.dev/slice={NAME}")) == 1

    world.kubectl("delete", "slice", NAME, "--wait=false")
    for step, reached in DEATH.items():
        world.until(lambda reached=reached: reached(world) or not world.get("slice", NAME), step, 60)  # type: ignore[misc]
        _kill_operator(world)
    world.until(lambda: not world.get("slice", NAME), "the Slice to be gone", 90)
    for kind, labels in {
        "nodepools": f"iris-slice-id=default-{NAME}",
        "nodes": f"iris-slice-id=default-{NAME}",
        "pods": f"iris.dev/slice={NAME}",
    }.items():
        assert world.names(kind, "-l", labels) == []
    world.kubectl("rollout", "status", "deploy/iris-operator", "--timeout=90s")
