"""Why a Slice fails, as one word for programs, and after how long."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from iris_operator.api.slice import FailureKind, SlicePhase
from iris_operator.plan.conditions import find_condition
from iris_operator.plan.slices.lifecycle import plan_live_slice
from iris_operator.plan.slices.obstacles import Obstacle, rate_limited
from iris_operator.plan.slices.snapshot import SliceView
from tests.builders import NOW, SliceBuilder, cluster, group_member, lease, node, node_pool, slice_, worker
from tests.unit.iris_operator.plan.views import healthy, ready_reason, verbs, view

_POOL = node_pool().validated().made(100)
_LATE = node_pool().validated().made(1800)
_NO_QUOTA = _POOL.condition("Quota", "False", "Over", "limit is 4")
_NO_CAPACITY = _POOL.condition("Capacity", "False", "QueuedAwaitingCapacity", "busy")
_INTERNAL = node_pool().made(100).condition("Validated", "Unknown", "InternalError", "try later")
_INVALID = Obstacle("launch", "InvalidNodePool", "no such field", FailureKind.INVALID_REQUEST)
_REFUSED = Obstacle("launch", "NodePoolRefused", "may not", FailureKind.INTERNAL)
_HAND, _GROUP = slice_(), group_member("g", "s")
_GPUS = slice_(gpusPerNode=8)


def _since(ago: float, owner: SliceBuilder = _GROUP) -> SliceBuilder:
    """The NodePool has not been accepted for so long."""
    return owner.condition("NodePoolAccepted", "False", ago=ago)


@dataclass(frozen=True)
class Case:
    """A view; the phase, Ready's reason and the failure judged from it, and words of the message."""

    view: SliceView
    phase: str
    reason: str
    failure: str = ""
    words: str = ""


CASES = {
    # a group's slice: its demand goes to the next group
    "over quota, group, at first": Case(
        view(_GROUP, _NO_QUOTA), "Booting", "OverQuota", "", "fails at 12:01:00 UTC (launchGraceSeconds)"
    ),
    "over quota, group, within the grace": Case(view(_since(59), _NO_QUOTA), "Booting", "OverQuota"),
    "over quota, group": Case(
        view(_since(60), _NO_QUOTA), "Failed", "OverQuota", "OverQuota", "limit is 4: for 60s (launchGraceSeconds)"
    ),
    "no capacity, group": Case(view(_since(60), _NO_CAPACITY), "Failed", "NoCapacity", "NoCapacity", "busy"),
    "partly filled, group": Case(
        view(
            _since(60, group_member("g", "s").spec(nodeCount=2)),
            _NO_CAPACITY.status(currentNodes=1, queuedNodes=1),
            [node()],
        ),
        "Failed",
        "NoCapacity",
        "NoCapacity",
        "1 of 2 nodes Ready",
    ),
    "from no quota to no capacity, the grace goes on": Case(
        view(_since(60), _NO_CAPACITY), "Failed", "NoCapacity", "NoCapacity"
    ),
    "a fault of the vendor's, group": Case(
        view(_since(60), _INTERNAL), "Failed", "Internal", "Internal", "InternalError: try later"
    ),
    "capacity came in time": Case(view(_since(60), _POOL), "Booting", "WaitingForNodes"),
    "no capacity, the boot limit comes first": Case(
        view(
            _since(60), _NO_CAPACITY.made(1800), settings=cluster(autoscaler={"launchGraceSeconds": 7200}).build().spec
        ),
        "Failed",
        "BootTimeout",
        "NoCapacity",
    ),
    # by hand: it may wait
    "over quota, by hand": Case(view(_since(900, _HAND), _NO_QUOTA), "Booting", "OverQuota", "", "(bootSeconds)"),
    "over quota, by hand, at the boot limit": Case(
        view(_since(900, _HAND), _NO_QUOTA.made(1800)), "Failed", "BootTimeout", "OverQuota"
    ),
    "no capacity, by hand, at the boot limit": Case(
        view(_HAND, _NO_CAPACITY.made(1800)), "Failed", "BootTimeout", "NoCapacity"
    ),
    # both
    "invalid, at once": Case(
        view(_HAND, node_pool().condition("Validated", "False", "Invalid", "no such type")),
        "Failed",
        "InvalidNodePool",
        "InvalidRequest",
        "no such type",
    ),
    "invalid, group, at once": Case(
        view(_GROUP, node_pool().condition("Valid", "False")), "Failed", "InvalidNodePool", "InvalidRequest"
    ),
    "slow": Case(view(_HAND, _LATE), "Failed", "BootTimeout", "Slow", "0 of 1 node Ready after 1800s (bootSeconds)"),
    "slow, and Events say why": Case(
        view(_HAND, _LATE, pool_events=("CWInsufficientCapacity", "CWNodeCordoned")),
        "Failed",
        "BootTimeout",
        "NoCapacity",
        "Events: CWInsufficientCapacity, CWNodeCordoned",
    ),
    "slow, and Events say nothing": Case(view(_HAND, _LATE, pool_events=("Odd",)), "Failed", "BootTimeout", "Slow"),
    "agents are slow": Case(
        view(_HAND.condition("NodesReady", "True", ago=1800), _POOL, [node()], [worker()]),
        "Failed",
        "InitTimeout",
        "Slow",
    ),
    # the API's own word on the creation
    "its turn has not come": Case(
        view(_HAND, obstacle=rate_limited(60)), "Pending", "LaunchRateLimited", "", "at most 60 NodePools a minute"
    ),
    "creation is invalid": Case(
        view(_HAND, obstacle=_INVALID), "Failed", "InvalidNodePool", "InvalidRequest", "no such field"
    ),
    "creation is refused": Case(
        view(_HAND, obstacle=_REFUSED), "Pending", "NodePoolRefused", "", "may not; fails at 12:30:00 UTC (bootSeconds)"
    ),
    "creation is refused, group, for long": Case(
        view(_since(60), obstacle=_REFUSED), "Failed", "NodePoolRefused", "Internal", "for 60s"
    ),
    "creation is refused, by hand, for long": Case(
        view(_since(1800, _HAND), obstacle=_REFUSED), "Failed", "NodePoolRefused", "Internal"
    ),
    "a refused deletion is no launch": Case(
        view(_HAND, obstacle=Obstacle("delete", "R", "m")), "Pending", "CreatingNodePool"
    ),
    # not what was ordered
    "unfit": Case(
        view(_GPUS, _POOL, [node(gpu=7)]),
        "Booting",
        "NodeUnfit",
        "",
        "7 of 8 GPUs (nvidia.com/gpu); fails at 12:05:00 UTC",
    ),
    "unfit, within its time": Case(
        view(_GPUS.condition("NodesFit", "False", ago=299), _POOL, [node(gpu=7)]), "Booting", "NodeUnfit"
    ),
    "unfit for too long": Case(
        view(_GPUS.condition("NodesFit", "False", ago=300), _POOL, [node(gpu=7)]),
        "Failed",
        "NodeUnfit",
        "NodeUnfit",
        "node s-n0 offers 7 of 8 GPUs (nvidia.com/gpu): for 300s (fitSeconds)",
    ),
    "no InfiniBand for too long": Case(
        view(slice_(infiniband=True).condition("NodesFit", "False", ago=300), _POOL, [node()]),
        "Failed",
        "NodeUnfit",
        "NodeUnfit",
    ),
    "unfit, but the boot limit comes first": Case(
        view(_GPUS, _LATE, [node(gpu=7)]), "Failed", "BootTimeout", "NodeUnfit"
    ),
    "another node was unfit before this one": Case(
        view(
            slice_(gpusPerNode=8, nodeCount=2).condition("NodesFit", "False", ago=400),
            _POOL,
            [node(gpu=8), node(rank=1, gpu=0).status(conditions=[]).condition("Ready", "True", ago=60)],
            [worker()],
        ),
        "Booting",
        "NodeUnfit",
        "",
        "fails at 12:04:00 UTC",
    ),
    # lost
    "lost, by hand": Case(
        healthy(
            _HAND.phase("Ready").status(nodes=[{"rank": 0, "name": "s-n0", "ready": True}]), leases=[lease(ago=41)]
        ),
        "Degraded",
        "NodeStatusUnknown",
        "",
        "fails at 12:15:00 UTC (repair.delaySeconds)",
    ),
    "lost for too long, by hand": Case(
        healthy(
            _HAND.phase("Degraded").status(nodes=[{"rank": 0, "lostSince": "2026-11-21T11:45:00Z"}]),
            leases=[lease(ago=41)],
        ),
        "Failed",
        "NodeLost",
        "NodeLost",
        "lost for 900s (repair.delaySeconds): the agent in s-worker-0 has been silent",
    ),
    "lost for long, policy Wait": Case(
        healthy(
            slice_(repair={"policy": "Wait"})
            .phase("Degraded")
            .status(nodes=[{"rank": 0, "lostSince": "2026-11-21T10:00:00Z"}]),
            leases=[lease(ago=41)],
        ),
        "Degraded",
        "NodeStatusUnknown",
    ),
    "lost for long, of a group: not its own decision": Case(
        healthy(
            _GROUP.phase("Degraded").status(nodes=[{"rank": 0, "lostSince": "2026-11-21T10:00:00Z"}]),
            leases=[lease(ago=41)],
        ),
        "Degraded",
        "NodeStatusUnknown",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_failures(name: str) -> None:
    case = CASES[name]
    plan = plan_live_slice(case.view, NOW)
    assert (plan.status.phase, ready_reason(plan)) == (SlicePhase(case.phase), case.reason)
    assert (plan.status.failure or "") == case.failure
    assert case.words in plan.status.message
    if case.phase == "Failed":
        assert verbs(plan) == []
        assert plan.notes[0].type == "Warning" and plan.notes[0].message.startswith(f"{case.failure}: ")
        return
    # a second pass has nothing new to say: else it would be written for ever
    again = replace(case.view, slice=case.view.slice.model_copy(update={"status": plan.status}))
    second = plan_live_slice(again, NOW + timedelta(seconds=0.5))
    assert second.status.stated() == plan.status.stated()


def test_the_reason_is_in_the_conditions() -> None:
    plan = plan_live_slice(view(_GPUS, _POOL, [node(gpu=7)]), NOW)
    fit, ready = (find_condition(plan.status.conditions, kind) for kind in ("NodesFit", "NodesReady"))
    assert fit is not None and (fit.status, fit.reason) == ("False", "NodeUnfit") and "7 of 8 GPUs" in fit.message
    assert ready is not None and (ready.status, ready.reason) == ("False", "NodeUnfit")


def test_a_fit_node_clears_the_condition_that_one_was_not() -> None:
    plan = plan_live_slice(view(_GPUS.condition("NodesFit", "False", ago=100), _POOL, [node(gpu=8)]), NOW)
    fit = find_condition(plan.status.conditions, "NodesFit")
    assert fit is not None and fit.status == "True"
    assert find_condition(plan_live_slice(view(_GPUS, _POOL, [node(gpu=8)]), NOW).status.conditions, "NodesFit") is None


def test_looks_again_when_a_time_is_over() -> None:
    assert plan_live_slice(view(_since(20), _NO_QUOTA), NOW).recheck_seconds == 40
    assert plan_live_slice(view(_GPUS, _POOL, [node(gpu=7)]), NOW).recheck_seconds == 300
    lost = healthy(_HAND.phase("Degraded").status(nodes=[{"rank": 0, "lostSince": "2026-11-21T11:59:00Z"}]), leases=[])
    assert plan_live_slice(lost, NOW).recheck_seconds == 840


def test_boots_are_learned_and_timed() -> None:
    plan = plan_live_slice(view(_GROUP, _POOL.made(840), boots=(1020, 1320, 1100, 1200, 1300)), NOW)
    assert plan.status.message == (
        "0 of 1 node Ready; booting 10 min; last 5 took 17-22 min; fails at 12:16:00 UTC (bootSeconds)"
    )
    assert plan.status.launched_at == NOW - timedelta(seconds=840)
    assert plan.status.boot_seconds is None
    booted = plan_live_slice(view(_GROUP, _POOL.made(840), [node()]), NOW).status
    assert booted.boot_seconds == 840
    later = _GROUP.status(bootSeconds=840)
    assert plan_live_slice(view(later, _POOL.made(2000), [node()]), NOW).status.boot_seconds == 840


def test_nothing_launched_bills_nothing() -> None:
    status = plan_live_slice(view(_HAND, obstacle=rate_limited(60)), NOW).status
    assert (status.node_pool_name, status.launched_at) == ("", None)
    assert plan_live_slice(view(_HAND, _POOL), NOW).status.node_pool_name == "team-s"
