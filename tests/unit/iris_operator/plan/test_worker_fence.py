"""When a worker Pod may leave the API: the fence before another attempt of its Tasks."""

from __future__ import annotations

import pytest

from iris_operator.plan.slices.worker_fence import may_leave
from tests.builders import PodBuilder, worker

HELD = worker().meta(finalizers=["iris.dev/worker"])
LEAVING = HELD.deleting().meta(deletionGracePeriodSeconds=60)
FORCED = HELD.deleting().meta(deletionGracePeriodSeconds=0)

# the Pod, whether its Node object stands -> whether it may leave
CASES: dict[str, tuple[PodBuilder, bool, bool]] = {
    "runs": (HELD.ready(), True, False),
    "runs, as far as anyone knows: its node is gone": (HELD.ready(), False, False),
    "evicted, nobody deleted it yet": (HELD.status(phase="Failed"), True, False),
    "deleted, its containers run": (LEAVING.ready(), True, False),
    "deleted, its containers have ended, its cgroup stands": (LEAVING.status(phase="Failed"), True, False),
    "deleted, and the kubelet is through": (FORCED.status(phase="Failed"), True, True),
    "deleted, and the kubelet is through, exit code 0": (FORCED.status(phase="Succeeded"), True, True),
    "deleted by force, the node is silent": (FORCED.ready(), True, False),
    "deleted by force, never seen by its kubelet": (FORCED, True, False),
    "deleted, its node is gone": (LEAVING.ready(), False, True),
    "deleted by force, its node is gone": (FORCED.ready(), False, True),
    "deleted before it was put on a node": (FORCED.spec(nodeName=""), False, True),
    "not held by us": (FORCED.status(phase="Failed").meta(finalizers=["other"]), False, False),
}


@pytest.mark.parametrize("name", CASES)
def test_may_leave(name: str) -> None:
    pod, node_stands, wanted = CASES[name]
    assert may_leave(pod.build(), node_stands) is wanted
