"""Machines that are no Kubernetes nodes: from their agents' Leases to a Slice that is Ready, and what becomes of their Tasks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.api.core import Lease
from iris_operator.api.names import ANNOTATION_MACHINE, LABEL_MACHINE, LABEL_SLICE
from iris_operator.api.task import Task
from iris_operator.controller.cache import Cache
from iris_operator.controller.handlers.tasks import TaskReconciler
from iris_operator.controller.memo import Controller
from iris_operator.controller.routing import SLICE, TASK, route
from iris_operator.controller.workqueue import Key
from iris_operator.plan.slices.lifecycle import plan_slice
from iris_operator.plan.slices.plan import SlicePlan
from iris_operator.plan.tasks.lifecycle import plan_task
from iris_operator.ports.kube import IRIS_CLUSTERS, LEASES, SLICES, TASKS
from tests.builders import NAMESPACE, NOW, Builder, SliceBuilder, cluster, lease, slice_, task
from tests.unit.iris_operator.plan.views import ready_reason, verbs

OURS = slice_(external={"serviceAccountName": "machines"}, nodeCount=2)
CAPACITY = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8"}


def machine(rank: int = 0, ago: float = 1, **said: Any) -> Builder[Lease]:
    """The Lease of an agent outside of Pods."""
    facts = {"nodeName": f"m{rank}", "address": f"192.0.2.{rank + 1}", "capacity": CAPACITY, **said}
    made = lease(rank=rank, ago=ago).labelled(**{"iris-managed": "true", LABEL_SLICE: "s", LABEL_MACHINE: "true"})
    return made.meta(annotations={ANNOTATION_MACHINE: json.dumps(facts)})


def cache_of(*machines: Builder[Lease], owner: SliceBuilder = OURS) -> Cache:
    cache = Cache()
    cache.put(IRIS_CLUSTERS, cluster(worker={"agentReserve": {"cpu": "1", "memory": "6Gi"}}).body())
    cache.put(SLICES, owner.body())
    for one in machines:
        cache.put(LEASES, one.body())
    return cache


def plan_of(cache: Cache) -> SlicePlan:
    return plan_slice(cache.slice_view(cache.slices["team/s"]), NOW)


def test_two_that_have_registered_make_it_ready() -> None:
    plan = plan_of(cache_of(machine(0), machine(1)))
    assert (plan.status.phase, verbs(plan)) == ("Ready", [])
    first, second = plan.status.nodes
    assert (first.name, first.worker_pod, first.worker_uid) == ("m0", "s-worker-0", "uid-s-worker-0")
    assert first.allocatable == {"cpu": "63", "memory": "250Gi", "nvidia.com/gpu": "8"}
    assert (second.rank, second.name, second.address, second.ready) == (1, "m1", "192.0.2.2", True)


def test_it_waits_for_one_that_has_not_for_ever() -> None:
    cache = cache_of(machine(0), owner=OURS.made(10**7))
    plan = plan_of(cache)
    assert (plan.status.phase, ready_reason(plan), verbs(plan)) == ("Initializing", "NodeMissing", [])
    assert plan.status.message == "waits for its node"


@pytest.mark.parametrize(
    ("owner", "late", "reason", "words"),
    [
        (OURS.ready({"cpu": 1}, {"cpu": 1}).meta(annotations={}), machine(1, ago=4000), "NodeStatusUnknown", "silent"),
        (OURS.ready({"cpu": 1}, {"cpu": 1}), machine(1, capacity={"cpu": "1"}), "", ""),
    ],
    ids=["silent", "smaller than it was"],
)
def test_one_that_is_lost_never_fails_it(owner: SliceBuilder, late: Builder[Lease], reason: str, words: str) -> None:
    plan = plan_of(cache_of(machine(0), late, owner=owner))
    assert plan.status.phase == ("Degraded" if reason else "Ready")
    assert ready_reason(plan) == (reason or "AgentsReady")
    assert words in plan.status.message


def test_too_few_gpus_are_said() -> None:
    plan = plan_of(cache_of(machine(0, capacity={"cpu": "8", "memory": "8Gi"}), owner=slice_(
        external={"serviceAccountName": "machines"}, gpusPerNode=8)))  # fmt: skip
    assert plan.status.phase == "Initializing"
    assert "GPU" in plan.status.message


def test_what_is_no_machine_of_it_is_nothing() -> None:
    strange = [
        machine(0).meta(annotations={ANNOTATION_MACHINE: "{"}),
        machine(1).labelled(**{LABEL_MACHINE: "false"}),
        machine(7),
    ]
    view = cache_of(*strange).slice_view(OURS.build())
    assert (view.nodes, view.pods) == ((), {})


def test_deleted_it_stops_its_tasks_and_leaves_the_machines() -> None:
    cache = cache_of(machine(0), machine(1), owner=OURS.deleting(1))
    cache.put(TASKS, task().bound().phase("Running").body())
    told = plan_of(cache)
    assert verbs(told) == ["StopTask"]
    cache.drop(TASKS, "team/t")
    assert verbs(plan_of(cache)) == ["RemoveFinalizer"]


def bound(cache: Cache) -> Task:
    cache.put(TASKS, task().bound().phase("Running").body())
    return cache.tasks["team/t"]


def test_a_task_stays_while_its_machines_lease_does() -> None:
    """However silent: it may run there still."""
    cache = cache_of(machine(0, ago=10**6))
    assert plan_task(bound(cache), cache.worker_exists(bound(cache)), NOW).status is None
    cache.put(LEASES, machine(0).spec(holderIdentity="another").meta(resourceVersion="2").body())
    assert not cache.worker_exists(bound(cache))
    cache.drop(LEASES, "team/s-worker-0")
    plan = plan_task(bound(cache), cache.worker_exists(bound(cache)), NOW)
    assert plan.lost
    assert plan.status is not None
    assert plan.status.reason == "WorkerLost"


def test_whom_a_lease_concerns() -> None:
    cache = cache_of(machine(0))
    bound(cache)
    before = cache.leases["team/s-worker-0"]
    keys = [key for key, _ in route(LEASES, before, None, cache)]
    assert keys == [Key(SLICE, "team/s"), Key(TASK, "team/t")]
    same = machine(0, ago=0).meta(resourceVersion="2").build()
    assert not list(route(LEASES, same, before, cache))
    other = machine(0, ago=0, address="192.0.2.9").build()
    assert list(route(LEASES, other, before, cache))
    cache.drop(LEASES, before.key)
    assert [key for key, _ in route(LEASES, before, before, cache)] == keys


async def test_the_api_itself_is_asked_before_a_task_counts_as_lost() -> None:
    api = FakeKube()
    controller = Controller(api, (NAMESPACE,), "1", now=lambda: NOW)
    made = await api.create(TASKS, task().bound().phase("Running").body(), NAMESPACE)
    await api.create(LEASES, machine(0).body(), NAMESPACE)
    controller.observe(TASKS, made)  # our cache knows of no Lease
    await TaskReconciler(controller).reconcile(Key(TASK, "team/t"))
    assert "status" not in await api.get(TASKS, "t", NAMESPACE)
    await api.delete(LEASES, "s-worker-0", NAMESPACE)
    await TaskReconciler(controller).reconcile(Key(TASK, "team/t"))
    assert (await api.get(TASKS, "t", NAMESPACE))["status"]["reason"] == "WorkerLost"
