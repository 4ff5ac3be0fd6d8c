"""What /metrics says: gauges of what is there, events once each."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.api.base import Resource
from iris_operator.controller.memo import Controller
from iris_operator.ports.kube import NODEPOOLS, SCALE_GROUPS, SLICES, TASKS, Kind
from iris_operator.server.metrics import Metrics, Sources
from iris_operator.server.tally import Tally
from tests.builders import NOW, Builder, at, group, group_member, member, node_pool, slice_, task

_KINDS = {"Slice": SLICES, "ScaleGroup": SCALE_GROUPS, "Task": TASKS, "NodePool": NODEPOOLS}


@dataclass
class World:
    """A real controller's cache, fed by hand, and its metrics."""

    controller: Controller
    clock: float = 0.0
    version: int = 0
    writes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        tally = Tally(self.controller.namespaces, lambda: self.clock, lambda: self.now)
        cache = self.controller.cache
        self.controller.listeners.append(tally.observe)
        self.metrics = Metrics(
            Sources(
                leading=lambda: True,
                queued=lambda: len(self.controller.queue),
                groups=cache.groups.values,
                slices=cache.slices.values,
                tasks=lambda: cache.open_tasks("team"),
                writes=self.controller.writes,
                counters=self.controller.counters,
            ),
            tally,
        )

    @property
    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.clock)

    def see(self, *builders: Builder[Any]) -> None:
        """The watch tells of these, as they are now."""
        for one in builders:
            self.version += 1
            body = one.meta(resourceVersion=str(self.version)).body()
            self.controller.observe(_kind(one.build()), body)

    def gone(self, one: Builder[Any]) -> None:
        self.controller.observe(_kind(one.build()), one.body(), gone=True)

    def samples(self, name: str) -> dict[tuple[str, ...], float]:
        """Label values, in the order of their names, to value; zeros left out."""
        found = {}
        for family in text_string_to_metric_families(self.metrics.text()):
            for sample in family.samples:
                if sample.name == name and sample.value:
                    found[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
        return found


def _kind(found: Resource) -> Kind:
    return _KINDS[found.KIND]


@pytest.fixture
async def world() -> World:
    asyncio.get_running_loop()
    return World(Controller(FakeKube(), ("team",), "1"))


def decision(action: str, ago: float, reason: str = "Demand", message: str = "because") -> dict[str, str]:
    return {"time": at(ago), "action": action, "reason": reason, "message": message}


async def test_slices_by_group_and_phase(world: World) -> None:
    world.see(group("g"), group_member("g", "a").phase("Ready"), group_member("g", "b").phase("Booting"), slice_("c"))
    assert world.samples("iris_slices") == {("g", "team", "Ready"): 1, ("g", "team", "Booting"): 1,
                                            ("", "team", "Pending"): 1}  # fmt: skip
    world.see(group_member("g", "b").phase("Ready"))
    world.gone(group_member("g", "a"))
    assert world.samples("iris_slices") == {("g", "team", "Ready"): 1, ("", "team", "Pending"): 1}


async def test_a_known_group_shows_zeros_too(world: World) -> None:
    world.see(group("g"))
    assert 'iris_slices{group="g",namespace="team",phase="Failed"} 0.0' in world.metrics.text()


async def test_demand_losses_and_waiting_tasks(world: World) -> None:
    world.see(
        group("g").status(demand=3, losses=5, spotLosses=2),
        task("a").status(phase="Pending", reason="NoRoom"),
        task("b").status(phase="Pending", reason="NoRoom"),
        task("c"),
        task("d").bound("s"),
        task("e").phase("Succeeded"),
        task("f").deleting(),
        task("g", replicas=2).phase("Running"),
        task("h", replicas=2).status(phase="Pending", reason="TooLarge"),
        member("h", 0),
        member("h", 1),
    )
    assert world.samples("iris_group_demand_slices") == {("g", "team"): 3}
    assert world.samples("iris_slice_losses_total") == {("default", "g", "team"): 5, ("spot", "g", "team"): 2}
    assert world.samples("iris_tasks_waiting") == {
        ("team", "NoRoom"): 2,
        ("team", "New"): 1,
        ("team", "TooLarge"): 1,  # with all its members
    }


async def test_a_boot_is_observed_once(world: World) -> None:
    booting = group_member("g", "a").phase("Booting").status(launchedAt=at(1000))
    world.see(booting, booting.status(bootSeconds=1000), booting.phase("Ready").status(bootSeconds=1000))
    world.see(group_member("g", "b"), group_member("g", "b").status(bootSeconds=60))
    assert sum(world.samples("iris_slice_boot_seconds_count").values()) == 2
    assert sum(world.samples("iris_slice_boot_seconds_sum").values()) == 1060
    buckets = {key[2]: value for key, value in world.samples("iris_slice_boot_seconds_bucket").items()}
    assert (buckets["60.0"], buckets["900.0"], buckets["1050.0"], buckets["+Inf"]) == (1, 1, 2, 2)


@pytest.mark.parametrize(
    "status",
    [
        {"launchedAt": at(100), "bootSeconds": 90},
        {"phase": "Failed", "failure": "OverQuota"},
    ],
)
async def test_what_was_so_when_first_seen_is_not_counted(world: World, status: dict[str, Any]) -> None:
    """A former leader counted it."""
    world.see(slice_("a").status(**status))
    for name in ("iris_slice_boot_seconds_count", "iris_slice_failures_total"):
        assert world.samples(name) == {}


async def test_a_failure_is_counted_once(world: World) -> None:
    new = group_member("g", "a")
    failed = new.status(launchedAt=at(5), failure="NoCapacity", phase="Failed")
    world.see(group_member("g", "a"), failed, failed.status(message="other"))
    assert world.samples("iris_slice_failures_total") == {("g", "NoCapacity", "team"): 1}


async def test_a_namesake_is_another_slice(world: World) -> None:
    world.see(slice_("a").status(phase="Booting"))
    world.see(slice_("a").meta(uid="another").status(phase="Ready", launchedAt=at(5), bootSeconds=5))
    assert world.samples("iris_slice_boot_seconds_count") == {}


async def test_each_decision_is_counted_once(world: World) -> None:
    one, two, three = decision("ScaleUp", 30), decision("ScaleUp", 20), decision("ScaleDown", 10, "Idle")
    world.see(group("g").status(decisions=[one]))
    assert world.samples("iris_scaling_decisions_total") == {}
    world.see(group("g").status(decisions=[two, one]))
    world.see(group("g").status(decisions=[two, one], message="other"))
    world.see(group("g").status(decisions=[three, two]))  # the oldest fell off
    assert world.samples("iris_scaling_decisions_total") == {
        ("ScaleUp", "g", "team", "Demand"): 1, ("ScaleDown", "g", "team", "Idle"): 1,
    }  # fmt: skip


async def test_node_seconds_last_as_long_as_the_node_pool(world: World) -> None:
    world.see(slice_("s"))
    pool = node_pool("s", targetNodes=2).labelled(**{"iris-managed": "true", "iris-scale-group": "g"})
    world.see(node_pool("first").labelled(**{"iris-managed": "true"}).made(0))
    world.clock = 100
    world.see(pool.made(-90))
    world.clock = 160
    world.gone(slice_("s"))
    world.clock = 200
    world.gone(pool)
    world.clock = 1000
    assert world.samples("iris_node_seconds_total")[("g", "team")] == 2 * 110


async def test_racks_bill_all_their_nodes(world: World) -> None:
    world.see(node_pool("s", targetNodes=0, targetRacks=2).labelled(**{"iris-managed": "true"}))
    world.clock = 10
    assert world.samples("iris_node_seconds_total") == {("", "team"): 360}


async def test_strangers_node_pools_bill_others(world: World) -> None:
    ours = node_pool("s").labelled(**{"iris-managed": "true"})
    elsewhere = ours.meta(name="x", annotations={"iris.dev/slice": "elsewhere/s"})
    world.see(elsewhere, node_pool("t").meta(name="y", labels={}))
    world.clock = 100
    assert world.samples("iris_node_seconds_total") == {}


async def test_idle_node_seconds(world: World) -> None:
    ready = group_member("g", "a").spec(nodeCount=4).ready({"cpu": 1})
    world.see(ready.status(idleSince=at(0)))
    world.clock = 10
    world.see(ready.status(tasks=1, idleSince=None))
    world.clock = 50
    world.see(ready.status(tasks=0, idleSince=at(-50)))
    world.clock = 55
    world.gone(ready)
    world.clock = 100
    assert world.samples("iris_slice_idle_node_seconds_total") == {("g", "team"): 4 * 15}


async def test_a_slice_that_boots_is_not_idle(world: World) -> None:
    world.see(slice_("a").phase("Booting").status(idleSince=at(60)))
    world.clock = 100
    assert world.samples("iris_slice_idle_node_seconds_total") == {}


async def test_the_process(world: World) -> None:
    world.controller.writes["patch/status tasks"] += 3
    world.controller.counters["iris_orphaned_nodepools_total"] += 2
    world.controller.counters["iris_launches_total"] += 4
    assert world.samples("iris_operator_api_writes_total") == {("tasks", "patch/status"): 3}
    assert world.samples("iris_orphaned_nodepools_total") == {(): 2}
    assert world.samples("iris_launches_total") == {(): 4}
    assert world.samples("iris_operator_leading") == {(): 1}
    assert world.samples("iris_operator_queue_depth") == {}
    world.see(slice_("a"))
    assert world.samples("iris_operator_queue_depth")[()] >= 1


async def test_two_operators_in_one_process_share_nothing(world: World) -> None:
    other = World(Controller(FakeKube(), ("team",), "1"))
    world.see(slice_("a"))
    assert other.samples("iris_slices") == {}


async def test_the_operations_page_lists_all_of_them_with_their_labels(world: World) -> None:
    world.see(
        group("g").status(decisions=[decision("ScaleUp", 30)]),
        group("g").status(decisions=[decision("ScaleUp", 20)]),
        group_member("g", "a"),
        group_member("g", "a").ready({"cpu": 1}).status(idleSince=at(0), bootSeconds=1, failure="Slow"),
        node_pool("a").labelled(**{"iris-managed": "true"}),
        task("t"),
    )
    world.controller.writes["patch tasks"] += 1
    shown = {}
    for family in text_string_to_metric_families(world.metrics.text()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        shown[name] = (family.type, labels)
    page = (Path(__file__).parents[4] / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| `(iris_\w+)` \| (\w+) \|([a-z_, ]*)\|", page, re.MULTILINE)
    assert {name: (kind, set(labels.replace(" ", "").split(",")) - {""}) for name, kind, labels in rows} == shown
