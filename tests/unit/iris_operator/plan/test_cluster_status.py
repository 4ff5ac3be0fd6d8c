"""What an IrisCluster tells of its installation."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.plan.cluster_status import NodePoolAccess, plan_cluster_status
from iris_operator.plan.conditions import find_condition
from iris_operator.plan.placement.placement import PlacementView, free_by_slot
from tests.builders import NAMESPACE, NOW, Builder, SliceBuilder, TaskBuilder, cluster, slice_, task

_FINE = NodePoolAccess(True, "Available", "answers")
_FORBIDDEN = NodePoolAccess(False, "NodePoolAPIForbidden", "may not")


def _status(
    of: Builder[Any], slices: tuple[SliceBuilder, ...] = (), tasks: tuple[TaskBuilder, ...] = (),
    access: NodePoolAccess = _FINE,
) -> Any:  # fmt: skip
    built = of.build()
    owners, wanted = [one.build() for one in slices], tuple(one.build() for one in tasks)
    slots = free_by_slot(PlacementView(NAMESPACE, (built,), tuple(owners), wanted))
    return plan_cluster_status(built, owners, wanted, slots, access, "1.2.3", NOW)


CASES: dict[str, tuple[Builder[Any], tuple[SliceBuilder, ...], NodePoolAccess, str, str, str]] = {
    "fine": (cluster(), (), _FINE, "True", "Ready", "slices can be made"),
    "no agent image": (cluster(images={}), (), _FINE, "False", "AgentImageMissing", "spec.images.agent is empty"),
    "NodePools may not be used": (cluster(), (), _FORBIDDEN, "False", "NodePoolAPIForbidden", "may not"),
    "leaving, with slices": (
        cluster().deleting(), (slice_("a"), slice_("b")), _FINE, "False", "WaitingForSlices", "waits for 2 slices: a, b",
    ),
    "leaving, empty": (cluster().deleting(), (), _FORBIDDEN, "False", "Deleted", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_ready(name: str) -> None:
    of, slices, access, status, reason, words = CASES[name]
    found = find_condition(_status(of, slices, access=access).conditions, "Ready")
    assert found is not None
    assert (found.status, found.reason) == (status, reason)
    assert words in found.message


def test_counts() -> None:
    slices = (slice_("a").ready({"cpu": "4", "gpu": 8}), slice_("b").phase("Failed"), slice_("c").phase("Booting"))
    tasks = (
        task("1"), task("2").requests(cpu="1", gpu=2, memory="1Gi").bound("a").phase("Running"), task("3").bound("a"),
        task("4").bound("a").phase("Succeeded"), task("5").bound("a").phase("WorkerLost"), task("6").phase("Killed"),
    )  # fmt: skip
    status = _status(cluster(), slices, tasks)
    assert (status.slices.total, status.slices.ready, status.slices.failed) == (3, 1, 1)
    assert (status.tasks.pending, status.tasks.running, status.tasks.succeeded, status.tasks.failed) == (1, 2, 1, 2)
    assert status.capacity == {"cpu": "4", "nvidia.com/gpu": "8"}
    assert status.free == {"cpu": "2900m", "nvidia.com/gpu": "6"}
    assert [(one.version, one.count) for one in status.agents] == [("1", 1)]
    assert status.operator_version == "1.2.3"


def test_the_node_pool_api_has_a_condition() -> None:
    found = find_condition(_status(cluster(), access=_FORBIDDEN).conditions, "NodePoolAPI")
    assert found is not None and (found.status, found.reason) == ("False", "NodePoolAPIForbidden")


def test_when_settings_changed() -> None:
    assert _status(cluster()).last_settings_change == NOW
    old = "2026-11-20T00:00:00Z"
    known = cluster().status(observedGeneration=1, lastSettingsChange=old)
    assert _status(known).wire()["lastSettingsChange"] == old
    assert _status(known.meta(generation=2)).last_settings_change == NOW
