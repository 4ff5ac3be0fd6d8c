"""A Slice's life from nothing to Ready, and what may go wrong on the way."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from iris_operator.api.cluster import IrisClusterSpec
from iris_operator.api.slice import SlicePhase
from iris_operator.plan.actions import CreateWorker, DeleteWorker
from iris_operator.plan.conditions import find_condition
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.slices.lifecycle import plan_live_slice
from iris_operator.plan.slices.snapshot import SliceView
from tests.builders import NOW, cluster, lease, node, node_pool, slice_, task, worker
from tests.unit.iris_operator.plan.views import healthy, ready_reason, verbs, view

_POOL = node_pool().validated().made(600)
_H100 = slice_(gpusPerNode=8)


@dataclass(frozen=True)
class Case:
    """A view; the phase and Ready's reason judged from it, words of the message, and the actions."""

    view: SliceView
    phase: str
    reason: str
    words: str = ""
    actions: tuple[str, ...] = ()


CASES = {
    "brand new": Case(
        view(slice_().meta(finalizers=[])),
        "Pending",
        "CreatingNodePool",
        "is being made",
        ("AddFinalizer", "ApplyNodePool"),
    ),
    "its NodePool is lost before it was Ready": Case(
        view(slice_()),
        "Pending",
        "CreatingNodePool",
        "",
        ("ApplyNodePool",),
    ),
    "no settings": Case(
        view(slice_(), settings=NoCluster("ClusterNotFound", "no IrisCluster")),
        "Pending",
        "ClusterNotFound",
        "no IrisCluster",
    ),
    "name taken": Case(
        view(slice_(), node_pool().meta(annotations={})),
        "Pending",
        "NodePoolNameTaken",
        "NodePool team-s exists",
    ),
    "not looked at yet": Case(
        view(slice_(), node_pool().made(5)),
        "Booting",
        "WaitingForNodes",
        "0 of 1 node Ready; NodePool team-s has not been",
    ),
    "booting": Case(
        view(slice_(), _POOL.status(inProgress=1)),
        "Booting",
        "WaitingForNodes",
        "0 of 1 node Ready; booting 10 min; bare metal usually takes 20 to 30 min; fails at 12:20:00 UTC",
    ),
    "no capacity, still time": Case(
        view(slice_(), _POOL.condition("Capacity", "False", "QueuedAwaitingCapacity")),
        "Booting",
        "NoCapacity",
        "waits for capacity",
    ),
    "over quota, still time": Case(
        view(slice_(), _POOL.condition("Quota", "False", "Over")),
        "Booting",
        "OverQuota",
        "over quota",
    ),
    "rejected": Case(
        view(slice_(), node_pool().condition("Validated", "False", "Invalid", "no such type")),
        "Failed",
        "InvalidNodePool",
        "no such type",
    ),
    "node not Ready": Case(
        view(slice_(), _POOL, [node().not_ready()]),
        "Booting",
        "WaitingForNodes",
        "0 of 1 node Ready",
    ),
    "one second before the boot limit": Case(view(slice_(), _POOL.made(1799)), "Booting", "WaitingForNodes"),
    "boot limit": Case(
        view(slice_(), _POOL.made(1800), [node().not_ready()]),
        "Failed",
        "BootTimeout",
        "after 1800s (bootSeconds): node s-n0 is not Ready",
    ),
    "boot limit, out of capacity": Case(
        view(slice_(), _POOL.made(1801).condition("Capacity", "False", "Queued")),
        "Failed",
        "BootTimeout",
        "waits for capacity: Queued",
    ),
    "GPUs missing": Case(
        view(_H100, _POOL, [node(gpu=7)]),
        "Booting",
        "NodeUnfit",
        "node s-n0 offers 7 of 8 GPUs (nvidia.com/gpu); fails at 12:05:00 UTC (fitSeconds)",
    ),
    "GPUs missing at the limit": Case(
        view(_H100, _POOL.made(1800), [node(gpu=7)]),
        "Failed",
        "BootTimeout",
        "node s-n0 offers 7 of 8 GPUs (nvidia.com/gpu)",
    ),
    "no GPUs at all at the limit": Case(
        view(_H100, _POOL.made(1800), [node()]),
        "Failed",
        "BootTimeout",
        "offers 0 of 8 GPUs",
    ),
    "all GPUs there": Case(
        view(_H100, _POOL, [node(gpu=8)]),
        "Initializing",
        "WaitingForAgents",
        "is being made",
        ("CreateWorker",),
    ),
    "one node of two": Case(
        view(slice_(nodeCount=2), _POOL, [node()]),
        "Booting",
        "WaitingForNodes",
        "1 of 2 nodes Ready",
        ("CreateWorker",),
    ),
    "no agent image": Case(
        view(slice_(), _POOL, [node()], settings=cluster(images={}).build().spec),
        "Initializing",
        "WaitingForAgents",
        "IrisCluster names no spec.images.agent",
    ),
    "worker made": Case(
        view(slice_(), _POOL, [node()], [worker()]),
        "Initializing",
        "WaitingForAgents",
        "worker Pod s-worker-0: Pending",
    ),
    "worker can't pull": Case(
        view(
            slice_(),
            _POOL,
            [node()],
            [
                worker().status(
                    containerStatuses=[
                        {
                            "name": "agent",
                            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
                        }
                    ]
                )
            ],
        ),
        "Initializing",
        "WaitingForAgents",
        "ImagePullBackOff: no such image",
    ),
    "agent has not registered": Case(
        view(slice_(), _POOL, [node()], [worker().ready()]),
        "Initializing",
        "WaitingForAgents",
        "has not registered yet",
    ),
    "a Lease of the Pod before": Case(
        view(slice_(), _POOL, [node()], [worker().ready().meta(uid="new")], [lease()]),
        "Initializing",
        "WaitingForAgents",
        "has not registered yet",
    ),
    "agent with a problem": Case(
        view(slice_(), _POOL, [node()], [worker().ready()], [lease(problem="containerd is down")]),
        "Initializing",
        "WaitingForAgents",
        "containerd is down",
    ),
    "agent that can't begin": Case(
        view(slice_(), _POOL, [node()], [worker()], [lease(problem="there is no enroot")]),
        "Initializing",
        "WaitingForAgents",
        "there is no enroot",
    ),
    "init limit": Case(
        view(slice_().condition("NodesReady", "True", ago=1800), _POOL, [node()], [worker()]),
        "Failed",
        "InitTimeout",
        "no agent on every node after 1800s (initSeconds): worker Pod s-worker-0",
    ),
    "one second before the init limit": Case(
        view(slice_().condition("NodesReady", "True", ago=1799), _POOL, [node()], [worker()]),
        "Initializing",
        "WaitingForAgents",
    ),
    "ready": Case(healthy(), "Ready", "AgentsReady", "1 agent registered"),
    "ready, long after the boot limit": Case(
        healthy(slice_().phase("Ready"), pool=_POOL.made(10**6)), "Ready", "AgentsReady"
    ),
    "agent silent": Case(
        healthy(slice_().phase("Ready"), leases=[lease(ago=41)]),
        "Degraded",
        "NodeStatusUnknown",
        "the agent in s-worker-0 has been silent since 11:59:19 UTC (limit 40s)",
    ),
    "agent nearly silent": Case(healthy(slice_().phase("Ready"), leases=[lease(ago=40)]), "Ready", "AgentsReady"),
    "node turned NotReady": Case(
        healthy(slice_().phase("Ready"), nodes=[node().not_ready("NodeStatusUnknown", "kubelet stopped")]),
        "Degraded",
        "NodeNotReady",
        "node s-n0 is not Ready: NodeStatusUnknown: kubelet stopped",
    ),
    "GPU lost while Ready": Case(
        healthy(slice_(gpusPerNode=8).phase("Ready"), nodes=[node(gpu=7)]),
        "Degraded",
        "NodeUnfit",
        "7 of 8 GPUs",
    ),
    "node gone": Case(
        healthy(slice_().phase("Ready"), nodes=[]),
        "Degraded",
        "NodeMissing",
        "waits for its node",
        ("DeleteWorker",),
    ),
    "node gone, its worker forced already": Case(
        healthy(
            slice_().phase("Ready"), nodes=[], pods=[worker().ready().deleting().meta(deletionGracePeriodSeconds=0)]
        ),
        "Degraded",
        "NodeMissing",
    ),
    "worker Pod gone": Case(
        healthy(slice_().phase("Ready"), pods=[], leases=[]),
        "Degraded",
        "CreatingWorker",
        "is being made",
        ("CreateWorker",),
    ),
    "worker Pod evicted": Case(
        healthy(slice_().phase("Ready"), pods=[worker().status(phase="Failed")]),
        "Degraded",
        "ReplacingWorker",
        "being replaced",
        ("DeleteWorker",),
    ),
    "worker Pod leaving": Case(
        healthy(slice_().phase("Ready"), pods=[worker().ready().deleting()]),
        "Degraded",
        "ReplacingWorker",
        "being replaced",
    ),
    "a worker Pod too many": Case(
        healthy(slice_().phase("Ready"), pods=[worker().ready(), worker(rank=5)]),
        "Ready",
        "AgentsReady",
        "",
        ("DeleteWorker",),
    ),
    "NodePool deleted by somebody": Case(
        healthy(slice_().phase("Ready"), pool=None, nodes=[]),
        "Degraded",
        "NodeMissing",
        "",
        ("ApplyNodePool", "DeleteWorker"),
    ),
    "recovered": Case(healthy(slice_().phase("Degraded")), "Ready", "AgentsReady"),
}


@pytest.mark.parametrize("name", CASES)
def test_life(name: str) -> None:
    case = CASES[name]
    plan = plan_live_slice(case.view, NOW)
    assert (plan.status.phase, ready_reason(plan)) == (SlicePhase(case.phase), case.reason)
    assert case.words in plan.status.message
    assert verbs(plan) == list(case.actions)
    ready = find_condition(plan.status.conditions, "Ready")
    assert ready is not None and (ready.status == "True") == (case.phase == "Ready")


@pytest.mark.parametrize("name", CASES)
def test_a_second_pass_has_nothing_new_to_say(name: str) -> None:
    """Else a status that changes by itself would be written for ever."""
    case = CASES[name]
    first = plan_live_slice(case.view, NOW)
    if first.status.phase is SlicePhase.FAILED:
        return
    owner = case.view.slice.model_copy(update={"status": first.status})
    second = plan_live_slice(replace(case.view, slice=owner), NOW)
    assert second.status.stated() == first.status.stated()
    assert second.notes == ()


def test_a_change_of_phase_is_an_event() -> None:
    (note,) = plan_live_slice(healthy(slice_().phase("Initializing")), NOW).notes
    assert (note.type, note.reason) == ("Normal", "Ready")
    (note,) = plan_live_slice(healthy(slice_().phase("Ready"), leases=[lease(ago=99)]), NOW).notes
    assert (note.type, note.reason) == ("Warning", "Degraded")
    assert plan_live_slice(healthy(slice_().phase("Ready")), NOW).notes == ()


def test_phase_since_changes_with_the_phase_only() -> None:
    kept = plan_live_slice(healthy(slice_().phase("Ready", ago=500)), NOW).status
    assert kept.phase_since is not None and (NOW - kept.phase_since).total_seconds() == 500
    assert plan_live_slice(healthy(slice_().phase("Initializing", ago=500)), NOW).status.phase_since == NOW


def test_looks_again_at_the_limit_and_when_a_lease_would_be_stale() -> None:
    booting = plan_live_slice(view(slice_(), _POOL.made(1700)), NOW)
    assert booting.recheck_seconds == 100
    assert plan_live_slice(healthy(leases=[lease(ago=10)]), NOW).recheck_seconds == 31
    silent = plan_live_slice(healthy(slice_().phase("Ready"), leases=[lease(ago=99)]), NOW)
    assert silent.recheck_seconds is None


def test_a_replacement_gets_the_rank_of_the_lost_node() -> None:
    known = [{"rank": rank, "name": f"s-n{rank}", "ready": True} for rank in range(3)]
    owner = slice_(nodeCount=3).phase("Ready").status(nodes=known)
    nodes = [node(rank=0), node(rank=2), node(name="another")]
    pods = [worker(rank=0).ready(), worker(rank=2).ready()]
    plan = plan_live_slice(view(owner, _POOL, nodes, pods, [lease(rank=0), lease(rank=2)]), NOW)
    assert [one.name for one in plan.status.nodes] == ["s-n0", "another", "s-n2"]
    assert plan.actions == (CreateWorker(1, nodes[2].build()),)


def test_a_worker_on_the_lost_node_goes_before_its_rank_is_filled() -> None:
    """Two workers of one rank would have one name; and the old one's Tasks must be known lost first."""
    owner = slice_().phase("Ready").status(nodes=[{"rank": 0, "name": "s-n0"}])
    stale = worker().ready()
    plan = plan_live_slice(view(owner, _POOL, [node(name="another")], [stale], [lease()]), NOW)
    assert plan.actions == (DeleteWorker(stale.build(), force=True),)  # no kubelet is left to end it


def test_status_counts() -> None:
    owner = slice_().phase("Ready").status(idleSince="2026-11-21T11:00:00Z")
    busy = plan_live_slice(healthy(owner, tasks=[task("a").bound(), task("b").bound()]), NOW).status
    assert (busy.tasks, busy.idle_since, busy.nodes_ready) == (2, None, "1/1")
    idle = plan_live_slice(healthy(slice_().phase("Ready")), NOW).status
    assert (idle.tasks, idle.idle_since) == (0, NOW)
    assert idle.nodes[0].allocatable == {"cpu": "2900m", "memory": "5888Mi"}
    assert idle.nodes[0].worker_uid == "uid-s-worker-0"


def test_settings_count() -> None:
    strict = IrisClusterSpec.model_validate({"images": {"agent": "a"}, "timeouts": {"bootSeconds": 60}})
    assert plan_live_slice(view(slice_(), _POOL.made(61), settings=strict), NOW).status.phase is SlicePhase.FAILED
